package templates

import (
	"sync"

	"gatehouse.example/templates/language"
)

// kind is a kind of pages: those of an authorization server, or those of a registry.
type kind struct {
	styles, shared, names []string // the style, the files that all pages share, and the pages

	// embedded returns the embedded pages. They are one for all looks, which differ only in the data
	// that the pages show.
	embedded func() (*translations, error)
}

func newKind(styles, shared, names []string) *kind {
	k := &kind{styles: styles, shared: shared, names: names}
	k.embedded = sync.OnceValues(func() (*translations, error) {
		from, err := filesOf(nil)
		if err != nil {
			return nil, err
		}
		return k.translate(from), nil
	})
	return k
}

// translations are pages in each language. A page is parsed when it is first shown in a language.
type translations struct {
	kind  *kind
	from  files
	byTag map[string]func() pages
}

func (k *kind) translate(from files) *translations {
	t := &translations{kind: k, from: from, byTag: map[string]func() pages{}}
	for _, l := range language.Languages() {
		t.byTag[l.Tag] = sync.OnceValue(func() pages { return t.pages(l) })
	}
	return t
}

func (t *translations) pages(l *language.Language) pages {
	return t.from.pages(l, t.kind.shared, t.kind.names)
}

// in returns the pages in a language, which need not be one of [language.Languages].
func (t *translations) in(l *language.Language) pages {
	if parsed, ok := t.byTag[l.Tag]; ok {
		return parsed()
	}
	return t.pages(l)
}
