// Command plugin is what upstream's DynamicResources plugin says of a pod with resource claims, point by point, and what it writes.
// It answers a batch, one JSON line for each line of standard input, in their order. README.md describes the lines.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func init() {
	klog.SetLogger(logr.Discard())
	// The plugin counts, and does not ask whether there is anything to count with.
	metrics.InitMetrics()
}

func main() {
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: plugin <questions >answers")
		os.Exit(2)
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "plugin: %v\n", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			given, err := respond(line)
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

func respond(line []byte) (given any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			given, err = broken{Panic: fmt.Sprint(cause)}, nil
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if asked.Pod == nil {
		return nil, fmt.Errorf("there is no pod")
	}
	one, err := newCycle(&asked)
	if err != nil {
		return nil, err
	}
	if asked.Hint != nil {
		return one.hint(asked.Hint)
	}
	return one.run(&asked), nil
}
