package doctor_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

const (
	html     = "<!DOCTYPE html><title>Sign in</title>"
	placed   = places + "/mcp"
	linked   = `Bearer resource_metadata="` + placed + `"`
	jsonType = "application/json"
)

func zoo() []animal {
	return slices.Concat(callAnimals, challengeAnimals, placeAnimals, resourceAnimals, serverAnimals, memberAnimals, endpointAnimals, browserAnimals, registerAnimals, tryAnimals, tokenAnimals, truthAnimals)
}

var callAnimals = []animal{
	{"tools without a token", "open", route("POST "+notes, empty), ""},
	{"signs people in at a page", "sign-in-page", route("POST "+notes, answer(302, "", "", "Location", "https://login.example.com/")), ""},
	{"a slash is added to the URL", "target-moved", func(s *stable) {
		s.with("POST "+notes, answer(307, "", "", "Location", "/mcp/"))
		s.with("POST "+notes+"/", s.guard)
	}, ""},
	{"http is sent to https", "target-moved-get", route("POST "+notes, answer(301, "", "", "Location", "https://notes.example.com:8443/mcp")), ""},
	{"a page in place of 401", "sign-in-page", route("POST "+notes, answer(403, "text/html", html)), ""},
	{"403 without a token", "wrong-status", route("POST "+notes, answer(403, jsonType, `{}`)), ""},
	{"400 for the revision", "wrong-status", route("POST "+notes, answer(400, jsonType, `{"error":"Unsupported protocol version"}`)), ""},
	{"new revision refused before the token", "revisions-differ", func(s *stable) {
		s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			s.guard(w, r)
		})
	}, "wrong-status"},
	{"session asked for before the token", "unknown-method-open", func(s *stable) {
		s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
			body := make([]byte, 200)
			n, _ := r.Body.Read(body)
			if strings.Contains(string(body[:n]), "doctor/unknown") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			s.guard(w, r)
		})
	}, ""},
	{"a stream for everybody", "stream-open", route("GET "+notes, answer(200, "text/event-stream", "data: {}\n\n")), ""},
	{"500 at a call", "server-fault", route("POST "+notes, answer(500, "text/plain", "panic")), "wrong-token-status"},
	{"any token", "wrong-token-accepted", func(s *stable) {
		s.with("POST "+notes, s.unless(func(token string) bool { return strings.Contains(token, "wrong") }, 200))
	}, ""},
	{"an unsigned token", "unsigned-token-accepted", func(s *stable) {
		s.with("POST "+notes, s.unless(func(token string) bool { return strings.Contains(token, "Bearer ey") }, 200))
	}, ""},
	{"403 for a wrong token", "wrong-token-status", func(s *stable) {
		s.with("POST "+notes, s.unless(func(token string) bool { return token != "Bearer "+s.token }, 403))
	}, ""},
	{"a wrong token is told nothing", "wrong-token-silent", func(s *stable) { s.refusal = linked }, ""},
}

// empty answers each message with an empty result, at once: a client that waits for another id
// would wait for a minute.
func empty(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.NewDecoder(r.Body).Decode(&message)
	if len(message.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer(200, jsonType, `{"jsonrpc":"2.0","id":`+string(message.ID)+`,"result":{}}`)(w, r)
}

// unless answers with a status where a token fits, and refuses as ever where none does.
func (s *stable) unless(fits func(token string) bool, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Authorization"); token != "" && fits(token) {
			w.WriteHeader(status)
			return
		}
		s.guard(w, r)
	}
}

var challengeAnimals = []animal{
	{"no challenge", "challenge-missing", func(s *stable) { s.challenge = "" }, ""},
	{"a challenge without quotes", "challenge-malformed", challenge("Bearer resource_metadata=%s", placed), ""},
	{"two values of one parameter", "challenge-malformed", challenge(`%s, resource_metadata="%s"`, linked, placed), ""},
	{"a quote without end", "challenge-malformed", challenge(`Bearer scope="notes:read`), ""},
	{"a password is asked for", "challenge-not-bearer", challenge(`Basic realm="notes"`), ""},
	{"two challenges", "challenge-twice", challenge(`%s, Bearer realm="proxy"`, linked), ""},
	{"a challenge without a link", "challenge-without-metadata", challenge(`Bearer realm="notes"`), ""},
	{"a relative link", "challenge-url", challenge(`Bearer resource_metadata="/.well-known/oauth-protected-resource/mcp"`), ""},
	{"a link with http", "challenge-elsewhere", challenge(`Bearer resource_metadata="%s"`, strings.Replace(placed, "https", "http", 1)), "resource-metadata-broken-link"},
	{"a link to an internal name", "challenge-elsewhere", challenge(`Bearer resource_metadata="http://notes:8081/.well-known/oauth-protected-resource"`), ""},
	{"an error without a token", "challenge-error", challenge(`%s, error="invalid_token"`, linked), ""},
	{"offline access in the challenge", "challenge-offline", challenge(`%s, scope="notes:read offline_access"`, linked), ""},
	{"scopes with commas", "challenge-scope", challenge(`%s, scope="notes:read,notes:write"`, linked), ""},
	{"an empty scope", "challenge-empty", challenge(`%s, scope=""`, linked), "challenge-scope"},
}

