package authz

import (
	"net/http"
	"net/url"
	"strings"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// proven is a redirect URI that the named client registered: the only place where an
// authorization response may go. Only Server.prove makes one.
type proven struct {
	uri       metadata.RedirectURI
	source    storage.ClientSource
	vouched   bool // somebody here stands behind the client
	permitted bool // the operator wrote the client, or its private-use scheme, into the configuration
	state     string
}

// prove matches the redirect URI of a request with those of a known client (OAuth 2.1
// section 4.1.1). A client with a single one may leave it out.
func (s *Server) prove(client storage.Client, requested, state string) (proven, error) {
	registered := client.Metadata.RedirectURIs
	if requested == "" && len(registered) == 1 {
		requested = registered[0]
	}
	uri, err := metadata.MatchRedirect(registered, requested, dcr.Public(client))
	if err != nil {
		return proven{}, err
	}
	return proven{
		uri: uri, source: client.Source, vouched: s.clients.Vouched(client), state: state,
		permitted: client.Source == storage.ClientConfigured || s.clients.AllowsScheme(uri.Scheme()),
	}, nil
}

// trusted says whether an error may go there before the person has done anything. A
// web address that somebody registered or published by themselves is shown instead:
// otherwise this server would be an open redirector for everybody (RFC 9700 section
// 4.11.2). So is a private-use scheme that the operator did not name: whoever made up a
// client could start any program on the person's device by a link to here.
func (p proven) trusted() bool {
	switch p.uri.Kind {
	case metadata.RedirectLoopback:
		return true
	case metadata.RedirectPrivateUse:
		return p.permitted
	}
	return p.vouched
}

// location is the redirect URI with response parameters added to its query. The query
// that is there is retained (OAuth 2.1 section 4.1.2); iss is in every response (RFC
// 9207 section 2), state if it was in the request.
func (p proven) location(issuer string, parameters url.Values) string {
	parameters.Set("iss", issuer)
	if p.state != "" {
		parameters.Set("state", p.state)
	}
	separator := "?"
	switch {
	case strings.HasSuffix(p.uri.Raw, "?") || strings.HasSuffix(p.uri.Raw, "&"):
		separator = ""
	case strings.Contains(p.uri.Raw, "?"):
		separator = "&"
	}
	return p.uri.Raw + separator + parameters.Encode()
}

// send redirects with 303, which turns the browser's POST into a GET and sends no body
// along (RFC 9700 section 4.12).
func (s *Server) send(w http.ResponseWriter, to proven, parameters url.Values) {
	w.Header().Set("Location", to.location(s.cfg.Issuer, parameters))
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

func (s *Server) sendError(w http.ResponseWriter, e *redirectedError) {
	s.send(w, e.to, e.parameters())
}

func (e *redirectedError) parameters() url.Values {
	return url.Values{"error": {e.code}, "error_description": {e.description}}
}

// untrusted shows an error that would otherwise be sent to an address that is not
// trusted, and offers the address as a link.
func untrusted(e *redirectedError, issuer string) *displayedError {
	host, itself := e.to.uri.Host(), "It registered itself here and nobody has checked it."
	if e.to.source == storage.ClientDocument {
		itself = "Nobody here vouches for it."
	}
	return &displayedError{
		status: http.StatusBadRequest, code: e.code,
		title:   "The application's request was refused",
		message: sentence(e.description) + " The application asked to continue at " + host + ". " + itself,
		steps:   []string{"Close this page if you did not expect it.", "To tell the application what went wrong, follow the link below."},
		link:    &templates.Link{URL: e.to.location(issuer, e.parameters()), Host: host},
	}
}
