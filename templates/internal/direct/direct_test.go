package direct_test

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"testing"
	"time"

	"gatehouse.example/templates/internal/direct"
)

type inner struct {
	Name string
	Deep *inner
}

func (i inner) Loud() string    { return i.Name + "!" }
func (i *inner) Hidden() string { return i.Name }

type data struct {
	inner
	Text  string
	HTML  template.HTML
	Said  template.HTML
	Style template.CSS
	Path  string
	Whole int
	Yes   bool
	List  []string
	Rows  []inner
	Any   any
	Next  *inner
	When  time.Time
	Map   map[string]string
	Ratio float64
	Mixed []any
}

// turned has the fields of inner in another order.
type turned struct {
	Deep *inner
	Name string
}

var functions = template.FuncMap{
	"say": func(id any, values ...any) (template.HTML, error) {
		if id == "wrong" {
			return "", errors.New("wrong")
		}
		return template.HTML(fmt.Sprint("<b>", id, len(values), "</b>")), nil
	},
	"plain": func(id any, values ...any) (string, error) { return fmt.Sprint(append([]any{id}, values...)...), nil },
	"name":  func(s string) any { return s + "?" },
	"day":   func(t time.Time) any { return t.Year() },
	"all":   func(list []string) any { return len(list) },
	"odd":   func(n int) int { return n },
}

func someData(text string) data {
	return data{
		inner: inner{Name: "n" + text}, Text: text, HTML: template.HTML("<i>" + text + "</i>"), Said: template.HTML(text), Style: "p{color:red}", Path: "/p?" + text, Whole: 12, Yes: true,
		List: []string{text, "b"}, Rows: []inner{{Name: text}, {Name: "r", Deep: &inner{Name: "d"}}}, Any: inner{Name: "any"}, Next: &inner{Name: text},
		When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Map: map[string]string{"a": text}, Ratio: 0.5,
		Mixed: []any{inner{Name: "first"}, turned{Name: text}, &inner{Name: text}},
	}
}

// both returns what html/template and this package write.
func both(t testing.TB, text string, d any) (want, got string, err error) {
	t.Helper()
	write, err := writers(t, text)
	if err != nil {
		return "", "", err
	}
	return write(d)
}

// writers returns a function that writes data with html/template and with this package.
func writers(t testing.TB, text string) (write func(d any) (want, got string, err error), err error) {
	t.Helper()
	page, err := template.New("page").Funcs(functions).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := direct.New(page, functions)
	if err != nil {
		return nil, err
	}
	return func(d any) (want, got string, err error) {
		var a, b bytes.Buffer
		if err := page.Execute(&a, d); err != nil {
			a.Reset()
		}
		err = p.Execute(&b, d)
		return a.String(), b.String(), err
	}, nil
}

// TestSame: what the package knows it writes as html/template does.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		`<p class="{{.Text}}" title='{{.HTML}}'>{{.Text}}{{.HTML}}{{.Whole}}</p><title>{{.Text}}{{.HTML}}</title>`,
		`<a href="{{.Path}}">{{.Loud}}</a><a href="{{.Text}}">{{.Name}}</a><img src="{{.Whole}}"><form action="{{.HTML}}"></form>`,
		`<style>{{.Style}}</style><style>p{width:{{.Whole}}}</style><style>p{color:{{.Text}}}</style>`,
		`{{if .Yes}}a{{else}}b{{end}}{{if not .Yes}}c{{else if .Text}}d{{end}}{{if and .Yes .Whole}}e{{end}}{{if or .Next .Any}}f{{end}}{{if .List}}g{{end}}`,
		`{{with .Next}}{{.Name}}{{$.Text}}{{.Loud}}{{else}}none{{end}}{{with .Text}}{{.}}{{end}}`,
		`{{range $i, $r := .Rows}}{{$i}}{{$r.Name}}{{with .Deep}}{{.Name}}{{$r.Name}}{{end}}{{else}}none{{end}}{{range .List}}{{.}}{{end}}`,
		`{{range $r := .Rows}}{{$x := $r.Name}}{{$x}}{{range $.List}}{{$x}}{{.}}{{end}}{{end}}`,
		`{{define "part"}}{{if .}}<b>{{.}}</b>{{end}}{{$y := .}}{{$y}}{{end}}{{template "part" .Text}}{{template "part" (len .List)}}`,
		`{{say "a" "b" (name .Text) .Whole (len .List) .Any.Name}}<p title="{{plain .Text .Whole}}">{{plain "x"}}</p>`,
		`{{if eq .Whole 12}}a{{end}}{{if ne .Text .Name}}b{{end}}{{if gt .Whole 3}}c{{end}}{{index .List 1}}{{if eq (len .List) 2}}d{{end}}`,
		`{{day .When}}{{all .List}}{{say .Text}}`, `{{/* nothing */}}{{.Any.Name}}{{.When.IsZero}}{{.Yes}}`, `{{.Ratio}}<p title="{{.Next}}">{{.Rows}}</p>`,
		`{{range .Mixed}}{{.Name}}{{if .Deep}}deep{{end}}{{end}}`,
		`{{$x := .Text}}{{if not .Yes}}{{$x := .Name}}{{$x}}{{else}}{{$x}}{{end}}{{range $x := .List}}{{$x}}{{else}}{{$x}}{{end}}{{$x}}`,
	} {
		for _, text := range []string{"plain", "", `"<b>&'+`, "日本", "a b=c", "javascript:x", "\x00\xff%zz%41"} {
			want, got, err := both(t, page, someData(text))
			if err != nil || want != got {
				t.Errorf("%s with %q:\n%q, %v, not\n%q", page, text, got, err, want)
			}
		}
	}
}

