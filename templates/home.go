package templates

import (
	"io"
	"net/url"
)

// Home is the page at the address of the server itself. It explains the server to a person
// who opens it, and links to the catalogue.
type Home struct {
	// Issuer is the issuer identifier, by which applications refer to the server.
	Issuer string
	// Catalogue is the URL of the pages that list servers, empty for none. It is left out
	// unless it is http or https.
	Catalogue string
	// Enclosed means that the server has no access to the public web, Registers that
	// applications may register nevertheless. Pinned are the names of the clients with pinned
	// documents, which need no access.
	Enclosed, Registers bool
	Pinned              []string
	// AccountPage is the URL of the page on which people see and end what acts for them.
	AccountPage string
	// Account is the person who is signed in with this browser; the zero value for none.
	Account Account
}

// Home writes the home page.
func (s *Set) Home(w io.Writer, p Home) error {
	p.Issuer = shorten(p.Issuer, maxMessage)
	if u, err := url.Parse(p.Catalogue); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		p.Catalogue = ""
	}
	p.Account = p.Account.view()
	pinned := make([]string, len(p.Pinned))
	for i, name := range p.Pinned {
		pinned[i] = shorten(name, maxMessage)
	}
	p.Pinned = pinned
	return s.render(w, "home", s.say("home.title"), p)
}
