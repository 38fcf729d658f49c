// Command crane makes and checks OCI image layouts with the library of the tool of that name, whose commands want a registry or
// a daemon for both.
//
//	crane pack [-level N] OUT LAYER.tar…   an image of these layers; its configuration comes on standard input. Prints the digest
//	crane check LAYOUT                     every digest and size; and a registry (in this process) takes the image and gives it back
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crane:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	usage := fmt.Errorf("usage: crane pack [-level N] OUT LAYER.tar… | crane check LAYOUT")
	if len(args) == 0 {
		return usage
	}
	switch args[0] {
	case "pack":
		flags := flag.NewFlagSet("pack", flag.ContinueOnError)
		level := flags.Int("level", 9, "of gzip, 1 to 9")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() < 2 {
			return usage
		}
		return pack(os.Stdin, flags.Arg(0), flags.Args()[1:], *level)
	case "check":
		if len(args) != 2 {
			return usage
		}
		return check(args[1])
	}
	return usage
}
