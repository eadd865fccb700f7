package language

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Text is a sentence with its values, in no language yet. The zero value is no text.
type Text struct {
	id      string
	literal string // for English
	values  []any  // names and values in turn
}

// Say returns the sentence with that id. Values are pairs of the name of a place and what
// stands there:
//
//   - a string, shown as it is, escaped and isolated from the text around it; [Marked] adds a
//     class
//   - an int; the value named count also chooses the form of the sentence
//   - a [time.Time], shown as a day
//   - a Text, which is shown in the same language
//   - a [List] of such values
//   - an [Element], for a place that encloses text: {link}like this{/link}
func Say(id string, values ...any) Text { return Text{id: id, values: values} }

// Detail returns text that exists in English only: technical details for the makers of a
// program, such as what is wrong with a request. Pages in other languages mark it as English.
func Detail(english string) Text { return Text{literal: english} }

// IsZero reports whether there is no text.
func (t Text) IsZero() bool { return t.id == "" && t.literal == "" }

// ID returns the id of the sentence, and "" for a detail.
func (t Text) ID() string { return t.id }

// String returns the text in English, without HTML, for logs.
func (t Text) String() string { return English().Plain(t) }

// Marked is a string whose element has a class of the style sheet, such as name or host.
type Marked struct{ Class, Text string }

// List is a list of values, written as the language does: "a, b and c".
type List []any

// Element is what encloses the text between {name} and {/name}: a start tag and an end tag,
// which must be trusted HTML.
type Element struct{ Start, End template.HTML }

// Code is a word of a program, such as the name of a setting.
type Code string

// Cleaned returns the text with every string in it replaced by clean of it. It is for values
// that strangers chose.
func (t Text) Cleaned(clean func(string) string) Text {
	out := Text{id: t.id, literal: t.literal, values: make([]any, len(t.values))}
	if t.literal != "" {
		out.literal = clean(t.literal)
	}
	for i, v := range t.values {
		if i%2 == 1 {
			v = cleaned(v, clean)
		}
		out.values[i] = v
	}
	return out
}

func cleaned(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case Marked:
		return Marked{v.Class, clean(v.Text)}
	case Text:
		return v.Cleaned(clean)
	case List:
		list := make(List, len(v))
		for i := range v {
			list[i] = cleaned(v[i], clean)
		}
		return list
	}
	return v
}

// Plain returns the text in this language, without HTML.
func (l *Language) Plain(t Text) string {
	w := writer{language: l.orEnglish()}
	w.text(t)
	return w.String()
}

// HTML returns the text in this language. A sentence that is missing is in English, and one
// that is missing there too is its id; [Language.Check] finds both.
func (l *Language) HTML(t Text) template.HTML {
	w := writer{language: l.orEnglish(), html: true}
	w.Grow(usualText)
	w.text(t)
	return template.HTML(w.String())
}

// usualText is as long as most sentences with their values, in bytes.
const usualText = 160

func (l *Language) orEnglish() *Language {
	if l == nil {
		return English()
	}
	return l
}

// Check returns an error if a sentence is missing in this language, or a value does not
// match a place in it.
func (l *Language) Check(t Text) error {
	if t.id == "" {
		return nil
	}
	s := l.orEnglish().find(t)
	if s == nil {
		return fmt.Errorf("language: there is no sentence %q in %s", t.id, l.orEnglish().Tag)
	}
	for _, p := range s {
		if p.place != "" && t.value(p.place) == nil {
			return fmt.Errorf("language: the sentence %q lacks the value %q", t.id, p.place)
		}
	}
	return nil
}

// find returns the sentence of a text in this language only, in the form for its count.
func (l *Language) find(t Text) sentence {
	if s, ok := l.sentences()[t.id]; ok {
		return s
	}
	n, _ := t.value("count").(int)
	if s, ok := l.sentences()[t.id+"."+l.plural(n)]; ok {
		return s
	}
	return l.sentences()[t.id+"."+formOther]
}

// value returns the value for a place, and nil if there is none.
func (t Text) value(place string) any {
	for i := 0; i+1 < len(t.values); i += 2 {
		if t.values[i] == place {
			return t.values[i+1]
		}
	}
	return nil
}

// writer writes texts in one language, as HTML or without.
type writer struct {
	strings.Builder
	language *Language
	html     bool
}

func (w *writer) text(t Text) {
	if t.id == "" {
		w.detail(t.literal)
		return
	}
	s := w.language.find(t)
	if s == nil {
		w.inEnglish(t)
		return
	}
	w.sentence(t, s)
}

// inEnglish writes a sentence that is missing in the language, marked as English
// (WCAG 2.2, 3.1.2).
func (w *writer) inEnglish(t Text) {
	s := English().find(t)
	if s == nil {
		s = sentence{{text: t.id}}
	}
	e := Element{Start: `<span lang="en" dir="ltr">`, End: "</span>"}
	w.tag(e, false)
	w.sentence(t, s)
	w.tag(e, true)
}

func (w *writer) sentence(t Text, s sentence) {
	for _, p := range s {
		if p.place == "" {
			w.escaped(p.text)
		} else {
			w.value(t.value(p.place), p.end)
		}
	}
}

// detail writes English text, marked as such in other languages.
func (w *writer) detail(english string) {
	if english == "" || w.language.Tag == "en" {
		w.escaped(english)
		return
	}
	w.element(`<span lang="en" dir="ltr">`, english, "</span>")
}

func (w *writer) value(v any, end bool) {
	switch v := v.(type) {
	case nil:
	case string:
		w.element("<bdi>", v, "</bdi>")
	case Marked:
		w.element(`<bdi class="`+html.EscapeString(v.Class)+`">`, v.Text, "</bdi>")
	case Code:
		w.element("<code>", string(v), "</code>")
	case int:
		w.WriteString(strconv.Itoa(v))
	case time.Time:
		w.text(Day(v))
	case Text:
		w.text(v)
	case List:
		w.list(v)
	case Element:
		w.tag(v, end)
	default:
		w.escaped(fmt.Sprint(v))
	}
}

func (w *writer) tag(e Element, end bool) {
	switch {
	case !w.html:
	case end:
		w.WriteString(string(e.End))
	default:
		w.WriteString(string(e.Start))
	}
}

// list writes a list: the last two values are joined differently from the others.
func (w *writer) list(l List) {
	switch len(l) {
	case 0:
	case 1:
		w.value(l[0], false)
	case 2:
		w.text(Say("list.last", "first", l[0], "second", l[1]))
	default:
		rest := l[0]
		for _, v := range l[1 : len(l)-1] {
			rest = Say("list.more", "first", rest, "second", v)
		}
		w.text(Say("list.last", "first", rest, "second", l[len(l)-1]))
	}
}

func (w *writer) element(start, text, end string) {
	if !w.html {
		w.WriteString(text)
		return
	}
	w.WriteString(start)
	w.escaped(text)
	w.WriteString(end)
}

func (w *writer) escaped(text string) {
	if w.html {
		text = html.EscapeString(text)
	}
	w.WriteString(text)
}

// Day returns the day of a time in UTC, as the language writes it.
func Day(t time.Time) Text {
	t = t.UTC()
	return Say("date.day", "day", t.Day(), "month", Say("date.month."+strconv.Itoa(int(t.Month()))), "year", t.Year())
}

// Moment returns a time in UTC to the minute, as the language writes it.
func Moment(t time.Time) Text {
	return Say("date.moment", "day", Day(t), "time", t.UTC().Format("15:04"))
}
