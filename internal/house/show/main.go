// Command show prints the packages of this module in layers, or the figures of its source.
// It ends with 1 if the packages differ from the import table in docs/design.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"gatehouse.example/internal/house"
)

func main() {
	dot := flag.Bool("dot", false, "print the packages in the language of Graphviz")
	figures := flag.Bool("figures", false, "print the figures of the source")
	binary := flag.String("binary", "", "with -figures: a compiled program to measure")
	flag.Parse()
	if err := show(*dot, *figures, *binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func show(dot, figures bool, binary string) error {
	root, _, err := house.Here()
	if err != nil {
		return err
	}
	h, err := house.Read(root)
	switch {
	case err != nil:
		return err
	case figures && binary != "":
		h.WriteFigures(os.Stdout)
		return house.WriteBinary(os.Stdout, binary)
	case figures:
		h.WriteFigures(os.Stdout)
		return nil
	case dot:
		h.WriteDot(os.Stdout)
	default:
		h.WriteLayers(os.Stdout)
	}
	if faults := h.Check(); len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}
