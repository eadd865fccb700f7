package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// registerChecks are about answers to registrations. They find nothing unless Options.Register
// is set.
var registerChecks = []check{
	{Entry{
		ID: "registration-refused", Severity: Error, Rule: "RFC 7591 section 3.2.2; MCP Dynamic Client Registration",
		Title:    "The registration of a client is refused",
		Symptoms: []string{"invalid_redirect_uri", "invalid_client_metadata", "Dynamic client registration failed", "couldn't register with the sign-in service"},
		Mend:     "Accept what these clients send: loopback redirect URIs with any port, https redirect URIs of foreign hosts, private-use schemes of known clients, and members that you do not know.",
		Mends:    map[string]string{"Keycloak": "the policy Trusted Hosts refuses whoever is not listed; the policy Allowed Client Scopes refuses unknown scopes."},
		Clients:  everyone,
	}, eachClient(func(r *registration) string {
		refused := r.answer.answered() && r.answer.code()/100 != 2 && r.answer.code() != http.StatusUnauthorized && r.answer.code() != http.StatusForbidden
		return when(refused, fmt.Sprintf("answers %d: %s", r.answer.code(), excerpt(r.answer.body)))
	})},
	{Entry{
		ID: "registration-locked", Severity: Error, Rule: "RFC 7591 section 3; MCP Dynamic Client Registration",
		Title:    "Registration needs a token that clients do not have",
		Symptoms: []string{"401 for /register", "403 for /register", "client registers but never opens the browser"},
		Mend:     "Open registration, with limits; or support client ID metadata documents and remove registration_endpoint from the metadata.",
		Clients:  everyone,
	}, eachServer(func(s *server) []string {
		for _, r := range s.clients {
			if r.answer.code() == http.StatusUnauthorized || r.answer.code() == http.StatusForbidden {
				return []string{r.answer.exchange.String()}
			}
		}
		return nil
	})},
	{Entry{
		ID: "registration-answer", Severity: Error, Rule: "RFC 7591 section 3.2.1",
		Title:    "The answer to a registration has no client_id",
		Symptoms: []string{"registration response is missing required 'client_id' field", "client registers but never opens the browser"},
		Mend:     "Answer 201 with application/json, client_id and all registered metadata.",
		Clients:  everyone,
	}, eachClient(func(r *registration) string {
		return when(r.answer.code()/100 == 2 && r.answer.text("client_id") == "", "gets "+excerpt(r.answer.body))
	})},
	{Entry{
		ID: "registration-redirects", Severity: Error, Rule: "RFC 7591 section 3.2.1",
		Title:    "The answer to a registration lacks redirect URIs of the client",
		Symptoms: []string{"redirect_uris: Required", "redirect_uri mismatch", "client registers but never opens the browser"},
		Mend:     "Echo redirect_uris as they were sent. Refuse the request if one of them is not acceptable, instead of leaving it out.",
		Clients:  everyone,
	}, eachClient(func(r *registration) string {
		list, _ := r.answer.list("redirect_uris")
		for _, sent := range texts(r.sent["redirect_uris"]) {
			if r.answer.text("client_id") != "" && !slices.Contains(list, sent) {
				return fmt.Sprintf("sent %s and got %s", quoted(sent), quotedAll(list))
			}
		}
		return ""
	})},
	{Entry{
		ID: "registration-method", Severity: Warning, Rule: "RFC 7591 section 2; RFC 7591 section 3.2.1",
		Title:    "A client without a secret is registered as one that has a secret",
		Symptoms: []string{"invalid_client", "client_secret_basic authentication requires a client_secret"},
		Mend:     "Echo token_endpoint_auth_method, and accept none. Where it is missing, clients use client_secret_basic.",
		Clients:  []string{goSDK},
	}, eachClient(func(r *registration) string {
		got := r.answer.text("token_endpoint_auth_method")
		return when(r.sent["token_endpoint_auth_method"] == "none" && r.answer.text("client_id") != "" && got != "none",
			fmt.Sprintf("asked for none and got %s", quoted(got)))
	})},
	{Entry{
		ID: "registration-cacheable", Severity: Warning, Rule: "RFC 7591 section 3.2.1",
		Title:    "Answers to registrations may be cached",
		Symptoms: []string{"two clients with one client_id"},
		Mend:     "Send Cache-Control: no-store.",
	}, eachClient(func(r *registration) string {
		return when(r.answer.text("client_id") != "" && !strings.Contains(strings.ToLower(r.answer.get("Cache-Control")), "no-store"), r.answer.exchange.String())
	})},
	{Entry{
		ID: "registration-stays", Severity: Note, Rule: "RFC 7592 section 2.3",
		Title:    "A client cannot remove its registration",
		Symptoms: []string{"hundreds of clients with the same name"},
		Mend:     "Return registration_client_uri and registration_access_token, and answer DELETE. Otherwise remove clients that nobody uses.",
	}, eachClient(func(r *registration) string {
		return when(r.answer.text("client_id") != "" && r.removed.code()/100 != 2, "after the registration: "+r.removed.String())
	})},
	{Entry{
		ID: "registers-script", Severity: Error, Rule: "RFC 8252 section 7.1; MCP SBP OAuth Authorization URL Validation",
		Title:    "A redirect URI with javascript: is registered",
		Symptoms: []string{"javascript: redirect URI"},
		Mend:     "Refuse javascript:, data:, file: and vbscript: with invalid_redirect_uri.",
	}, eachServer(func(s *server) []string {
		return saw(s.hostile != nil && s.hostile.answer.text("client_id") != "", "javascript:alert(1)// was registered")
	})},
}

