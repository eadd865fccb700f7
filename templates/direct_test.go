package templates_test

import (
	"io"
	"testing"
	"testing/fstest"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// TestDirectPages: pages that are written without html/template's interpreter are, in each variant and
// language, byte for byte those that it writes.
func TestDirectPages(t *testing.T) {
	t.Parallel()
	own, err := templates.Look{Files: unfolded(t)}.Pages()
	if err != nil {
		t.Fatal(err)
	}
	ours := pages(t)
	for name, page := range everyPage() {
		for _, l := range language.Languages() {
			for _, back := range []string{"", "/login?transaction=a&b='"} {
				reader := templates.Reader{Language: l, Action: "/language", Return: back}
				if got, want := renderWith(t, ours.For(reader).DirectlyOnly(), page), renderWith(t, own.For(reader), page); got != want {
					t.Errorf("%s: the page %s, back to %q, is\n%s\ninstead of\n%s", l.Tag, name, back, got, want)
				}
			}
		}
	}
}

// TestDirectRegistryPages is TestDirectPages for the pages of a registry.
func TestDirectRegistryPages(t *testing.T) {
	t.Parallel()
	own, err := templates.Look{Files: unfolded(t)}.Registry()
	if err != nil {
		t.Fatal(err)
	}
	ours := registryPages(t)
	for name, page := range everyRegistryPage() {
		for _, l := range language.Languages() {
			reader := templates.Reader{Language: l}
			if got, want := renderRegistryWith(t, ours.For(reader).DirectlyOnly(), page), renderRegistryWith(t, own.For(reader), page); got != want {
				t.Errorf("%s: the page %s is\n%s\ninstead of\n%s", l.Tag, name, got, want)
			}
		}
	}
}

// TestOwnPagesAreNotDirect: a page with a file of the operator's is written by html/template, of which
// it may use everything.
func TestOwnPagesAreNotDirect(t *testing.T) {
	t.Parallel()
	own, err := templates.Look{Files: fstest.MapFS{"error.html": {Data: []byte(templates.EmbeddedFiles()["error.html"] + " ")}}}.Pages()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range templates.ServerPageNames() {
		err := templates.Sample(name, own.DirectlyOnly(), io.Discard)
		if (err == nil) != (name != "error") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzConsent: the consent page shows every text as html/template escapes it.
func FuzzConsent(f *testing.F) {
	own, err := templates.Look{Files: unfolded(f)}.Pages()
	if err != nil {
		f.Fatal(err)
	}
	ours := pages(f)
	for _, seed := range []string{"Notes", `"><script>alert(1)</script>`, "a+b & c's", "javascript:alert(1)", "/\\example.org?a=b&c", "\x00\xff\u202e\ufdd0", "日本語", "%zz%41"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, client, value, path string) {
		page := consent()
		page.Client = templates.Client{Name: client, Host: value, Verified: len(path)%2 == 0, Logo: "/" + path}
		page.UserName, page.RedirectHost, page.Action, page.CSRF = client, value, path, value
		page.Account = templates.Account{UserName: client, SignOut: path, Token: value}
		page.Groups[0].Resource = templates.Resource{URI: path, Name: client}
		page.Groups[0].Boxes[0] = templates.Box{Value: value, Name: client, Description: path, Checked: true}
		page.Problem = language.Detail(value)
		page.Memories = []templates.Memory{{Value: value, Days: 1}, {Value: client, Hours: 7}}
		reader := templates.Reader{Action: "/language", Return: path}
		if got, want := renderWith(t, ours.For(reader), page), renderWith(t, own.For(reader), page); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// FuzzClean: the shortcut for ASCII changes no text.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", " ", "a", "a b", " a", "a ", "a  b", "a\tb", "~\x7f", "é", "\x00", "a\u0301\u0301\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if shown, whole := templates.Clean(s); shown != whole {
			t.Errorf("%q, not %q", shown, whole)
		}
	})
}
