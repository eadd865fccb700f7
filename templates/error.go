package templates

import (
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Error is a page that says what went wrong and what to do next.
type Error struct {
	// Status is the HTTP status, shown small beside Code.
	Status int
	// Title and Message say what happened, Steps what the person can do.
	Title, Message string
	Steps          []string
	// Code is the OAuth error code, for those who search for it.
	Code string
	// Link leads back to the client, with a warning.
	Link *Link
}

// Notice is a page that says what was done, in the form of an error page.
type Notice struct {
	// Title and Message say what happened, Steps what the person can do.
	Title, Message string
	Steps          []string
}

// Notice writes a notice.
func (s *Set) Notice(w io.Writer, n Notice) error {
	return s.Error(w, Error{Title: n.Title, Message: n.Message, Steps: n.Steps})
}

// Link is a way out of an error page: an https URL on Host, or one with an application's
// own scheme, whose Host is then "scheme://authority" or "scheme:". Anything else is left
// out, above all what a browser would run or read itself.
type Link struct{ URL, Host string }

// linkView is a Link that is what it says.
type linkView struct {
	URL  template.URL
	Host string
	App  bool // it starts a program
}

// errorView is Error made safe to look at.
type errorView struct {
	Status               int
	Title, Message, Code string
	Steps                []string
	Link                 *linkView
}

// Error writes the error page.
func (s *Set) Error(w io.Writer, p Error) error {
	v := errorView{
		Status:  p.Status,
		Title:   brief(p.Title, maxName),
		Message: brief(p.Message, maxMessage),
		Code:    brief(p.Code, maxName),
		Link:    p.Link.view(),
	}
	if v.Title == "" {
		v.Title = "That did not work"
	}
	for _, step := range p.Steps {
		v.Steps = append(v.Steps, brief(step, maxMessage))
	}
	return s.render(w, s.problem, v.Title, v)
}

// view returns nil unless the link leads where it says.
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

// destination names what a link leads to, or nothing for what must not be a link.
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

// browserSchemes are those that are never a link here, whoever made one: a browser runs
// them, shows what is on the device, or sends in the clear.
var browserSchemes = []string{
	"", "about", "blob", "data", "file", "filesystem", "ftp", "http", "intent", "jar", "javascript", "mailto", "tel", "vbscript", "view-source", "ws", "wss",
}
