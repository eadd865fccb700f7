package templates

import (
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"

	"gatehouse.example/templates/language"
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

// ServerPageNames returns the names of the pages of a Set.
func ServerPageNames() []string { return setNames }

// Sample writes the sample of a page.
func Sample(name string, s *Set, w io.Writer) error { return samples[name](s, w) }

// Calls returns how often a page calls a function, by its parsed text.
func (s *Set) Calls(page, function string) (n int) {
	parsed, err := s.pages[page]()
	if err != nil {
		panic(err)
	}
	for _, t := range parsed.Templates() {
		n += strings.Count(t.Tree.Root.String(), "{{"+function+" ")
	}
	return n
}

// Folded returns a template with the sentences in it that every reader of the language gets.
func Folded(text string, l *language.Language) string {
	t := template.Must(template.New("page").Funcs(functions(l)).Parse(text))
	foldList(t.Tree.Root, l, false)
	return t.Tree.Root.String()
}

// DirectlyOnly returns the pages without those of html/template: what package direct does not know is
// an error.
func (s *Set) DirectlyOnly() *Set {
	only := *s
	only.pages = pages{}
	for name, parse := range s.pages {
		only.pages[name] = func() (page, error) {
			p, err := parse()
			return page{template.New("none"), p.direct}, err
		}
	}
	return &only
}

// DirectlyOnly is that of a Set.
func (r *Registry) DirectlyOnly() *Registry { return &Registry{r.set.DirectlyOnly()} }

// Clean returns a text as pages show it, and the same without the shortcut for ASCII.
func Clean(s string) (shown, whole string) { return clean(s), cleanRunes(s) }
