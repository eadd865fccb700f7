// Package templates renders the pages for people: sign-in, consent, error and home, and the
// pages of a registry.
//
// The pages are embedded HTML with typed data. They need no JavaScript and load nothing from
// other hosts. All their style is in one element, whose hash is in the
// Content-Security-Policy, so injected style or script has no effect even if the escaping of
// html/template fails.
//
// Text that clients choose is treated as hostile: names lose control and direction
// characters, are cut to a bounded length and are isolated from the text around them. A link
// is shown only if its scheme is allowed and it leads to the host that the page names.
//
//	pages, err := templates.New()
//	...
//	w.Header().Set("Content-Security-Policy", pages.ContentSecurityPolicy())
//	err = pages.Login(w, templates.Login{Action: "/login", CSRF: token})
package templates

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"gatehouse.example/templates/language"
)

//go:embed pages
var embedded embed.FS

// Set holds the parsed pages. It is safe for concurrent use.
type Set struct {
	languages map[string]pages // by tag
	pages                      // in the language of the reader
	reader    Reader

	style  template.CSS
	policy string
}

// pages are the parsed pages in one language, by name.
type pages map[string]*template.Template

// New parses the embedded pages. A missing or broken page is an error.
func New() (*Set, error) {
	css, err := embedded.ReadFile("pages/style.css")
	if err != nil {
		return nil, fmt.Errorf("templates: style: %w", err)
	}
	return newSet(css, nil, "login", "consent", "closed", "error", "home")
}

// newSet parses the pages with those names, and the shared files with them, in every
// language.
func newSet(css []byte, shared []string, names ...string) (*Set, error) {
	sum := sha256.Sum256(css)
	s := &Set{
		languages: map[string]pages{}, style: template.CSS(css),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'",
	}
	for _, l := range language.Languages() {
		s.languages[l.Tag] = pages{}
		for _, name := range names {
			files := append([]string{"pages/layout.html", "pages/" + name + ".html"}, shared...)
			page, err := template.New("layout.html").Option("missingkey=error").Funcs(functions(l)).ParseFS(embedded, files...)
			if err != nil {
				return nil, fmt.Errorf("templates: page %s: %w", name, err)
			}
			s.languages[l.Tag][name] = page
		}
	}
	return s.For(Reader{}), nil
}

// ContentSecurityPolicy returns the policy for the pages: no script, no frame, no style but
// their own. It has no form-action on purpose: Chromium applies that directive to the
// redirect that answers the form, and would keep the person from returning to the client.
func (s *Set) ContentSecurityPolicy() string { return s.policy }

// document is the data of the layout.
type document struct {
	Title string
	Style template.CSS
	Page  any

	Reader
	Languages []*language.Language // the choice, empty for none
}

// render writes a page. If the page cannot be rendered, it writes nothing.
func (s *Set) render(w io.Writer, page, title string, view any) error {
	d := document{Title: title, Style: s.style, Page: view, Reader: s.reader}
	if languages := language.Languages(); s.reader.Return != "" && len(languages) > 1 {
		d.Languages = languages
	}
	var b bytes.Buffer
	if err := s.pages[page].Execute(&b, d); err != nil {
		return fmt.Errorf("templates: render %q: %w", title, err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("templates: write %q: %w", title, err)
	}
	return nil
}
