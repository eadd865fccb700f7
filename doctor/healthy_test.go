package doctor_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
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
			"registration_endpoint": issuer + "/register", "jwks_uri": issuer + "/jwks.json",
			"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
			"code_challenge_methods_supported":               []string{"S256"},
			"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic"},
			"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": true,
			"scopes_supported": []string{"notes:read", "notes:write", "offline_access"},
		},
		keys:      map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "one", "x": "eA", "y": "eQ"}}},
		challenge: `Bearer resource_metadata="` + metadata + `", scope="notes:read notes:write"`,
		refusal:   `Bearer error="invalid_token", resource_metadata="` + metadata + `"`,
	}
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
	for _, at := range []string{"/token", "/register"} {
		s.routes["OPTIONS "+s.issuer+at] = permit("POST", "Content-Type, Authorization, MCP-Protocol-Version")
	}
	s.routes["POST "+s.issuer+"/register"] = s.register
	s.routes["POST "+s.issuer+"/token"] = answer(401, "application/json", `{"error":"invalid_client"}`,
		"Access-Control-Allow-Origin", "*", "Cache-Control", "no-store")
	s.routes["GET "+s.issuer+"/authorize"] = answer(400, "text/html; charset=utf-8", "<title>This application is not known</title>")
}

// register answers with what was sent, and a client_id.
func (s *stable) register(w http.ResponseWriter, r *http.Request) {
	var client map[string]any
	if err := json.NewDecoder(r.Body).Decode(&client); err != nil {
		answer(400, "application/json", `{"error":"invalid_client_metadata"}`)(w, r)
		return
	}
	client["client_id"] = "client-of-this-test"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(client)
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
	at := *r.URL
	at.RawQuery = ""
	handler := s.routes[r.Method+" "+at.String()]
	if handler == nil {
		handler = http.NotFound
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Date", now.Format(http.TimeFormat))
	if r.Body == nil {
		r.Body = http.NoBody
	}
	handler(recorder, r)
	return recorder.Result(), nil
}

// with gives a route to the servers that replaces another.
func (s *stable) with(route string, handler http.HandlerFunc) {
	if s.routes == nil {
		s.routes = map[string]http.HandlerFunc{}
	}
	s.routes[route] = handler
}
