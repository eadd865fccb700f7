package templates

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/templates/language"
)

// functions are what the pages call: say writes a sentence, and the others make its values. Their types
// are those that package direct knows.
func functions(l *language.Language) template.FuncMap {
	return template.FuncMap{
		"say": func(text any, values ...any) (template.HTML, error) {
			t, err := textOf(l, text, values)
			return l.HTML(t), err
		},
		"plain": func(text any, values ...any) (string, error) {
			t, err := textOf(l, text, values)
			return l.Plain(t), err
		},
		"name": func(s string) any { return language.Marked{Class: "name", Text: s} },
		"host": func(s string) any { return language.Marked{Class: "host", Text: s} },
		"uri":  func(s string) any { return language.Marked{Class: "uri", Text: s} },
		"code": func(s string) any { return language.Code(s) },
		"list": func(names []string) any { return listOf(names) },
		"link": func(to string) any { return link(to) },
		"api":  func(path string) any { return apiLink(path) },
		"day":  func(t time.Time) any { return language.Day(t) },

		"moment": func(t time.Time) any { return language.Moment(t) },
		// instant is what programs read of a time (HTML, section 4.5.14).
		"instant": func(t time.Time) any { return t.UTC().Format(time.RFC3339) },
	}
}

// textOf returns the text that a page says: the id of a sentence with values, or a text from
// Go, which is shown without them. A sentence that is missing, or that lacks a value, is an
// error: the page is not shown with a gap.
func textOf(l *language.Language, text any, values []any) (language.Text, error) {
	id, ok := text.(string)
	if !ok {
		switch text := text.(type) {
		case language.Text:
			return text, nil
		case *language.Text:
			return *text, nil
		}
		return language.Text{}, fmt.Errorf("say needs the id of a sentence or a text, not a %T", text)
	}
	t := language.Say(id, values...)
	if err := l.Check(t); err != nil {
		return t, language.English().Check(t)
	}
	return t, nil
}

func listOf(names []string) language.List {
	list := make(language.List, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list
}

// link returns what encloses the text of a link to a place or path of this origin.
func link(to string) language.Element {
	return language.Element{Start: template.HTML(`<a href="` + escaped(to) + `">`), End: "</a>"}
}

// shownLink returns a link that shows a text.
func shownLink(to, text string) language.Element {
	e := link(to)
	e.Start += template.HTML("<bdi>" + template.HTMLEscapeString(text) + "</bdi>" + string(e.End))
	e.End = ""
	return e
}

// choice returns the links to the page in each language. It is written here because html/template
// takes as long for them as for the rest of a page.
func (r Reader) choice(languages []*language.Language) template.HTML {
	var b strings.Builder
	ask, back := escaped(r.Action+"?language="), escaped("&return="+url.QueryEscape(r.Return))
	b.Grow(len(languages) * (len(ask) + len(back) + 128))
	for _, l := range languages {
		tag := escaped(l.Tag)
		for _, part := range [...]string{`<a href="`, ask, tag, back, `" rel="nofollow" lang="`, tag, `" hreflang="`, tag, `" dir="`, l.Direction, `"`} {
			b.WriteString(part)
		}
		if l.Tag == r.Language.Tag {
			b.WriteString(` aria-current="true"`)
		}
		b.WriteByte('>')
		b.WriteString(template.HTMLEscapeString(l.Name))
		b.WriteString("</a> ")
	}
	return template.HTML(b.String())
}

// escaped escapes an attribute as html/template does.
func escaped(s string) string {
	return strings.ReplaceAll(template.HTMLEscapeString(s), "+", "&#43;")
}

// apiLink returns a link to a path of this origin that shows the path.
func apiLink(path string) language.Element {
	e := link(path)
	e.Start += template.HTML("<code>" + escaped(path) + "</code>" + string(e.End))
	e.End = ""
	return e
}

// Reader is the person for whom a page is written.
type Reader struct {
	// Language is the language of the page; nil means English. For one that is not of
	// [language.Languages] the pages are parsed each time.
	Language *language.Language
	// Action is the URL that a choice of another language is posted to, as the form values
	// language and return. Return is the path of the page, to which the person comes back;
	// empty for a page that cannot be opened again, which shows no choice.
	Action, Return string
}

// For returns the pages for a reader. It shares the parsed pages with s.
func (s *Set) For(r Reader) *Set {
	if r.Language == nil {
		r.Language = language.English()
	}
	set := *s
	set.pages, set.reader = s.translations.in(r.Language), r
	return &set
}

// say returns a text in the language of the reader, for places that hold plain text.
func (s *Set) say(id string, values ...any) string {
	return s.reader.Language.Plain(language.Say(id, values...))
}

// shortText cleans and cuts the values of a text, as shorten does.
func shortText(t language.Text) language.Text {
	return t.Cleaned(func(s string) string { return shorten(s, maxMessage) })
}
