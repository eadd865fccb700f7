package templates

import (
	"io/fs"
	"path"
)

// EmbeddedFiles returns the embedded files of the pages, by name.
func EmbeddedFiles() map[string]string {
	out := map[string]string{}
	names, _ := fs.Glob(embedded, "pages/*")
	for _, name := range names {
		b, _ := embedded.ReadFile(name)
		out[path.Base(name)] = string(b)
	}
	return out
}

// PageNames returns the names of all pages.
func PageNames() []string { return append(append([]string{}, setNames...), registryNames...) }

// HasSample reports whether a page has a sample.
func HasSample(name string) bool { return samples[name] != nil }
