package doctor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// wayChecks are about how a client becomes known to an authorization server.
var wayChecks = []check{
	{Entry{
		ID: "no-way-in", Severity: Error, Rule: "MCP Client Registration Approaches",
		Title:    "A client that nobody configured cannot become known",
		Symptoms: []string{"Incompatible auth server: does not support dynamic client registration", "client asks for a client ID"},
		Mend:     "Support client ID metadata documents or registration (RFC 7591). Otherwise configure each client, and give people its client_id.",
		Mends: map[string]string{
			"Keycloak":  "registration is at /realms/NAME/clients-registrations/openid-connect, and refused by the policy Trusted Hosts until hosts are listed.",
			"Entra ID":  "it has no registration: put a server or gateway in front of it.",
			"Auth0":     "switch on Dynamic Client Registration in the advanced settings of the tenant.",
			"Okta":      "its registration needs an API token, which clients do not have.",
			"Cognito":   "it has no registration: put a server or gateway in front of it, or create a client for each program.",
			"ZITADEL":   "switch on dynamic client registration, and registration without a token, in the security settings of the instance (since 2026; both are off).",
			"Ory Hydra": "set oidc.dynamic_client_registration.enabled to true; it is off unless set.",
			"authentik": "it has no registration as of 2026.5: put a server or gateway in front of it, or create a client for each program.",
			"WorkOS":    "switch on Client ID Metadata Document or Dynamic Client Registration in its dashboard, under Connect, Configuration.",
		},
		Clients: everyone,
	}, each(func(_ *server, d *document) string {
		return when(!d.has("registration_endpoint") && !d.yes("client_id_metadata_document_supported"),
			clean(d.url)+" has neither registration_endpoint nor client_id_metadata_document_supported: true")
	})},
	{Entry{
		ID: "no-documents", Severity: Note, Rule: "MCP Client ID Metadata Documents",
		Title:    "Client ID metadata documents are not supported",
		Symptoms: []string{"a client registers again at each connection"},
		Mend:     "Support them and write \"client_id_metadata_document_supported\": true: registration is deprecated since 2026-07-28.",
	}, each(func(_ *server, d *document) string {
		return when(d.has("registration_endpoint") && !d.yes("client_id_metadata_document_supported"), clean(d.url)+" has no client_id_metadata_document_supported: true")
	})},
	{Entry{
		ID: "no-registration", Severity: Warning, Rule: "MCP Dynamic Client Registration",
		Title:    "Registration is not supported",
		Symptoms: []string{"Incompatible auth server: does not support dynamic client registration"},
		Mend:     "Clients without a document need it, or a client_id that you give them.",
		Clients:  []string{geminiCLI, cursor, inspector, mcpRemote, goSDK, typescriptSDK},
	}, each(func(_ *server, d *document) string {
		return when(!d.has("registration_endpoint") && d.yes("client_id_metadata_document_supported"), clean(d.url)+" has no registration_endpoint")
	})},
	{Entry{
		ID: "public-clients", Severity: Warning, Rule: "RFC 8414 section 2; OAuth 2.1 section 2.1",
		Title:    "The metadata does not say that clients without a secret are served",
		Symptoms: []string{"client registers instead of using its document", "invalid_client", "client registers but never opens the browser"},
		Mend:     "Add none to token_endpoint_auth_methods_supported. Without the member, clients assume client_secret_basic.",
		Clients:  []string{},
	}, each(func(_ *server, d *document) string {
		list, _ := d.list("token_endpoint_auth_methods_supported")
		if !d.has("registration_endpoint") && d.yes("client_id_metadata_document_supported") && slices.Contains(list, "private_key_jwt") {
			return "" // it serves those alone whose document has a key
		}
		return when(!slices.Contains(list, "none"), "token_endpoint_auth_methods_supported has "+quotedAll(list))
	})},
}

