package templates

import (
	"io"
	"net/url"
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

// Link is a way out of an error page. Anything but an https URL on Host is left out.
type Link struct{ URL, Host string }

// errorView is Error made safe to look at.
type errorView struct {
	Status               int
	Title, Message, Code string
	Steps                []string
	Link                 *Link
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

// view returns nil unless the link is https and leads to the host that it names.
func (l *Link) view() *Link {
	if l == nil {
		return nil
	}
	u, err := url.Parse(l.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Host != l.Host {
		return nil
	}
	return &Link{URL: l.URL, Host: address(u.Host)}
}
