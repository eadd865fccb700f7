package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"net/url"
	"strings"

	"gatehouse.example/templates/language"
)

// Look is what an operator changes about the pages. The zero value changes nothing.
type Look struct {
	// Name stands at the head of each page and in its title, in place of Gatehouse.
	Name string
	// Logo is a PNG picture that stands beside the name, as [icon.Redraw] returns it. LogoPath
	// is the path of this origin at which the program serves it; package authz sets it.
	//
	// [icon.Redraw]: https://pkg.go.dev/gatehouse.example/message/icon#Redraw
	Logo     []byte
	LogoPath string
	// Colour is the colour of the main button, as "#0c6b58". The colours of its text, of links
	// and of borders follow from it, for light and dark screens: their contrast is at least
	// 4.5 to 1 (WCAG 2.2, 1.4.3).
	Colour string
	// Links stand at the foot of each page, Footer is a text before them, and Support an e-mail
	// address or an https URL where people find help.
	Links   []FooterLink
	Footer  string
	Support string
	// Files replaces embedded files of the pages by its files of the same names, such as
	// login.html and style.css. It is read once, when the pages are made.
	Files fs.FS
}

// FooterLink is a link at the foot of each page; its URL is https.
type FooterLink struct{ Name, URL string }

const (
	productName = "Gatehouse"
	maxLinks    = 10
	pngMagic    = "\x89PNG\r\n\x1a\n"
)

// Check returns an error with a line for each mistake. It does not read Files: [Look.Pages]
// does.
func (l Look) Check() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("pages: "+format, args...))
		}
	}
	check(shorten(l.Name, maxName) != l.Name, "the name %q must have 1 to %d visible characters", l.Name, maxName)
	check(len(l.Logo) > 0 && !strings.HasPrefix(string(l.Logo), pngMagic), "the logo must be a PNG picture")
	check(shorten(l.Footer, maxURI) != l.Footer, "the footer must have at most %d visible characters, and no line breaks", maxURI)
	check(len(l.Links) > maxLinks, "there are %d links: at most %d fit", len(l.Links), maxLinks)
	if l.Colour != "" {
		_, err := parseColour(l.Colour)
		check(err != nil, "%v", err)
	}
	for _, link := range l.Links {
		check(link.Name == "" || shorten(link.Name, maxName) != link.Name, "the name of the link %q must have 1 to %d visible characters", link.URL, maxName)
		check(!secureURL(link.URL), "the link %q must be a URL that begins with https://", link.URL)
	}
	check(l.Support != "" && supportLink(l.Support) == "", "support %q must be an e-mail address, or a URL that begins with https://", l.Support)
	return errors.Join(errs...)
}

// secureURL reports whether a URL is https and its host alone determines its destination.
func secureURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && clean(raw) == raw
}

// supportLink returns the URL for an e-mail address or an https URL, and "" for others.
func supportLink(support string) string {
	if secureURL(support) {
		return support
	}
	address, err := mail.ParseAddress(support)
	if err != nil || address.Name != "" || address.Address != support || clean(support) != support || strings.ContainsAny(support, `"?&%<>`) {
		return ""
	}
	return "mailto:" + support
}

// LogoHeader returns the header fields under which the logo is served, with canonical names, as in
// [net/http.Header]. The answer may be kept for a day, because its address changes with the picture.
func LogoHeader() map[string][]string {
	return map[string][]string{
		"Content-Type":                 {"image/png"},
		"Content-Security-Policy":      {"default-src 'none'"},
		"X-Content-Type-Options":       {"nosniff"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Cache-Control":                {"public, max-age=86400"},
	}
}

// LogoTag is a name for this version of the logo: it changes when the picture does.
func (l Look) LogoTag() string {
	sum := sha256.Sum256(l.Logo)
	return hex.EncodeToString(sum[:8])
}

// brand is the look as the layout shows it.
type brand struct {
	Name, Logo, Footer string
	Own                bool // there is a name or a logo of the operator
	Links              []FooterLink
	Support            *language.Text
}

func (l Look) brand() brand {
	b := brand{Name: orElse(l.Name, productName), Own: l.Name != "" || len(l.Logo) > 0, Footer: l.Footer, Links: l.Links}
	if len(l.Logo) > 0 {
		b.Logo = ownPath(l.LogoPath)
	}
	if to := supportLink(l.Support); to != "" {
		text := language.Say("layout.support", "address", shownLink(to, l.Support))
		b.Support = &text
	}
	return b
}