// endpointChecks are about answers of the endpoints to clients that do not exist.
var endpointChecks = []check{
	{Entry{
		ID: "keys-missing", Severity: Error, Rule: "RFC 8414 section 2; RFC 7517 section 5",
		Title:    "jwks_uri has no keys",
		Symptoms: []string{"failed to fetch JWKS", "no matching key", "unable to find a signing key"},
		Mend:     "Serve a JSON object with keys at jwks_uri, for everybody.",
	}, each(func(s *server, _ *document) string {
		e := s.call("keys")
		if !e.answered() {
			return ""
		}
		keys, ok := newDocument(e, "").members["keys"].([]any)
		return when(!ok || len(keys) == 0, fmt.Sprintf("%s with the body %s", e, excerpt(e.body)))
	})},
	{Entry{
		ID: "keys-secret", Severity: Error, Rule: "RFC 7517 section 9.2; RFC 8414 section 2",
		Title:    "jwks_uri publishes secret keys",
		Symptoms: []string{"private key in JWKS"},
		Mend:     "Replace these keys now, and publish the public members only: whoever read them can make tokens.",
	}, each(func(s *server, _ *document) string { return secretKeys(s.call("keys")) })},
	{Entry{
		ID: "redirects-unknown", Severity: Error, Rule: "RFC 6749 section 4.1.2.1; RFC 9700 section 4.11.2",
		Title:    "The authorization endpoint redirects to the URI of a client that it does not know",
		Symptoms: []string{"open redirector"},
		Mend:     "Check client_id and redirect_uri first, and show a page with status 400 when one is wrong.",
	}, each(func(s *server, _ *document) string {
		e := s.call("authorize.unknown")
		return when(e.answered() && strings.HasPrefix(e.get("Location"), unknownRedirect), e.String()+" and leads to "+quoted(e.get("Location")))
	})},
	{Entry{
		ID: "token-error-shape", Severity: Error, Rule: "RFC 6749 section 5.2",
		Title:    "The token endpoint does not answer errors in JSON",
		Symptoms: []string{"Unexpected token '<'", "Invalid OAuth error response", "client cannot tell why the sign-in failed"},
		Mend:     `Answer 400 or 401 with application/json and {"error": "invalid_client"}. A page of a proxy or a web framework in its place hides the reason.`,
		Clients:  everyone,
	}, each(func(s *server, _ *document) string {
		e := s.call("token")
		if !e.answered() {
			return ""
		}
		var answer struct{ Error any }
		_ = json.Unmarshal(e.body, &answer)
		text, ok := answer.Error.(string)
		return when(!ok || text == "" || e.status < 400, fmt.Sprintf("%s with the body %s", e, excerpt(e.body)))
	})},
	{Entry{
		ID: "token-unknown-client", Severity: Warning, Rule: "RFC 6749 section 5.2",
		Title:    "The token endpoint does not say invalid_client to a client that it does not know",
		Symptoms: []string{"client never registers again after its registration was removed", "invalid_grant after a restart of the server"},
		Mend:     "Answer 401 invalid_client: clients that read it forget their registration and make a new one. invalid_grant makes them ask for a new sign-in with the same dead client.",
	}, each(func(s *server, _ *document) string {
		e := s.call("token")
		code := newDocumentOf(e).text("error")
		return when(code != "" && code != "invalid_client", fmt.Sprintf("%s with error %s to an unknown client", e, quoted(code)))
	})},
	{Entry{
		ID: "token-cacheable", Severity: Warning, Rule: "RFC 6749 section 5.1; OAuth 2.1 section 3.2.3",
		Title:    "Answers of the token endpoint may be cached",
		Symptoms: []string{"tokens in a cache"},
		Mend:     "Send Cache-Control: no-store with every answer of the token endpoint.",
	}, each(func(s *server, _ *document) string {
		e := s.call("token")
		return when(e.answered() && !strings.Contains(strings.ToLower(e.get("Cache-Control")), "no-store"),
			fmt.Sprintf("%s with Cache-Control %s", e, quoted(e.get("Cache-Control"))))
	})},
}

