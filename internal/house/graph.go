package house

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Layers returns the packages by the length of their longest path of imports: the first layer
// imports no package of this module, each other layer imports from the one before it.
func (h *House) Layers() (layers [][]*Package) {
	depths := map[string]int{}
	for _, p := range h.Packages {
		depth := h.depth(p, depths)
		for len(layers) <= depth {
			layers = append(layers, nil)
		}
		layers[depth] = append(layers[depth], p)
	}
	return layers
}

// depth returns the length of the longest path of imports that begins at a package. The
// compiler refuses cycles.
func (h *House) depth(p *Package, known map[string]int) int {
	if depth, ok := known[p.Path]; ok {
		return depth
	}
	depth := 0
	for _, dir := range h.ours(p) {
		if below := h.Package(dir); below != nil {
			depth = max(depth, h.depth(below, known)+1)
		}
	}
	known[p.Path] = depth
	return depth
}

// WriteLayers writes the packages layer by layer, each with the packages of this module that
// it imports, and the length of the longest path.
func (h *House) WriteLayers(w io.Writer) {
	arrows, layers := 0, h.Layers()
	for depth, layer := range slices.Backward(layers) {
		fmt.Fprintf(w, "layer %d\n", depth)
		for _, p := range layer {
			ours := h.ours(p)
			arrows += len(ours)
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-38s %s", p.Path, strings.Join(ours, " ")), " "))
		}
	}
	fmt.Fprintf(w, "%d packages, %d imports, longest path %d\n", len(h.Packages), arrows, len(layers)-1)
}

// WriteDot writes the packages and their imports in the language of Graphviz, without the
// imports that a longer path implies.
func (h *House) WriteDot(w io.Writer) {
	fmt.Fprint(w, "digraph {\n\trankdir=TB; node [shape=box];\n")
	for _, p := range h.Packages {
		fmt.Fprintf(w, "\t%q;\n", p.Path)
		for _, dir := range h.ours(p) {
			if !h.implied(p, dir) {
				fmt.Fprintf(w, "\t%q -> %q;\n", p.Path, dir)
			}
		}
	}
	fmt.Fprint(w, "}\n")
}

// implied reports whether another import of p imports the package in dir, however far below.
func (h *House) implied(p *Package, dir string) bool {
	return slices.ContainsFunc(h.ours(p), func(other string) bool {
		reached := map[string]bool{}
		h.collect(h.Package(other), reached)
		return other != dir && reached[dir]
	})
}
