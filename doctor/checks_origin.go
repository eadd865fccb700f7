package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// fromPages asks what a page in a browser asks, beside what every examination asks.
func (w *walker) fromPages(ctx context.Context, s *server, d *document) {
	keep := func(q question) { s.calls = append(s.calls, w.ask(ctx, q)) }
	if at := w.endpoint(d, "authorization_endpoint"); at != "" && w.room(ctx, "a preflight at the authorization endpoint") {
		keep(preflight("authorize.preflight", at, http.MethodGet, "content-type"))
	}
	at := w.endpoint(d, "revocation_endpoint")
	if at == "" || !w.room(ctx, "a preflight at the revocation endpoint") {
		return
	}
	keep(preflight("revoke.preflight", at, http.MethodPost, "content-type"))
	if !w.room(ctx, "a revocation") {
		return
	}
	form := url.Values{"token": {"doctor-unknown-token"}, "client_id": {unknownClient}}
	keep(question{"revoke", http.MethodPost, at, http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}, "Origin": {browserOrigin},
	}, form.Encode()})
}

// originChecks are about pages in a browser at further endpoints of an authorization server.
var originChecks = []check{
	{noted(cors("cors-keys", "the keys at jwks_uri", "Send Access-Control-Allow-Origin: * with the keys. They are for everybody, and a page verifies ID tokens with them."), "RFC 9700 section 2.6; Fetch section 3.3"),
		meant(eachServer(func(s *server) []string { return unreadable(s.call("keys")) }))},
	{noted(cors("cors-revoke", "the revocation endpoint", "Allow every origin without credentials at the revocation endpoint, so that a page can sign out."), "RFC 7009 section 2.3; Fetch section 3.3"),
		meant(eachServer(func(s *server) []string {
			if found := preflights(s.call("revoke.preflight")); found != nil {
				return found
			}
			return unreadable(s.call("revoke"))
		}))},
	{cors("cors-register-answer", "the answer to a registration", "Send Access-Control-Allow-Origin with the answer to POST too: a preflight that is permitted is not enough."),
		meant(eachServer(func(s *server) []string {
			for _, r := range s.clients {
				if found := unreadable(r.answer.exchange); found != nil && r.answer.text("client_id") != "" {
					return found
				}
			}
			return nil
		}))},
	{Entry{
		ID: "cors-authorize", Severity: Warning, Rule: "RFC 9700 section 2.6",
		Title:    "Pages in a browser can read the answers of the authorization endpoint",
		Symptoms: []string{"CORS at the authorization endpoint"},
		Mend:     "Send no Access-Control-… headers at the authorization endpoint: browsers are sent there, and no page of a client reads it. Often a rule for all paths does so; leave it out there.",
	}, eachServer(func(s *server) []string {
		for _, place := range []string{"authorize.unknown", "authorize.preflight"} {
			if e := s.call(place); e.answered() && allows(e) {
				return []string{fmt.Sprintf("%s with Access-Control-Allow-Origin %s and Access-Control-Allow-Credentials %s",
					e, quoted(e.get("Access-Control-Allow-Origin")), quoted(e.get("Access-Control-Allow-Credentials")))}
			}
		}
		return nil
	})},
}

// noted makes a note of what few pages need.
func noted(e Entry, rule string) Entry {
	e.Severity, e.Rule, e.Clients = Note, rule, nil
	return e
}

// unreadable reports an answer that a page in a browser cannot read.
func unreadable(e *exchange) []string {
	return saw(e.answered() && !allows(e), fmt.Sprintf("%s with Access-Control-Allow-Origin %s", e, quoted(e.get("Access-Control-Allow-Origin"))))
}