var placeAnimals = []animal{
	{"no resource metadata", "resource-metadata-missing", func(s *stable) {
		s.with("GET "+placed, http.NotFound)
		s.with("GET "+places, http.NotFound)
	}, "resource-metadata-broken-link server-metadata-missing"},
	{"a broken link", "resource-metadata-broken-link", challenge(`Bearer resource_metadata="%s/v2"`, places), ""},
	{"locked resource metadata", "resource-metadata-locked", route("GET "+placed, answer(401, "", "")), "resource-metadata-broken-link resource-metadata-not-inserted"},
	{"resource metadata at the root", "resource-metadata-not-inserted", func(s *stable) {
		s.with("GET "+placed, http.NotFound)
		s.challenge = `Bearer resource_metadata="` + places + `"`
	}, ""},
	{"resource metadata at the root, without a link", "resource-metadata-only-root", func(s *stable) {
		s.with("GET "+placed, http.NotFound)
		s.challenge = "Bearer"
	}, "challenge-without-metadata"},
	{"a page for every path", "resource-metadata-not-json", route("GET "+placed, answer(200, "text/html", html)), "resource-metadata-not-inserted"},
	{"half a document", "resource-metadata-not-json", route("GET "+placed, answer(200, jsonType, `{"resource":`)), "resource-metadata-not-inserted"},
	{"an array", "resource-metadata-not-json", route("GET "+placed, answer(200, jsonType, `[]`)), "resource-metadata-not-inserted"},
	{"an endless document", "too-large", route("GET "+placed, answer(200, jsonType, `{"a":"`+strings.Repeat("a", 300<<10))), ""},
	{"resource metadata as text", "resource-metadata-type", header("GET "+placed, "Content-Type", "text/plain"), ""},
	{"a slash is added", "resource-metadata-redirected", func(s *stable) {
		s.with("GET "+placed, answer(301, "", "", "Location", "/.well-known/oauth-protected-resource"))
	}, "resource-metadata-not-inserted"},
	{"a circle of redirects", "metadata-redirected-away", route("GET "+placed, answer(302, "", "", "Location", placed)),
		"resource-metadata-redirected resource-metadata-not-inserted resource-metadata-broken-link"},
	{"a redirect to another host", "metadata-redirected-away", route("GET "+servers, answer(302, "", "", "Location", "https://cdn.example.net/")), "server-metadata-redirected"},
	{"two documents", "resource-metadata-differs", func(s *stable) {
		s.challenge = `Bearer resource_metadata="` + places + `/v2"`
		s.with("GET "+places+"/v2", answer(200, jsonType, `{"resource":"`+notes+`","authorization_servers":["`+issuer+`","https://old.example.org"]}`, "Access-Control-Allow-Origin", "*"))
		s.with("OPTIONS "+places+"/v2", permit("GET", "*"))
	}, "server-metadata-missing"},
	{"terminal escapes", "resource-not-a-url", resource("resource", "https://notes.example.com/\x1b[2J\u202e\r\nmcp"), ""},
}

