// Command devices is what upstream's own code says of devices: whether a CEL selector matches one, and which of them a claim gets.
// It answers a batch, one JSON line for each line of standard input, in their order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// What can be asked, by the name of the question: each takes the line and gives what is to be written.
var questions = map[string]func(line []byte) (any, error){
	"cel":      selects,
	"allocate": allocates,
}

func main() {
	klog.SetLogger(logr.Discard())
	if len(os.Args) != 2 || questions[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: devices cel|allocate <questions >answers")
		os.Exit(2)
	}
	if err := serve(os.Stdin, os.Stdout, questions[os.Args[1]]); err != nil {
		fmt.Fprintf(os.Stderr, "devices: %v\n", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer, answer func([]byte) (any, error)) error {
	reader, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			given, err := answer(line)
			if err != nil {
				return fmt.Errorf("%w; the question was %s", err, line)
			}
			if err := encoder.Encode(given); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return writer.Flush()
		} else if err != nil {
			return err
		}
		// Who asks one thing at a time must not wait for a full buffer.
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}
