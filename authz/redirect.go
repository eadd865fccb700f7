package authz

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// proven is a redirect URI that the named client registered: the only destination of an
// authorization response. Only Server.prove makes one.
type proven struct {
	uri       metadata.RedirectURI
	source    storage.ClientSource
	vouched   bool // the operator vouches for the client
	permitted bool // the configuration contains the client or its private-use scheme
	state     string
}

// prove matches the redirect URI of a request with those of a known client (OAuth 2.1 section
// 4.1.1). A client with a single one may leave it out.
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

// proveAnew returns the client of an authorization request, as its document says now if it
// has to be read again, and the redirect URI of the request.
func (s *Server) proveAnew(ctx context.Context, client storage.Client, requested, state string) (storage.Client, proven, error) {
	to, err := s.prove(client, requested, state)
	if err != nil {
		var unread error
		if client, unread = s.requestedAnew(ctx, client); unread != nil {
			return client, proven{}, unread
		}
		to, err = s.prove(client, requested, state)
	}
	if err != nil {
		return client, proven{}, unprovenRedirect(client, requested, err)
	}
	return client, to, nil
}

// changedCookie says for a while that a page was refused because the document of a client had changed.
// Without it, whoever connects again would be refused again, for as long as one process keeps an earlier
// document, begins their requests, and another one shows the pages.
const changedCookie = "authz_changed"

// afterChange returns the client of an authorization request, as its document says now if it was a reason
// to begin again. A document that cannot be read or used now counts as it was read before.
func (s *Server) afterChange(r *http.Request, client storage.Client) storage.Client {
	if s.cookies.get(r, changedCookie) == "" {
		return client
	}
	newer, err := s.requestedAnew(r.Context(), client)
	if err != nil {
		return client
	}
	return newer
}

// trusted reports whether an error may be redirected there before the person has done
// anything. If not, the error is shown on a page. That is so for a web address of a client
// that registered itself or has a metadata document: otherwise this server would be an open
// redirector for everyone (RFC 9700 section 4.11.2). It is also so for a private-use scheme
// that is not configured: a self-registered client could start any program on the person's
// device by a link to this server.
func (p proven) trusted() bool {
	switch p.uri.Kind {
	case metadata.RedirectLoopback:
		return true
	case metadata.RedirectPrivateUse:
		return p.permitted
	}
	return p.vouched
}

// location returns the redirect URI with response parameters added to its query. The existing
// query is retained (OAuth 2.1 section 4.1.2). Every response has iss (RFC 9207 section 2),
// and state if the request had it.
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

// send redirects with 303, which makes the browser send a GET without the body of its POST
// (RFC 9700 section 4.12).
func (s *Server) send(w http.ResponseWriter, to proven, parameters url.Values) {
	h := w.Header()
	h["Location"] = []string{to.location(s.cfg.Issuer, parameters)}
	h["Referrer-Policy"] = valueNoReferrer
	w.WriteHeader(http.StatusSeeOther)
}

func (s *Server) sendError(w http.ResponseWriter, e *redirectedError) {
	s.send(w, e.to, e.parameters())
}

func (e *redirectedError) parameters() url.Values {
	return url.Values{"error": {e.code}, "error_description": {e.description}}
}

// untrusted returns a page for an error whose redirect URI is not trusted. The page offers
// the redirect URI as a link.
func untrusted(e *redirectedError, issuer string) *displayedError {
	host, message := e.to.uri.Host(), "error.untrusted.registered"
	if e.to.source == storage.ClientDocument {
		message = "error.untrusted.document"
	}
	return &displayedError{
		status: http.StatusBadRequest, code: e.code,
		title:   language.Say("error.untrusted.title"),
		message: language.Say(message, "detail", language.Detail(sentence(e.description)), "host", host),
		steps:   []language.Text{language.Say("step.closeUnexpected"), language.Say("error.untrusted.follow")},
		link:    &templates.Link{URL: e.to.location(issuer, e.parameters()), Host: host},
	}
}

// seeOther redirects the browser to a page of this server.
func seeOther(w http.ResponseWriter, location string) {
	w.Header()["Location"] = []string{location}
	w.WriteHeader(http.StatusSeeOther)
}
