package templates

import (
	"io"
	"net/url"
)

// Home is the page for a person who opens the address of the server itself: what this is,
// and where to go.
type Home struct {
	// Issuer is what applications know the server by.
	Issuer string
	// Catalogue is the URL of the pages that list servers, empty for none. Anything but http
	// and https is left out.
	Catalogue string
	// Enclosed says that the server has no way to the public web, Registers that applications may
	// register all the same, and Pinned names those that it knows without.
	Enclosed, Registers bool
	Pinned              []string
	// Account is who is signed in with this browser, empty for nobody.
	Account Account
}

// Home writes the page.
func (s *Set) Home(w io.Writer, p Home) error {
	p.Issuer = brief(p.Issuer, maxMessage)
	if u, err := url.Parse(p.Catalogue); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		p.Catalogue = ""
	}
	p.Account = p.Account.view()
	pinned := make([]string, len(p.Pinned))
	for i, name := range p.Pinned {
		pinned[i] = brief(name, maxMessage)
	}
	p.Pinned = pinned
	return s.render(w, s.home, "Sign-in for your servers", p)
}
