package doctor_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"
)

// now is the time in every stable.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// stable is a description of a protected server and its authorization server, from which both
// are made. It starts healthy; an animal of the zoo is a change to it.
type stable struct {
	target, issuer string // what is examined, and the issuer that its metadata names
	resource       map[string]any
	server         map[string]any
	keys           map[string]any
	challenge      string // without a token
	refusal        string // with a wrong one
	token          string // that is accepted

	// routes answer "METHOD URL" without the query. A change may replace one.
	routes map[string]http.HandlerFunc
}

// healthy describes servers without a fault at the given target and issuer.
func healthy(target, issuer string) *stable {
	origin, path := splitURL(target)
	metadata := origin + "/.well-known/oauth-protected-resource" + path
	return &stable{
		target: target, issuer: issuer,
		resource: map[string]any{
			"resource": target, "authorization_servers": []string{issuer}, "scopes_supported": []string{"notes:read", "notes:write"},
			"bearer_methods_supported": []string{"header"},
		},
		server: map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"registration_endpoint": issuer + "/register", "revocation_endpoint": issuer + "/revoke", "jwks_uri": issuer + "/jwks.json",
			"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
			"code_challenge_methods_supported":               []string{"S256"},
			"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic"},
			"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": true,
			"scopes_supported":        []string{"notes:read", "notes:write", "offline_access"},
			"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		},
		keys:      map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "one", "x": "eA", "y": "eQ"}}},
		challenge: `Bearer resource_metadata="` + metadata + `", scope="notes:read notes:write"`,
		token:     jwt(map[string]any{"iss": issuer, "aud": target, "exp": now.Add(time.Hour).Unix()}),
		refusal:   `Bearer error="invalid_token", resource_metadata="` + metadata + `"`,
	}
}

