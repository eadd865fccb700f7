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
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"gatehouse.example/templates/internal/direct"
	"gatehouse.example/templates/language"
)

//go:embed pages
var embedded embed.FS

//go:embed pages/passkey.js
var passkeyScript []byte

// Set holds the parsed pages. It is safe for concurrent use.
type Set struct {
	translations *translations
	pages        // in the language of the reader
	reader       Reader
	brand        brand

	style  template.CSS
	policy string
}

// pages are the pages in one language, by name. Each is parsed at its first use.
type pages map[string]func() (page, error)

// page is a parsed page. If direct is not nil, that writes the same.
type page struct {
	*template.Template
	direct *direct.Page
}

// setNames are the pages of a Set. Each has a sample in samples.
var setNames = []string{
	"login", "provider", "connected", "consent", "closed", "error", "home", "account", "applications", "remembered", "sessions", "activity", "done", "code", "passkeys", "second-factor", "recovery", "password", "invite",
}

// serverPages are the pages of a Set.
var serverPages = newKind([]string{"style.css"}, []string{"account-parts.html", "passkeyprompt.html"}, setNames)

// New returns the embedded pages. A page is parsed when it is first shown in a language.
func New() (*Set, error) { return Look{}.Pages() }

// Pages returns the pages with this look. A page that cannot be shown, or that lacks something
// that its forms send, is an error that names the file and, where it is known, the line.
func (l Look) Pages() (*Set, error) { return l.rehearsed(serverPages) }

// rehearsed parses pages. If files of the operator's are among them, it writes samples of all
// pages.
func (l Look) rehearsed(k *kind) (*Set, error) {
	s, err := l.parse(k)
	if err != nil || l.Files == nil {
		return s, err
	}
	ours, err := Look{}.parse(k)
	if err != nil {
		return nil, err
	}
	return s, s.rehearse(ours, k.names)
}

// parse returns the pages of one kind. It parses those with files of the operator's, to find
// their mistakes; the embedded ones are parsed at their first use.
func (l Look) parse(k *kind) (*Set, error) {
	from, err := filesOf(l.Files)
	if err := errors.Join(l.Check(), err); err != nil {
		return nil, err
	}
	css, err := l.style(from, k.styles)
	if err != nil {
		return nil, err
	}
	known, err := k.embedded()
	if l.Files != nil {
		known = k.translate(from)
		err = known.in(language.English()).check(k.names)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(css)
	s := &Set{
		translations: known, brand: l.brand(), style: template.CSS(css),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'",
	}
	return s.For(Reader{}), nil
}

// style returns the style of the pages, followed by the operator's colour.
func (l Look) style(from files, names []string) ([]byte, error) {
	var css []byte
	for _, name := range names {
		more := from[name]
		// A browser reads the end of the element in any string or comment (HTML, section 13.2.5.14).
		if strings.Contains(strings.ToLower(more), "</style") {
			return nil, fmt.Errorf("pages: %s contains </style", name)
		}
		css = append(css, more...)
	}
	if c, err := parseColour(l.Colour); err == nil {
		css = append(css, c.palette()...)
	}
	return css, nil
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
	Brand     brand
	Languages []*language.Language // the choice, empty for none
	Choice    template.HTML        // the links to the page in each of them
}

// pageRoom is more than most pages have beside their style, in bytes.
const pageRoom = 8 << 10

// render writes a page. If the page cannot be rendered, it writes nothing.
func (s *Set) render(w io.Writer, page, title string, view any) error {
	d := document{Title: title, Style: s.style, Page: view, Reader: s.reader, Brand: s.brand}
	if languages := language.Languages(); s.reader.Return != "" && len(languages) > 1 {
		d.Languages, d.Choice = languages, s.reader.choice(languages)
	}
	parsed, err := s.pages[page]()
	if err != nil {
		return fmt.Errorf("templates: %w", err)
	}
	b := buffers.Get().(*bytes.Buffer)
	defer keep(b)
	b.Grow(len(s.style) + pageRoom)
	if err := parsed.write(b, d); err != nil {
		return fmt.Errorf("templates: render %q: %w", title, err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("templates: write %q: %w", title, err)
	}
	return nil
}

// write writes the page with data.
func (p page) write(b *bytes.Buffer, data any) error {
	if p.direct != nil && p.direct.Execute(b, data) == nil {
		return nil
	}
	b.Reset()
	return p.Execute(b, data)
}

// buffers are for pages that are being written.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keep returns a buffer to the pool, unless it is much larger than most pages.
func keep(b *bytes.Buffer) {
	const most = 64 << 10
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}
