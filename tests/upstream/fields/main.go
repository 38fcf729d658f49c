// Command fields tells how the published Go types of Kubernetes are written in protobuf and in JSON, and makes random objects in both,
// for the reader of protobuf and its tests.
//
//	fields table              every message, with the number, JSON name and type of each field: crates/cluster/src/proto/fields.txt
//	fields pairs SEED COUNT   COUNT objects of each kind, a line each: kind, JSON, and base64 of the protobuf message, with tabs between
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := run(out, os.Args[1:])
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}

func run(out *bufio.Writer, args []string) error {
	usage := errors.New("usage: fields table | fields pairs SEED COUNT")
	switch {
	case len(args) == 1 && args[0] == "table":
		return writeTable(out)
	case len(args) == 3 && args[0] == "pairs":
		seed, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil {
			return fmt.Errorf("the seed: %w", err)
		}
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return fmt.Errorf("the count: %w", err)
		}
		return writePairs(out, seed, count)
	}
	return usage
}