// jwt returns a token with a signature that means nothing.
func jwt(claims map[string]any) string {
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"at+jwt"}`)) + "." + base64.RawURLEncoding.EncodeToString(raw) + ".c2lnbmF0dXJl"
}

func splitURL(raw string) (origin, path string) {
	scheme, rest, _ := strings.Cut(raw, "://")
	host, path, found := strings.Cut(rest, "/")
	if found {
		path = "/" + path
	}
	return scheme + "://" + host, strings.TrimSuffix(path, "/")
}

// open makes the servers of the description. Changes to routes are kept.
func (s *stable) open() *stable {
	changed := s.routes
	s.routes = map[string]http.HandlerFunc{}
	s.openResource()
	s.openServer()
	maps.Copy(s.routes, changed)
	return s
}

func (s *stable) openResource() {
	origin, path := splitURL(s.target)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		s.routes[method+" "+s.target] = s.guard
	}
	s.routes["OPTIONS "+s.target] = permit("GET, POST, DELETE", "Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method")
	s.publish(origin+"/.well-known/oauth-protected-resource"+path, func() any { return s.resource })
	s.publish(origin+"/.well-known/oauth-protected-resource", func() any { return s.resource })
}

func (s *stable) openServer() {
	origin, path := splitURL(s.issuer)
	for _, at := range []string{
		origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path,
		origin + path + "/.well-known/openid-configuration",
	} {
		s.publish(at, func() any { return s.server })
	}
	s.publish(s.issuer+"/jwks.json", func() any { return s.keys })
	for _, at := range []string{"/token", "/register", "/revoke"} {
		s.routes["OPTIONS "+s.issuer+at] = permit("POST", "Content-Type, Authorization, MCP-Protocol-Version")
	}
	s.routes["POST "+s.issuer+"/register"] = s.register
	s.routes["POST "+s.issuer+"/token"] = answer(401, "application/json", `{"error":"invalid_client"}`,
		"Access-Control-Allow-Origin", "*", "Cache-Control", "no-store")
	s.routes["POST "+s.issuer+"/revoke"] = answer(200, "", "", "Access-Control-Allow-Origin", "*")
	s.routes["DELETE "+s.issuer+"/register/client-of-this-test"] = answer(204, "", "")
	s.routes["GET "+s.issuer+"/authorize"] = s.authorize
}

// register answers with what was sent, and a client_id.
func (s *stable) register(w http.ResponseWriter, r *http.Request) {
	s.registerIf(w, r, func(string) bool { return false })
}

// registerIf registers also what fits, whatever it is.
func (s *stable) registerIf(w http.ResponseWriter, r *http.Request, fits func(client string) bool) {
	var client map[string]any
	body := readAll(r)
	if err := json.NewDecoder(r.Body).Decode(&client); err != nil {
		answer(400, "application/json", `{"error":"invalid_client_metadata"}`)(w, r)
		return
	}
	if unfit(client) && !fits(body) {
		answer(400, "application/json", `{"error":"invalid_redirect_uri"}`)(w, r)
		return
	}
	client["client_id"] = "client-of-this-test"
	client["registration_client_uri"] = s.issuer + "/register/client-of-this-test"
	client["registration_access_token"] = "token-of-this-test"
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(client)
}

// authorize knows the client that register registers.
func (s *stable) authorize(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	v := r.URL.Query()
	switch {
	case v.Get("client_id") != "client-of-this-test", !matches(v.Get("redirect_uri")):
		answer(400, "text/html; charset=utf-8", "<title>This application is not known</title>")(w, r)
	case v.Get("code_challenge_method") != "S256", !challengeOf256(v.Get("code_challenge")):
		s.back(w, r, "invalid_request")
	case v.Get("response_type") != "code":
		s.back(w, r, "unsupported_response_type")
	default:
		answer(200, "text/html; charset=utf-8", "<title>Sign in</title>")(w, r)
	}
}

// back redirects to the client with an error.
func (s *stable) back(w http.ResponseWriter, r *http.Request, code string) {
	v := url.Values{"error": {code}, "state": {r.FormValue("state")}, "iss": {s.issuer}}
	http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+v.Encode(), http.StatusFound)
}

// publish serves a document.
func (s *stable) publish(at string, document func() any) {
	s.routes["OPTIONS "+at] = permit("GET", "MCP-Protocol-Version")
	s.routes["GET "+at] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document())
	}
}

// guard refuses every request.
func (s *stable) guard(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "Bearer "+s.token && s.token != "" {
		s.serve(w, r)
		return
	}
	challenge := s.challenge
	if r.Header.Get("Authorization") != "" {
		challenge = s.refusal
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Expose-Headers", "WWW-Authenticate")
	w.WriteHeader(http.StatusUnauthorized)
}

// serve answers requests with the token.
func (s *stable) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case id != "" && id != "one":
		answer(404, "application/json", `{}`)(w, r)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case strings.Contains(string(body), "doctor/unknown"):
		answer(404, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)(w, r)
	default:
		answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Session-Id", "one")(w, r)
	}
}

// permit answers a preflight.
func permit(methods, headers string) http.HandlerFunc {
	return answer(204, "", "", "Access-Control-Allow-Origin", "*", "Access-Control-Allow-Methods", methods, "Access-Control-Allow-Headers", headers)
}

// answer answers always the same. more has names and values of headers in turn.
func answer(status int, media, body string, more ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if media != "" {
			w.Header().Set("Content-Type", media)
		}
		for pair := range slices.Chunk(more, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// RoundTrip implements [http.RoundTripper]: it answers requests in this process.
func (s *stable) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Date", now.Format(http.TimeFormat))
	if r.Body == nil {
		r.Body = http.NoBody
	}
	s.answer(recorder, r)
	return recorder.Result(), nil
}

// answer answers with the route for the URL of a request.
func (s *stable) answer(w http.ResponseWriter, r *http.Request) {
	at := *r.URL
	at.RawQuery = ""
	handler := s.routes[r.Method+" "+at.String()]
	if handler == nil {
		handler = http.NotFound
	}
	handler(w, r)
}

// with gives a route to the servers that replaces another.
func (s *stable) with(route string, handler http.HandlerFunc) {
	if s.routes == nil {
		s.routes = map[string]http.HandlerFunc{}
	}
	s.routes[route] = handler
}

// readAll reads the body of a request, which can be read again.
func readAll(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return string(body)
}