// newDocumentOf reads the body of an answer of any status, nil without an answer.
func newDocumentOf(e *exchange) *document {
	d := &document{exchange: e}
	if e.answered() && jsonObject(e.body) {
		_ = json.Unmarshal(e.body, &d.members)
	}
	return d
}

// secretKeys reports keys with private members, and symmetric keys.
func secretKeys(e *exchange) string {
	if !e.ok() {
		return ""
	}
	var set struct{ Keys []map[string]any }
	if json.Unmarshal(e.body, &set) != nil {
		return ""
	}
	for i, key := range set.Keys {
		if key["d"] != nil || key["k"] != nil || key["kty"] == "oct" {
			return fmt.Sprintf("key %d of %s (kid %s) has private members or is symmetric", i+1, clean(e.url), quoted(fmt.Sprint(key["kid"])))
		}
	}
	return ""
}

// browserChecks are about clients that are pages in a browser.
var browserChecks = []check{
	{cors("cors-call", "the server itself", `Allow every origin at the server: Access-Control-Allow-Origin, and for OPTIONS Access-Control-Allow-Methods (GET, POST, DELETE) and Access-Control-Allow-Headers (Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID), without asking for a token.`),
		meant(func(w *walk) []string { return preflights(w.call("call.preflight")) })},
	{cors("cors-challenge", "the challenge of the server", "Send Access-Control-Allow-Origin and Access-Control-Expose-Headers: WWW-Authenticate, Mcp-Session-Id also with 401 and 403."),
		meant(func(w *walk) []string {
			e := w.call("call.origin")
			exposed := strings.ToLower(strings.Join(e.headers("Access-Control-Expose-Headers"), ","))
			fault := e.answered() && e.status == http.StatusUnauthorized &&
				(!allows(e) || !strings.Contains(exposed, "www-authenticate") && strings.TrimSpace(exposed) != "*")
			return saw(fault, fmt.Sprintf("%s with Access-Control-Allow-Origin %s and Access-Control-Expose-Headers %s to a page at %s",
				e, quoted(e.get("Access-Control-Allow-Origin")), quoted(e.get("Access-Control-Expose-Headers")), browserOrigin))
		})},
	{cors("cors-resource-metadata", "the resource metadata", "Send Access-Control-Allow-Origin: * with the document, and allow MCP-Protocol-Version in the answer to OPTIONS."),
		meant(func(w *walk) []string { return pageReads(w.call("resource.preflight"), w.call("resource.origin")) })},
	{cors("cors-server-metadata", "the metadata of the authorization server", "Send Access-Control-Allow-Origin: * with the document, and allow MCP-Protocol-Version in the answer to OPTIONS."),
		meant(eachServer(func(s *server) []string { return pageReads(s.call("server.preflight"), s.call("server.origin")) }))},
	{cors("cors-token", "the token endpoint", "Allow every origin without credentials at the token endpoint, also with errors. No cookie is used there, so nothing is at risk."),
		meant(eachServer(func(s *server) []string { return pageReads(s.call("token.preflight"), s.call("token")) }))},
	{cors("cors-register", "the registration endpoint", "Allow every origin without credentials at the registration endpoint."),
		meant(eachServer(func(s *server) []string { return preflights(s.call("register.preflight")) }))},
	{Entry{
		ID: "cors-none", Severity: Note, Rule: "Fetch section 3.3; MCP Transports",
		Title:    "The servers are not for pages in a browser",
		Symptoms: []string{"blocked by CORS policy", "Failed to fetch"},
		Mend:     "Nothing, if no client is a page. Else allow every origin at the server, at all metadata, and at the token and registration endpoints.",
	}, func(w *walk) []string {
		at := slices.IndexFunc(w.exchanges, func(e *exchange) bool { return e.answered() && e.method == http.MethodOptions })
		if at < 0 || w.forPages() {
			return nil
		}
		return []string{"no preflight is permitted; " + w.exchanges[at].String()}
	}},
	{Entry{
		ID: "cors-credentials", Severity: Warning, Rule: "Fetch section 3.3.5; OWASP ASVS",
		Title:    "Pages of any origin may send cookies",
		Symptoms: []string{"Access-Control-Allow-Credentials"},
		Mend:     "Remove Access-Control-Allow-Credentials: clients use tokens, and no page but the server's own may use the session of a person.",
	}, func(w *walk) []string {
		for _, e := range w.exchanges {
			if e.sent.Get("Origin") != "" && e.get("Access-Control-Allow-Origin") == browserOrigin && e.get("Access-Control-Allow-Credentials") == "true" {
				return []string{e.String() + " with Access-Control-Allow-Credentials: true"}
			}
		}
		return nil
	}},
}