// TestUnknown: for everything else there is an error, and html/template writes the page.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		`<script>var x = {{.Text}}</script>`, `<p onclick="f({{.Text}})">`, `<a href="/a?b={{.Text}}">`, `<p {{.Text}}>`, `<p title={{.Text}}>`, `<!-- {{.Text}} -->x`,
		`{{odd .Whole}}`, `{{print .Text}}`, `{{.When.Format "2006"}}`, `{{.Map.a}}`, `{{.Hidden}}`, `{{range .Map}}{{end}}`, `{{range .Text}}{{end}}`, `{{.Next.Deep.Name}}`,
		`{{if .Ratio}}{{end}}`, `{{if .Map}}{{end}}`, `{{$x := .Text}}{{$x = .Name}}`, `{{if $x := .Text}}{{end}}`, `{{say "wrong"}}`, `{{.Missing}}`, `{{index .List 2}}`, `{{index .List -1}}`, `{{len .Map}}`,
		`{{eq .Ratio 0.5}}`, `{{lt 1 2}}`, `{{range .List}}{{break}}{{end}}`, `{{template "none"}}`, `{{.Text | html}}`, `{{define "a"}}{{.Text}}{{end}}<p title="{{template "a" .}}">`,
		`{{'a'}}`, `{{1.5}}`, `{{nil | len}}`, `{{name .Whole}}`, `{{day .Text}}`, `{{.Text | say "x"}}`, `{{if}}`,
	} {
		parsed, err := template.New("page").Funcs(functions).Parse(page)
		if err != nil {
			continue // html/template does not take it either
		}
		p, err := direct.New(parsed, functions)
		if err == nil {
			err = p.Execute(new(bytes.Buffer), someData("text"))
		}
		if err == nil {
			t.Errorf("%s is written", page)
		}
	}
}

// places are a page with a value at each kind of place, as a text and as markup.
const places = `<p title="{{.Text}}" class='{{.HTML}}' id="{{.Said}}">{{.Text}}{{.HTML}}{{.Said}}</p><title>{{.Text}}{{.HTML}}{{.Said}}</title>` +
	`<a href="{{.Text}}"></a><a href='{{.HTML}}'></a><a href="{{.Said}}"></a><style>p{color:{{.Said}}}</style><img src="{{.Path}}"><style>p{color:{{.Text}}}</style>`

// TestEveryByte: no byte is taken for harmless at a place where html/template replaces it: alone, in a
// path, in the URL of a web page and behind a scheme.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	write, err := writers(t, places)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "a", "/", "https://", "http://", "httpx:", "ftp:", "/?a="} {
		for c := range 256 {
			text := before + string([]byte{byte(c)}) + "b"
			if want, got, err := write(someData(text)); err != nil || want != got {
				t.Errorf("%q: %q, %v, not\n%q", text, got, err, want)
			}
		}
	}
}

// FuzzPlaces: at each kind of place a text is written as html/template writes it.
func FuzzPlaces(f *testing.F) {
	for _, seed := range []string{"plain", `"<b>&'+`, "日本\u202e\ufdd0", "a b=c", "javascript:x", "https://example.com/?a=b", "//h", "mailto:a", "\x00\xff%zz%41", "/a:b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if want, got, err := both(t, places, someData(text)); err != nil || want != got {
			t.Errorf("%q, %v, not\n%q", got, err, want)
		}
	})
}