var resourceAnimals = []animal{
	{"no resource", "resource-missing", resource("resource", nil), ""},
	{"a resource without a scheme", "resource-not-a-url", resource("resource", "notes.example.com/mcp"), ""},
	{"a resource with a fragment", "resource-not-a-url", resource("resource", notes+"#main"), ""},
	{"a slash too many", "resource-slash", resource("resource", notes+"/"), ""},
	{"upper case", "resource-spelling", resource("resource", "https://Notes.Example.com/mcp"), ""},
	{"the default port", "resource-spelling", resource("resource", "https://notes.example.com:443/mcp"), ""},
	{"http behind a proxy", "resource-scheme", resource("resource", "http://notes.example.com/mcp"), ""},
	{"the port behind a proxy", "resource-scheme", resource("resource", "http://notes.example.com:8081/mcp"), ""},
	{"the host as resource", "resource-wider", resource("resource", "https://notes.example.com"), ""},
	{"another server of the host", "resource-mismatch", resource("resource", "https://notes.example.com/other"), ""},
	{"another host as a whole", "resource-mismatch", resource("resource", "https://other.example.com"), ""},
	{"an internal name", "resource-mismatch", resource("resource", "https://notes.internal.example.com/mcp"), ""},
	{"no authorization server", "resource-servers", resource("authorization_servers", nil), ""},
	{"an empty list", "resource-servers", resource("authorization_servers", []string{}), ""},
	{"a string in place of a list", "resource-servers", resource("authorization_servers", issuer), ""},
	{"an authorization server without a scheme", "resource-servers", resource("authorization_servers", []string{"auth.example.org"}), ""},
	{"an authorization server with another scheme", "resource-servers", resource("authorization_servers", []string{"ftp://auth.example.org"}), ""},
	{"several authorization servers", "resource-several-servers", resource("authorization_servers", []string{issuer, issuer}), ""},
	{"offline access for the server", "resource-offline", resource("scopes_supported", []string{"notes:read", "offline_access"}), ""},
	{"scopes as one string", "resource-scopes", resource("scopes_supported", "notes:read notes:write"), ""},
	{"tokens in the query", "resource-query-tokens", resource("bearer_methods_supported", []string{"header", "query"}), ""},
}

var serverAnimals = []animal{
	{"no metadata", "server-metadata-missing", func(s *stable) {
		s.with("GET "+servers, http.NotFound)
		s.with("GET "+openid, http.NotFound)
	}, ""},
	{"metadata appended", "server-metadata-missing", func(s *stable) {
		s.resource["authorization_servers"] = []string{tenant}
		s.server["issuer"] = tenant
		s.with("GET "+tenant+"/.well-known/oauth-authorization-server", answer(200, jsonType, `{"issuer":"`+tenant+`"}`))
	}, ""},
	{"a page in place of metadata", "server-metadata-not-json", route("GET "+servers, answer(200, "text/html", html)), ""},
	{"locked metadata", "server-metadata-locked", route("GET "+servers, answer(403, jsonType, `{}`)), ""},
	{"502 in the first place", "server-fault", route("GET "+placed, answer(502, "text/plain", "bad gateway")), "resource-metadata-not-inserted resource-metadata-broken-link"},
	{"500 in the first place", "server-fault", route("GET "+servers, answer(500, "text/plain", "no such page")), ""},
	{"metadata as text", "server-metadata-type", header("GET "+servers, "Content-Type", "text/plain; charset=utf-8"), ""},
	{"redirected metadata", "server-metadata-redirected", route("GET "+servers, answer(308, "", "", "Location", openid)), ""},
	{"OpenID Connect alone", "server-metadata-only-openid", route("GET "+servers, http.NotFound), ""},
	{"half of OpenID Connect", "openid-members", func(s *stable) {
		s.with("GET "+servers, http.NotFound)
		member(s.server, "subject_types_supported", nil)
	}, ""},
	{"metadata of two minds", "server-metadata-differs", route("GET "+openid, answer(200, jsonType, `{"issuer":"`+issuer+`"}`)), ""},
	{"no issuer", "issuer-missing", server("issuer", nil), ""},
	{"an issuer with a slash", "issuer-slash", server("issuer", issuer+"/"), ""},
	{"another issuer", "issuer-mismatch", server("issuer", "https://auth.internal.example.org"), ""},
	{"an issuer with http", "issuer-mismatch", server("issuer", "http://auth.example.org"), ""},
}

