// Command oracle is what upstream's own scheduler says of a cluster: for each pending pod and node the first plugin
// that refuses, or the score of each plugin. It answers a batch, one JSON line for each line of standard input.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

func main() {
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "how many requests are answered at once")
	logs := flag.Bool("logs", false, "let upstream's code log to standard error")
	flag.Parse()
	if !*logs {
		klog.SetLogger(logr.Discard())
	}
	contain()
	if version.Get().Major == "" {
		fail(errors.New("built without its version, which NodeDeclaredFeatures reads; build it with hack/upstream.sh --oracle"))
	}
	// A cluster's garbage is short-lived and the live heap small: collecting less often saves a third of the time.
	debug.SetGCPercent(400)
	if err := serve(os.Stdin, os.Stdout, max(1, *workers)); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "oracle: %v\n", err)
	os.Exit(1)
}

// serve answers the lines of in until it ends, at most workers at once, in the order in which they came.
func serve(in io.Reader, out io.Writer, workers int) error {
	pending := make(chan chan []byte, 4*workers)
	var readErr error
	go func() {
		defer close(pending)
		readErr = accept(bufio.NewReaderSize(in, 1<<20), pending, workers)
	}()
	writer := bufio.NewWriterSize(out, 1<<20)
	for slot := range pending {
		line := <-slot
		if _, err := writer.Write(line); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
		// Who asks one thing at a time must not wait for a full buffer.
		if len(pending) == 0 {
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("writing an answer: %w", err)
			}
		}
	}
	if err := writer.Flush(); err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	return readErr
}

// accept starts the work on each line, and puts the place of its answer in the queue.
func accept(in *bufio.Reader, pending chan<- chan []byte, workers int) error {
	free := make(chan struct{}, workers)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			slot := make(chan []byte, 1)
			pending <- slot
			free <- struct{}{}
			go func() {
				slot <- reply(line)
				<-free
			}()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
	}
}

// reply is the answer to one line, as a line.
func reply(line []byte) []byte {
	var asked request
	var given answer
	if err := json.Unmarshal(line, &asked); err != nil {
		given = answer{Error: fmt.Sprintf("request: %v", err)}
	} else {
		given = respond(&asked)
	}
	if given.Pods == nil {
		given.Pods = []podAnswer{}
	}
	text, err := json.Marshal(given)
	if err != nil {
		text, _ = json.Marshal(answer{ID: asked.ID, Pods: []podAnswer{}, Error: fmt.Sprintf("answer: %v", err)})
	}
	return append(text, '\n')
}

// respond judges every pending pod of one request.
func respond(asked *request) answer {
	given := answer{ID: asked.ID}
	objects, err := readObjects(asked)
	if err != nil {
		given.Error = err.Error()
		return given
	}
	given.Skipped = objects.skipped
	config, err := readConfig(asked)
	if err != nil {
		given.Error = fmt.Sprintf("config: %v", err)
		return given
	}
	cluster, err := newCluster(objects, config)
	if err != nil {
		given.Error = err.Error()
		return given
	}
	defer cluster.close()
	if asked.Preemption != nil {
		if err := cluster.hook(asked.Preemption, objects); err != nil {
			given.Error = err.Error()
			return given
		}
	}
	for _, pod := range objects.pending() {
		given.Pods = append(given.Pods, cluster.judge(pod, asked))
	}
	return given
}
