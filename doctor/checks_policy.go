package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// wrongClient is a registration that a server should refuse.
type wrongClient struct {
	name, what string
	redirect   string // "" for none
	more       map[string]any
}

// wrongClients are tried in this order.
var wrongClients = []wrongClient{
	{"javascript", "a redirect URI with javascript:", "javascript:alert(1)//", nil},
	{"data", "a redirect URI with data:", "data:text/html,doctor", nil},
	{"vbscript", "a redirect URI with vbscript:", "vbscript:msgbox(1)", nil},
	{"file", "a redirect URI with file:", "file:///doctor/callback", nil},
	{"http", "a redirect URI with http at a host that is not loopback", "http://doctor.example.com/callback", nil},
	{"fragment", "a redirect URI with a fragment", "https://doctor.example.com/callback#part", nil},
	{"no-redirect", "no redirect_uris", "", nil},
	{"implicit", "the response type token", "https://doctor.example.com/callback", map[string]any{"response_types": []string{"token"}, "grant_types": []string{"implicit"}}},
}

// registerWrong tries registrations that a server should refuse, and removes what it accepts.
func (w *walker) registerWrong(ctx context.Context, s *server, d *document) {
	at := w.endpoint(d, "registration_endpoint")
	if at == "" {
		return
	}
	for _, c := range wrongClients {
		if w.full(ctx) != "" {
			w.unasked = append(w.unasked, "a registration with "+c.what)
			continue
		}
		body := map[string]any{"client_name": "authz doctor", "token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code"}, "response_types": []string{"code"}}
		if c.redirect != "" {
			body["redirect_uris"] = []string{c.redirect}
		}
		for name, value := range c.more {
			body[name] = value
		}
		r := w.registered(ctx, s, at, "", body)
		w.remove(ctx, s, r)
		if c.name == "javascript" {
			s.hostile = r // registers-script judges it
			continue
		}
		s.wrong = append(s.wrong, wrongRegistration{c, r})
	}
}

// wrongRegistration is what became of a registration that a server should refuse.
type wrongRegistration struct {
	wrongClient
	*registration
}

// stands reports whether the client is registered as it was asked for. A server may leave something
// out (RFC 7591 section 3.2.1).
func (r wrongRegistration) stands() bool {
	if r.answer.code()/100 != 2 || r.answer.text("client_id") == "" {
		return false
	}
	kept, _ := r.answer.list("redirect_uris")
	types, _ := r.answer.list("response_types")
	switch {
	case r.name == "implicit":
		return slices.Contains(types, "token")
	case r.redirect == "":
		return len(kept) == 0
	}
	return len(kept) == 0 || slices.Contains(kept, r.redirect)
}

// policyChecks are about registrations that a server should refuse.
var policyChecks = []check{
	{Entry{
		ID: "registers-scheme", Severity: Error, Rule: "MCP SBP OAuth Authorization URL Validation; RFC 8252 section 7.1",
		Title:    "A redirect URI with data:, file: or vbscript: is registered",
		Symptoms: []string{"data: redirect URI", "dangerous redirect URI scheme"},
		Mend:     "Refuse javascript:, data:, file: and vbscript: with invalid_redirect_uri. Best accept https, http on loopback, and schemes with a dot as private-use schemes have.",
	}, registersWrong("data", "vbscript", "file")},
	{Entry{
		ID: "registers-http", Severity: Error, Rule: "RFC 9700 section 2.1",
		Title:    "A redirect URI with http at a host that is not loopback is registered",
		Symptoms: []string{"redirect_uri must use https"},
		Mend:     "Refuse it with invalid_redirect_uri: who listens on the way reads the code. http is for loopback only.",
	}, registersWrong("http")},
	{Entry{
		ID: "registers-fragment", Severity: Warning, Rule: "RFC 6749 section 3.1.2; RFC 7591 section 5",
		Title:    "A redirect URI with a fragment is registered",
		Symptoms: []string{"redirect_uri with a fragment"},
		Mend:     "Refuse it with invalid_redirect_uri.",
	}, registersWrong("fragment")},
	{Entry{
		ID: "registers-without-redirect", Severity: Warning, Rule: "RFC 7591 section 2; RFC 9700 section 2.1",
		Title:    "A client for the authorization code grant is registered without a redirect URI",
		Symptoms: []string{"redirect_uris is not required"},
		Mend:     "Refuse it with invalid_redirect_uri: without a registered redirect URI there is nothing to compare with.",
	}, registersWrong("no-redirect")},
	{Entry{
		ID: "registers-implicit", Severity: Warning, Rule: "RFC 9700 section 2.1.2; OAuth 2.1 section 10.1",
		Title:    "A client is registered for the response type token",
		Symptoms: []string{"implicit grant"},
		Mend:     "Refuse it with invalid_client_metadata, or answer with the response types that the client may use.",
	}, registersWrong("implicit")},
}

// registersWrong reports those of the wrong registrations that a server accepted.
func registersWrong(names ...string) func(*walk) []string {
	return eachServer(func(s *server) []string {
		var what []string
		for _, r := range s.wrong {
			if slices.Contains(names, r.name) && r.stands() {
				what = append(what, r.what)
			}
		}
		return saw(len(what) > 0, fmt.Sprintf("registered was %s", strings.Join(what, ", ")))
	})
}
