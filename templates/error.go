package templates

import (
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/templates/language"
)

// Error is a page that describes an error and what the person can do next.
type Error struct {
	// Status is the HTTP status, shown in small type beside Code.
	Status int
	// Title and Message describe the error, Steps what the person can do.
	Title, Message language.Text
	Steps          []language.Text
	// Code is the OAuth error code, as a term to search for.
	Code string
	// Link is a link back to the client, shown with a warning.
	Link *Link
}

// Notice is a page that describes what was done, with the layout of an error page.
type Notice struct {
	// Title and Message describe what was done, Steps what the person can do next.
	Title, Message language.Text
	Steps          []language.Text
}

// Notice writes a notice.
func (s *Set) Notice(w io.Writer, n Notice) error {
	return s.Error(w, Error{Title: n.Title, Message: n.Message, Steps: n.Steps})
}

// Link is a link on an error page: an https URL on Host, or a URL with an application's own
// scheme, whose Host is then "scheme://authority" or "scheme:". Any other link is left out,
// above all one that a browser would run or open itself.
type Link struct{ URL, Host string }

// linkView is a Link whose destination matches its Host.
type linkView struct {
	URL  template.URL
	Host string
	App  bool // the link starts a program
}

// errorView is an Error with safe text.
type errorView struct {
	Status         int
	Title, Message language.Text
	Code           string
	Steps          []language.Text
	Link           *linkView
}

// Error writes the error page.
func (s *Set) Error(w io.Writer, p Error) error {
	v := errorView{
		Status:  p.Status,
		Title:   p.Title.Cleaned(func(t string) string { return shorten(t, maxName) }),
		Message: shortText(p.Message),
		Code:    shorten(p.Code, maxName),
		Link:    p.Link.view(),
	}
	if v.Title.IsZero() {
		v.Title = language.Say("error.title")
	}
	for _, step := range p.Steps {
		v.Steps = append(v.Steps, shortText(step))
	}
	return s.render(w, "error", s.reader.Language.Plain(v.Title), v)
}

// view returns nil unless the destination of the link is its Host.
func (l *Link) view() *linkView {
	if l == nil {
		return nil
	}
	u, err := url.Parse(l.URL)
	if err != nil || u.User != nil || l.Host == "" || destination(u) != l.Host {
		return nil
	}
	return &linkView{URL: template.URL(l.URL), Host: address(l.Host), App: u.Scheme != "https"}
}

// destination returns the destination of a link in the form of Link.Host, and "" for a URL
// that must not be a link.
func destination(u *url.URL) string {
	switch {
	case u.Scheme == "https":
		return strings.TrimSuffix(u.Host, ":443")
	case slices.Contains(browserSchemes, u.Scheme) || strings.HasPrefix(u.Scheme, "ms-"):
		return ""
	case u.Host != "":
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":"
}

// browserSchemes are schemes that are never linked: a browser runs them, shows what is on the
// device, or sends in the clear.
var browserSchemes = []string{
	"", "about", "blob", "data", "file", "filesystem", "ftp", "http", "intent", "jar", "javascript", "mailto", "tel", "vbscript", "view-source", "ws", "wss",
}
