package direct

import (
	"bytes"
	"html/template"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"text/template/parse"
)

// place is a kind of place where values stand, such as an attribute.
type place struct {
	plain func(s string) bool // a text is written there as it is
	whole reflect.Type        // the type of texts that are always written there as they are, nil for none

	sample        *template.Template // a value at such a place
	before, after int                // the bytes around it
}

// places returns the kinds of places, by the escapers that html/template puts there. It is asked for
// them, so that this package depends on none of their names.
var places = sync.OnceValue(func() map[string]*place {
	all := map[string]*place{}
	for _, p := range []struct {
		before, after string
		plain         func(string) bool
		whole         reflect.Type
	}{
		{"<p>", "</p>", plainText, reflect.TypeFor[template.HTML]()},
		{"<title>", "</title>", plainText, nil},
		{`<p title="`, `"></p>`, plainText, nil},
		{`<a href="`, `"></a>`, plainPath, nil},
		{"<style>", "</style>", func(string) bool { return false }, reflect.TypeFor[template.CSS]()},
	} {
		sample := template.Must(template.New("sample").Parse(p.before + "{{.}}" + p.after))
		if err := sample.Execute(io.Discard, ""); err != nil {
			continue // places of that kind are not known
		}
		for _, node := range sample.Tree.Root.Nodes {
			if action, ok := node.(*parse.ActionNode); ok && escapers(action.Pipe) != "" {
				all[escapers(action.Pipe)] = &place{plain: p.plain, whole: p.whole, sample: sample, before: len(p.before), after: len(p.after)}
			}
		}
	}
	return all
})

// placeOf returns the kind of place of a value, nil if it is not known or not escaped.
func placeOf(p *parse.PipeNode) *place {
	if chain := escapers(p); chain != "" {
		return places()[chain]
	}
	return nil
}

// escapers returns the names of the functions through which a value goes, "" if there is anything else
// behind it.
func escapers(p *parse.PipeNode) string {
	var names []string
	for _, command := range p.Cmds[1:] {
		name, ok := command.Args[0].(*parse.IdentifierNode)
		if !ok || len(command.Args) > 1 {
			return ""
		}
		names = append(names, name.Ident)
	}
	return strings.Join(names, " | ")
}

var (
	textType   = reflect.TypeFor[string]()
	markupType = reflect.TypeFor[template.HTML]()
	numberType = reflect.TypeFor[int]()
)

// value writes a value at the place.
func (p *place) value(w *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		return ErrUnknown
	}
	switch t := v.Type(); {
	case t == p.whole || (t == textType || t == markupType) && p.plain(v.String()):
		w.WriteString(v.String())
		return nil
	case t == numberType:
		if digits := strconv.FormatInt(v.Int(), 10); p.plain(digits) {
			w.WriteString(digits)
			return nil
		}
	}
	var escaped bytes.Buffer
	if err := p.sample.Execute(&escaped, v.Interface()); err != nil {
		return ErrUnknown
	}
	w.Write(escaped.Bytes()[p.before : escaped.Len()-p.after])
	return nil
}

// plainText reports whether a text has none of the characters that html/template replaces in the
// content of elements and in attributes.
func plainText(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case 0, '"', '&', '\'', '+', '<', '>':
			return false
		}
	}
	return true
}

// plainPath reports whether a text is a path, or the URL of a web page, that html/template leaves as it
// is.
func plainPath(s string) bool {
	if !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "https://") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~/:?=", rune(c)) {
			return false
		}
	}
	return true
}