// tryChecks are about the authorization endpoint, for a client that it knows.
var tryChecks = []check{
	{Entry{
		ID: "authorize-refused", Severity: Error, Rule: "RFC 6749 section 4.1.1; RFC 8707 section 2.1",
		Title:    "The authorization endpoint refuses a correct request",
		Symptoms: []string{"invalid_target", "invalid_scope", "invalid_request", "browser shows an error at once"},
		Mend:     "Look at error: invalid_target means that the server does not know this resource, invalid_scope that it does not know a scope that the protected server names.",
		Clients:  everyone,
	}, tried("try.valid", func(e *exchange, o outcome, back map[string][]string) string {
		return when(o != toSignIn && back["code"] == nil, fmt.Sprintf("%s %s", e, shown(back)))
	})},
	{Entry{
		ID: "code-without-person", Severity: Error, Rule: "MCP SBP Confused Deputy; RFC 6749 section 10.12",
		Title:    "A code is issued without a person",
		Symptoms: []string{"no sign-in page appears"},
		Mend:     "Have a person sign in and agree before a code is issued.",
	}, tried("try.valid", func(e *exchange, o outcome, back map[string][]string) string {
		return when(back["code"] != nil, e.String()+" with a code")
	})},
	{Entry{
		ID: "loopback-port", Severity: Error, Rule: "RFC 8252 section 7.3; MCP Localhost Redirect URI Risks",
		Title:    "A loopback redirect URI with another port is refused",
		Symptoms: []string{"redirect_uri mismatch", "works once, then the client must register again", "invalid redirect_uri http://127.0.0.1"},
		Mend:     "Ignore the port of redirect URIs on loopback, in the comparison with those that are registered: clients listen on a free port.",
		Clients:  []string{claudeCode, codex, vscode, geminiCLI, mcpRemote},
	}, tried("try.port", func(e *exchange, o outcome, _ map[string][]string) string {
		return when(o == toError, fmt.Sprintf("%s to http://127.0.0.1:45123/callback, registered is %s", e, ownRedirect))
	})},
	{Entry{
		ID: "redirect-unmatched", Severity: Error, Rule: "RFC 9700 section 2.1; MCP Open Redirection",
		Title:    "A redirect URI that is not registered is accepted",
		Symptoms: []string{"open redirector", "redirect_uri is not validated"},
		Mend:     "Compare redirect URIs exactly, except for the port on loopback.",
	}, tried("try.path", func(e *exchange, o outcome, _ map[string][]string) string {
		return when(o == toSignIn || o == toClient, fmt.Sprintf("%s to %s/other, registered is %s", e, ownRedirect, ownRedirect))
	})},
	{Entry{
		ID: "state-required", Severity: Error, Rule: "RFC 6749 section 4.1.1",
		Title:    "A request without state is refused",
		Symptoms: []string{"invalid_state", "state is missing or too short"},
		Mend:     "Take state as optional: clients with PKCE may leave it out.",
		Clients:  []string{typescriptSDK},
	}, tried("try.without-state", func(e *exchange, o outcome, back map[string][]string) string {
		return when((o == toError || o == toClient) && back["code"] == nil, fmt.Sprintf("%s %s", e, shown(back)))
	})},
	{Entry{
		ID: "pkce-optional", Severity: Warning, Rule: "OAuth 2.1 section 4.1.1; RFC 9700 section 2.1.1",
		Title:    "A request without PKCE comes to the sign-in",
		Symptoms: []string{"PKCE is not enforced"},
		Mend:     "Answer invalid_request to a public client without code_challenge, before anybody signs in.",
	}, tried("try.without-pkce", func(e *exchange, o outcome, back map[string][]string) string {
		return when(o == toSignIn || back["code"] != nil, e.String()+" without code_challenge")
	})},
	{Entry{
		ID: "implicit", Severity: Warning, Rule: "RFC 9700 section 2.1.2; OAuth 2.1 section 10.1",
		Title:    "The response type token comes to the sign-in",
		Symptoms: []string{"implicit grant"},
		Mend:     "Answer unsupported_response_type: the implicit grant puts tokens into URLs.",
	}, tried("try.token", func(e *exchange, o outcome, _ map[string][]string) string {
		return when(o == toSignIn, e.String()+" for response_type=token")
	})},
	{Entry{
		ID: "try-unsure", Severity: Note, Rule: "RFC 6749 section 4.1.2.1",
		Title:    "Whether the authorization endpoint refuses a wrong request cannot be told from its answer",
		Symptoms: []string{"error page with status 200", "redirect to an error page"},
		Mend:     "Look at the page yourself. Answer 400 with a page where client or redirect URI are wrong, and redirect to the client with every other error: clients then learn why.",
	}, each(func(s *server, _ *document) string {
		var found []string
		whats := map[string][]string{}
		for _, t := range tries {
			e := s.call("try." + t.name)
			if o, _ := s.outcome(e); e.answered() && o == toUnsure && s.comes() {
				seen := e.String() + seenAt(e)
				found, whats[seen] = append(found, seen), append(whats[seen], t.what)
			}
		}
		found = unique(found)
		for i, seen := range found {
			found[i] = seen + " " + strings.Join(whats[seen], ", ")
		}
		return strings.Join(found, "; ")
	})},
	{Entry{
		ID: "iss-absent", Severity: Error, Rule: "RFC 9207 section 2; MCP Authorization Response Validation",
		Title:    "An authorization response lacks the iss that the metadata promises, or has another",
		Symptoms: []string{"iss missing in the authorization response", "issuer mismatch in the callback"},
		Mend:     "Send iss, equal to issuer of the metadata, with errors too.",
		Clients:  []string{goSDK, typescriptSDK},
	}, each(func(s *server, d *document) string {
		for _, e := range s.calls {
			if !strings.HasPrefix(e.place, "try.") || !d.yes("authorization_response_iss_parameter_supported") || d.text("issuer") != s.issuer {
				continue
			}
			if o, back := outcomeOf(e); o == toClient && back.Get("iss") != d.text("issuer") {
				return fmt.Sprintf("%s with iss %s", e, quoted(back.Get("iss")))
			}
		}
		return ""
	})},
}

