package templates_test

import (
	"bytes"
	"io/fs"
	"testing"
	"testing/fstest"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// unfolded returns the pages as an operator's who changed nothing but a comment: then no sentence is
// part of a page.
func unfolded(t testing.TB) fs.FS {
	t.Helper()
	own := fstest.MapFS{}
	for name, text := range templates.EmbeddedFiles() {
		if name != "passkey.js" && name[len(name)-5:] == ".html" {
			own[name] = &fstest.MapFile{Data: []byte(text + "{{/* own */}}")}
		}
	}
	return own
}

// TestFoldedPages: pages with their sentences in them are, in each language, byte for byte those that
// say each sentence when they are shown.
func TestFoldedPages(t *testing.T) {
	own, err := templates.Look{Files: unfolded(t)}.Pages()
	if err != nil {
		t.Fatal(err)
	}
	ours := pages(t)
	for _, l := range language.Languages() {
		reader, folded := templates.Reader{Language: l, Action: "/language", Return: "/"}, 0
		for _, name := range templates.ServerPageNames() {
			var a, b bytes.Buffer
			if err := templates.Sample(name, ours.For(reader), &a); err != nil {
				t.Fatal(err)
			}
			if err := templates.Sample(name, own.For(reader), &b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s: the page %s differs", l.Tag, name)
			}
			folded += ours.For(reader).Calls(name, "say") - own.For(reader).Calls(name, "say")
		}
		if folded > -100 {
			t.Errorf("%s: %d calls of say fewer", l.Tag, -folded)
		}
	}
}

// TestFoldsBetweenTags: attributes keep the escaping of html/template, and so does what has a value.
func TestFoldsBetweenTags(t *testing.T) {
	const page = `{{if .A}}<p title="{{say "consent.deny"}}"{{if .B}} class="x"{{end}}>{{say "consent.allow"}}{{else}}<p>{{say "no.such"}}{{end}}` +
		`{{say "account.signedIn" "name" .N}}{{range .L}}{{say "consent.deny"}}{{end}}</p>`
	const want = `{{if .A}}<p title="{{say "consent.deny"}}"{{if .B}} class="x"{{end}}>Allow{{else}}<p>{{say "no.such"}}{{end}}` +
		`{{say "account.signedIn" "name" .N}}{{range .L}}Deny{{end}}</p>`
	if got := templates.Folded(page, language.English()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
