package house

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// WriteFigures writes the sizes of the module: of product code, of all other code, of each folder at the top.
func (h *House) WriteFigures(w io.Writer) {
	var product, other sample
	inProduct := h.Product()
	folders := map[string]*sample{}
	for _, p := range h.Packages {
		dir, _, _ := strings.Cut(p.Path, "/")
		if folders[dir] == nil {
			folders[dir] = &sample{}
		}
		for _, f := range p.Files {
			if inProduct[p.Path] && !f.Test {
				product.add(f, MaxProductLines)
				folders[dir].product += f.Lines
			} else {
				other.add(f, MaxTestLines)
				folders[dir].other += f.Lines
			}
		}
	}
	product.write(w, "product code (what the commands are made of)")
	other.write(w, "tests, examples, measuring")
	fmt.Fprintf(w, "\nlines by folder%26s %8s %8s\n", "product", "other", "share")
	for _, dir := range sortedBy(folders, func(s *sample) int { return -s.product }) {
		s := folders[dir]
		fmt.Fprintf(w, "  %-30s %8d %8d %7.1f%%\n", dir, s.product, s.other, 100*float64(s.product)/float64(product.lines))
	}
}

// sortedBy returns the keys of a map, sorted by a number and then by name.
func sortedBy[V any](m map[string]V, number func(V) int) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(number(m[a]), number(m[b])), cmp.Compare(a, b))
	})
	return keys
}

// sample adds up files.
type sample struct {
	product, other          int // lines of a folder
	files, lines, longFiles int
	lengths, complexities   []int
	exported, documented    int
}

func (s *sample) add(f File, limit int) {
	s.files++
	s.lines += f.Lines
	if f.Lines > limit {
		s.longFiles++
	}
	for _, function := range f.Functions {
		s.lengths = append(s.lengths, function.Lines)
		s.complexities = append(s.complexities, function.Complexity)
	}
	s.exported += f.Exported
	s.documented += f.Documented
}

func (s *sample) write(w io.Writer, title string) {
	complex := len(slices.DeleteFunc(slices.Clone(s.complexities), func(c int) bool { return c <= MaxComplexity }))
	fmt.Fprintf(w, "%s\n", title)
	fmt.Fprintf(w, "  files %d, lines %d, files above their limit (%d product, %d other) %d\n", s.files, s.lines, MaxProductLines, MaxTestLines, s.longFiles)
	fmt.Fprintf(w, "  functions %d, lines of a function: median %d, p90 %d, max %d\n", len(s.lengths), quantile(s.lengths, 50), quantile(s.lengths, 90), quantile(s.lengths, 100))
	fmt.Fprintf(w, "  cyclomatic complexity: above %d %d, max %d\n", MaxComplexity, complex, quantile(s.complexities, 100))
	fmt.Fprintf(w, "  exported names %d, with a comment %d\n", s.exported, s.documented)
}

// quantile returns the number that percent of the numbers do not exceed, 0 for none.
func quantile(numbers []int, percent int) int {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// WriteBinary writes the size of a compiled program and how many modules are in it.
func WriteBinary(w io.Writer, file string) error {
	size, err := os.Stat(file)
	if err != nil {
		return err
	}
	build, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s: %d bytes (%.1f MB), %d modules, %s\n", build.Path, size.Size(), float64(size.Size())/1e6, len(build.Deps), build.GoVersion)
	return nil
}