// eachClient looks at each registration of a recorded client. What is seen for several is reported
// once at each authorization server, with their names.
func eachClient(look func(*registration) string) func(*walk) []string {
	return eachServer(func(s *server) (found []string) {
		names := map[string][]string{}
		for _, r := range s.clients {
			text := look(r)
			if text != "" && names[text] == nil {
				found = append(found, text)
			}
			names[text] = append(names[text], r.client)
		}
		for i, text := range found {
			found[i] = strings.Join(names[text], ", ") + ": " + text
		}
		return found
	})
}

// tried looks at what one authorization request led to, provided that the correct one came to
// the sign-in: nothing can be told otherwise.
func tried(place string, look func(*exchange, outcome, map[string][]string) string) func(*walk) []string {
	return eachServer(func(s *server) []string {
		e := s.call(place)
		if !e.answered() || !s.comes() && place != "try.valid" {
			return nil
		}
		o, back := s.outcome(e)
		text := look(e, o, back)
		return saw(text != "", text)
	})
}

// tries are the requests that a server may refuse, and what differs in them.
var tries = []struct{ name, what string }{
	{"port", "to a loopback redirect URI with another port"},
	{"path", "to a redirect URI that is not registered"},
	{"without-state", "without state"},
	{"without-pkce", "without code_challenge"},
	{"token", "for response_type=token"},
}

// comes reports whether the correct request came to the sign-in.
func (s *server) comes() bool {
	e := s.call("try.valid")
	o, _ := outcomeOf(e)
	return e.answered() && o == toSignIn
}

// seenAt returns where a redirect leads.
func seenAt(e *exchange) string {
	at, _, _ := strings.Cut(e.get("Location"), "?")
	return when(at != "", " and leads to "+quoted(at))
}

// shown returns what a client was told.
func shown(back map[string][]string) string {
	if back["error"] == nil {
		return ""
	}
	return "with error " + quoted(strings.Join(back["error"], " ")) + ": " + quoted(strings.Join(back["error_description"], " "))
}

// texts returns the strings of an array.
func texts(value any) (all []string) {
	switch list := value.(type) {
	case []string:
		return list
	case []any:
		for _, v := range list {
			if s, ok := v.(string); ok {
				all = append(all, s)
			}
		}
	}
	return all
}