// cors is the entry for one place that a page in a browser must be able to use. It stops no client of
// the table: the page of the Inspector asks by the program that serves it.
func cors(id, what, mend string) Entry {
	return Entry{
		ID: id, Severity: Warning, Rule: "Fetch section 3.3; MCP Transports",
		Title:    "Pages in a browser cannot use " + what,
		Symptoms: []string{"blocked by CORS policy", "Failed to fetch", "TypeError: NetworkError when attempting to fetch resource"},
		Mend:     mend,
	}
}

// forPages reports whether some preflight, or this origin, is permitted: who permits neither has no
// pages in mind. Documents for every origin tell nothing, as web servers add that.
func (w *walk) forPages() bool {
	return slices.ContainsFunc(w.exchanges, func(e *exchange) bool {
		origin := e.get("Access-Control-Allow-Origin")
		return origin == browserOrigin || origin != "" && e.method == http.MethodOptions
	})
}

// meant looks only at servers that are for pages.
func meant(look func(*walk) []string) func(*walk) []string {
	return func(w *walk) []string {
		if !w.forPages() {
			return nil
		}
		return look(w)
	}
}

// headers returns all values of a header of the answer.
func (e *exchange) headers(name string) []string {
	if e == nil {
		return nil
	}
	return e.header.Values(name)
}

// allows reports whether a page at browserOrigin may read the answer.
func allows(e *exchange) bool {
	origin := e.get("Access-Control-Allow-Origin")
	return origin == "*" || origin == browserOrigin
}

// preflights reports a preflight that a browser takes for a refusal. All are for GET and POST, which
// need not be allowed (Fetch, CORS-safelisted methods).
func preflights(e *exchange) []string {
	if !e.answered() {
		return nil
	}
	if e.status/100 != 2 || !allows(e) {
		return []string{fmt.Sprintf("%s with Access-Control-Allow-Origin %s", e, quoted(e.get("Access-Control-Allow-Origin")))}
	}
	allowed := split(e.headers("Access-Control-Allow-Headers"))
	for _, name := range split(e.sent["Access-Control-Request-Headers"]) {
		if !slices.Contains(allowed, name) && (!slices.Contains(allowed, "*") || name == "authorization") {
			return []string{fmt.Sprintf("%s without %s in Access-Control-Allow-Headers", e, name)}
		}
	}
	return nil
}

// pageReads reports what keeps a page from sending a request with the protocol's header, and
// from reading the answer.
func pageReads(preflight, answer *exchange) []string {
	if found := preflights(preflight); found != nil {
		return found
	}
	return saw(answer.answered() && !allows(answer),
		fmt.Sprintf("%s with Access-Control-Allow-Origin %s", answer, quoted(answer.get("Access-Control-Allow-Origin"))))
}

func eachServer(look func(*server) []string) func(*walk) []string {
	return func(w *walk) (found []string) {
		for _, s := range w.servers {
			found = append(found, look(s)...)
		}
		return found
	}
}

// split returns the elements of lists in headers, in lower case.
func split(values []string) (all []string) {
	for _, v := range strings.Split(strings.ToLower(strings.Join(values, ",")), ",") {
		if v = strings.TrimSpace(v); v != "" {
			all = append(all, v)
		}
	}
	return all
}