var memberAnimals = []animal{
	{"no token endpoint", "endpoint-missing", server("token_endpoint", nil), ""},
	{"a relative endpoint", "endpoint-missing", server("authorization_endpoint", "/authorize"), ""},
	{"an endpoint with http", "plain-http", server("token_endpoint", "http://auth.example.org/token"), "token-error-shape token-cacheable cors-token"},
	{"silent about PKCE", "pkce-missing", server("code_challenge_methods_supported", nil), ""},
	{"PKCE as a string", "pkce-s256", server("code_challenge_methods_supported", "S256"), ""},
	{"PKCE with plain alone", "pkce-s256", server("code_challenge_methods_supported", []string{"plain"}), "pkce-plain"},
	{"PKCE with plain too", "pkce-plain", server("code_challenge_methods_supported", []string{"S256", "plain"}), ""},
	{"no response types", "response-types", server("response_types_supported", nil), ""},
	{"another response type", "response-types", server("response_types_supported", []string{"code id_token"}), ""},
	{"no code grant", "grant-code", server("grant_types_supported", []string{"client_credentials", "refresh_token"}), ""},
	{"no refresh", "grant-refresh", server("grant_types_supported", []string{"authorization_code"}), ""},
	{"silent about iss", "iss-missing", server("authorization_response_iss_parameter_supported", nil), ""},
	{"signatures with none", "algorithm-none", server("token_endpoint_auth_signing_alg_values_supported", []string{"ES256", "none"}), ""},
	{"no way in", "no-way-in", func(s *stable) {
		member(s.server, "registration_endpoint", nil)
		member(s.server, "client_id_metadata_document_supported", nil)
	}, ""},
	{"no documents", "no-documents", server("client_id_metadata_document_supported", nil), ""},
	{"no registration", "no-registration", server("registration_endpoint", nil), ""},
	{"secrets for everybody", "public-clients", server("token_endpoint_auth_methods_supported", []string{"client_secret_basic"}), ""},
	{"the default for secrets", "public-clients", server("token_endpoint_auth_methods_supported", nil), ""},
}

var endpointAnimals = []animal{
	{"no keys", "keys-missing", func(s *stable) { s.keys = map[string]any{"keys": []any{}} }, ""},
	{"keys that are not there", "keys-missing", route("GET "+issuer+"/jwks.json", http.NotFound), ""},
	{"private keys", "keys-secret", func(s *stable) { s.keys["keys"].([]any)[0].(map[string]any)["d"] = "c2VjcmV0" }, ""},
	{"an open redirector", "redirects-unknown", func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("client_id") == "client-of-this-test" {
				s.authorize(w, r)
				return
			}
			http.Redirect(w, r, r.FormValue("redirect_uri")+"?error=unauthorized_client", http.StatusFound)
		})
	}, ""},
	{"errors as a page", "token-error-shape", route("POST "+issuer+"/token", answer(400, "text/html", html, "Cache-Control", "no-store", "Access-Control-Allow-Origin", "*")), ""},
	{"errors as a problem", "token-error-shape", route("POST "+issuer+"/token", answer(400, "application/problem+json", `{"title":"Bad Request"}`,
		"Cache-Control", "no-store", "Access-Control-Allow-Origin", "*")), ""},
	{"an unknown client has a bad grant", "token-unknown-client", route("POST "+issuer+"/token", answer(400, jsonType, `{"error":"invalid_grant"}`,
		"Cache-Control", "no-store", "Access-Control-Allow-Origin", "*")), ""},
	{"tokens in caches", "token-cacheable", header("POST "+issuer+"/token", "Cache-Control", ""), ""},
	{"a wrong clock", "wrong-clock", header("GET "+servers, "Date", "Mon, 23 Nov 2026 11:50:00 GMT"), ""},
}

var browserAnimals = []animal{
	{"no preflight at the server", "cors-call", route("OPTIONS "+notes, answer(401, "", "")), ""},
	{"the protocol's headers are not allowed", "cors-call", header("OPTIONS "+notes, "Access-Control-Allow-Headers", "Authorization, Content-Type"), ""},
	{"a star for Authorization", "cors-call", header("OPTIONS "+notes, "Access-Control-Allow-Headers", "*"), ""},
	{"a challenge that pages cannot read", "cors-challenge", header("POST "+notes, "Access-Control-Expose-Headers", ""), ""},
	{"resource metadata that pages cannot read", "cors-resource-metadata", header("GET "+placed, "Access-Control-Allow-Origin", ""), ""},
	{"resource metadata without a preflight", "cors-resource-metadata", route("OPTIONS "+placed, answer(405, "", "")), ""},
	{"metadata that pages cannot read", "cors-server-metadata", header("GET "+servers, "Access-Control-Allow-Origin", "https://app.example.com"), ""},
	{"metadata without the protocol's header", "cors-server-metadata", header("OPTIONS "+servers, "Access-Control-Allow-Headers", "Content-Type"), ""},
	{"tokens that pages cannot read", "cors-token", header("POST "+issuer+"/token", "Access-Control-Allow-Origin", ""), ""},
	{"no registration for pages", "cors-register", route("OPTIONS "+issuer+"/register", http.NotFound), ""},
	{"cookies for every page", "cors-credentials", func(s *stable) {
		s.with("POST "+issuer+"/token", answer(401, jsonType, `{"error":"invalid_client"}`, "Cache-Control", "no-store",
			"Access-Control-Allow-Origin", "http://localhost:6274", "Access-Control-Allow-Credentials", "true"))
	}, ""},
}
