package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesPolicy has names in every part.
func notesPolicy() middleware.Policy {
	return middleware.Policy{
		Methods:   map[string][]string{"logging/setLevel": {"notes:admin"}, "notifications/*": {"notes:notify"}},
		Tools:     map[string][]string{"whoami": nil, "list_notes": {"notes:read"}, "add_note": {"notes:write"}, "copy_*": {"notes:read", "notes:write"}, "copy_all_*": {"notes:admin"}, "*all_notes": {"notes:all"}},
		Prompts:   map[string][]string{"summary": {"notes:read"}, "*": nil},
		Resources: map[string][]string{"notes://shared/*": nil, "notes://private/*": {"notes:read"}, "notes://private/drafts/*": {"notes:drafts"}},
		Implies:   map[string][]string{"notes:admin": {"notes:write"}, "notes:write": {"notes:read"}},
	}
}

// post returns a request with a message and a token for some scopes.
func post(issuer *middlewaretest.Issuer, scopes, body string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, resource, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if scopes != "anonymous" {
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource, "scope": scopes}))
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
}

func callTool(name string) string {
	return request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"name":"add_note"}}`, name))
}

// reading is a protected handler that records request bodies.
type reading struct{ bodies []string }

func (h *reading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.bodies = append(h.bodies, string(body))
	w.WriteHeader(http.StatusTeapot)
}

// Each operation needs the scopes of all parts of the policy, and gets one challenge with all of
// them. The handler gets the bytes that were sent.
func TestPolicy(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	const admitted = "-"
	for _, tt := range []struct {
		body, scopes string
		needs        string // what a refusal names; "" for one without a challenge
	}{
		{callTool("whoami"), "", admitted},
		{callTool("list_notes"), "", "notes:read"},
		{callTool("list_notes"), "notes:read", admitted},
		{callTool("list_notes"), "NOTES:READ", "notes:read"},
		{callTool("list_notes"), "notes:reader", "notes:read"},
		{callTool("add_note"), "notes:read", "notes:write"},
		{callTool("add_note"), "notes:write", admitted},

		// hierarchies, also over two steps, and never upwards
		{callTool("list_notes"), "notes:write", admitted},
		{callTool("list_notes"), "notes:admin", admitted},
		{callTool("add_note"), "notes:admin", admitted},
		{request("logging/setLevel", `{"level":"debug"}`), "notes:write notes:read", "notes:admin"},

		// patterns: the closest counts, and equally close ones all do
		{callTool("copy_one"), "", "notes:read notes:write"},
		{callTool("copy_one"), "notes:read", "notes:read notes:write"},
		{callTool("copy_one"), "notes:write", admitted},
		{callTool("copy_all_day"), "notes:write", "notes:admin"},
		{callTool("copy_"), "", "notes:read notes:write"},
		{callTool("drop_all_notes"), "", "notes:all"},
		{callTool("copy_all_notes"), "notes:all", "notes:all notes:admin"},

		// what a part does not name is refused, whatever the token covers
		{callTool("drop_notes"), "notes:admin notes:all", ""},
		{callTool("WHOAMI"), "notes:admin", ""},
		{callTool("whoami "), "notes:admin", ""},
		{callTool("*"), "notes:admin", ""},
		{request("resources/read", `{"uri":"notes://secret/1"}`), "notes:admin", ""},

		{request("prompts/get", `{"name":"summary"}`), "", "notes:read"},
		{request("prompts/get", `{"name":"hello"}`), "", admitted},
		{request("completion/complete", `{"ref":{"type":"ref/prompt","name":"summary"},"argument":{"name":"a","value":"b"}}`), "", "notes:read"},
		{request("completion/complete", `{"ref":{"type":"ref/resource","uri":"notes://private/{id}"}}`), "", "notes:read"},
		{request("completion/complete", `{"ref":{"type":"ref/resource","uri":"notes://other/{id}"}}`), "notes:admin", ""},
		{request("resources/read", `{"uri":"notes://shared/1"}`), "", admitted},
		{request("resources/read", `{"uri":"notes://private/1"}`), "", "notes:read"},
		{request("resources/read", `{"uri":"notes://private/drafts/1"}`), "notes:read", "notes:drafts"},
		{request("resources/subscribe", `{"uri":"notes://private/1"}`), "", "notes:read"},
		{request("resources/unsubscribe", `{"uri":"notes://private/1"}`), "", "notes:read"},
		{request("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`), "", admitted},
		{request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["notes://shared/1","notes://private/drafts/1","notes://private/2"]}}`), "", "notes:drafts notes:read"},
		{request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["notes://shared/1","notes://secret/1"]}}`), "notes:admin", ""},

		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "notes:notify"},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "notes:notify", admitted},
		{request("initialize", `{}`), "", admitted},
		{request("tools/list", `{}`), "", admitted},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "", admitted},
		{"  {\"jsonrpc\" : \"2.0\", \"id\":\t9007199254740993, \"method\":\"ping\"}\r\n", "", admitted},
	} {
		h := &reading{}
		w := httptest.NewRecorder()
		guard.Protect(h).ServeHTTP(w, post(issuer, tt.scopes, tt.body))
		if tt.needs == admitted {
			if w.Code != http.StatusTeapot || len(h.bodies) != 1 || h.bodies[0] != tt.body {
				t.Errorf("%s with %q: %d %s, the handler got %q", tt.body, tt.scopes, w.Code, w.Body, h.bodies)
			}
			continue
		}
		if w.Code != http.StatusForbidden || len(h.bodies) > 0 {
			t.Errorf("%s with %q: %d, the handler got %q", tt.body, tt.scopes, w.Code, h.bodies)
			continue
		}
		checkChallenge(t, tt.body, w.Result(), tt.needs)
	}
}

// checkChallenge checks that there is one complete challenge for some scopes, or none.
func checkChallenge(t *testing.T, what string, res *http.Response, scopes string) {
	t.Helper()
	challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
	if scopes == "" {
		if len(res.Header["Www-Authenticate"]) > 0 {
			t.Errorf("%s: a challenge %q, though no token would do", what, res.Header["Www-Authenticate"])
		}
		return
	}
	if err != nil || len(challenges) != 1 {
		t.Errorf("%s: challenges %q, %v", what, res.Header["Www-Authenticate"], err)
		return
	}
	for name, want := range map[string]string{"error": "insufficient_scope", "scope": scopes, "resource_metadata": metaURL} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%s: %s=%q, want %q", what, name, got, want)
		}
	}
}

// Requests for streams and for the ends of sessions need the scopes of every request, too.
func TestPolicyOfEveryRequest(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Scopes: []string{"notes:use"}, Tools: map[string][]string{"add_note": {"notes:write"}}}
	})
	token := func(scopes string) string { return issuer.Mint(claims{"aud": resource, "scope": scopes}) }
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead} {
		res := serve(guard.Protect(&inner{}), newRequest(method, resource, "Authorization", "Bearer "+token("notes:write")))
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", method, res.Status)
		}
		checkChallenge(t, method, res, "notes:use")
		passes(t, guard, newRequest(method, resource, "Authorization", "Bearer "+token("notes:use")))
	}
	for scopes, needs := range map[string]string{"": "notes:use notes:write", "notes:use": "notes:use notes:write", "notes:write": "notes:use notes:write"} {
		res := serve(guard.Protect(&inner{}), post(issuer, scopes, callTool("add_note")))
		checkChallenge(t, scopes, res, needs)
	}
	passes(t, guard, post(issuer, "notes:use notes:write", callTool("add_note")))
	route := newRequest("GET", resource, "Authorization", "Bearer "+token("notes:use"))
	checkChallenge(t, "a route of its own", serve(guard.Protect(guard.RequireScope("notes:admin")(&inner{})), route), "notes:use notes:admin")
}

// Without names in the policy, the guard does not read the body.
func TestPolicyWithoutNames(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Scopes: []string{"notes:use"}, Implies: map[string][]string{"notes:admin": {"notes:use"}}}
	})
	r := post(issuer, "notes:admin", "")
	r.Body, r.ContentLength = io.NopCloser(failing{t}), -1
	if token := passes(t, guard, r); !token.HasScope("notes:use", "notes:admin") || token.HasScope("notes:write") {
		t.Errorf("the token has %q", token.Scopes)
	}
}

// failing is a body that must not be read.
type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) {
	f.t.Error("the body was read")
	return 0, io.EOF
}

func TestOptional(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Optional, c.Policy = true, notesPolicy() })
	good := issuer.Mint(claims{"aud": resource, "scope": "notes:read"})
	for _, tt := range []struct {
		name   string
		r      *http.Request
		status int
		scope  string
	}{
		{"no credentials", post(issuer, "anonymous", callTool("whoami")), 418, ""},
		{"no credentials, a protected tool", post(issuer, "anonymous", callTool("list_notes")), 401, "notes:read"},
		{"no credentials, an unknown tool", post(issuer, "anonymous", callTool("drop")), 403, ""},
		{"a stream without credentials", newRequest("GET", resource), 418, ""},
		{"a good token", post(issuer, "notes:read", callTool("list_notes")), 418, ""},
		{"a good token with too little", post(issuer, "notes:read", callTool("add_note")), 403, "notes:write"},
		{"a bad token", post(issuer, "anonymous", callTool("whoami"), "Authorization", "Bearer "+good[:len(good)-4]), 401, "notes:read notes:write"},
		{"another scheme", post(issuer, "anonymous", callTool("whoami"), "Authorization", "Basic YTpi"), 401, "notes:read notes:write"},
		{"an empty header", post(issuer, "anonymous", callTool("whoami"), "Authorization", ""), 401, "notes:read notes:write"},
		{"two headers", post(issuer, "anonymous", callTool("whoami"), "Authorization", "Bearer "+good, "Authorization", "Bearer "+good), 400, ""},
		{"a token in the query", newRequest("GET", resource+"?access_token="+good), 401, "notes:read notes:write"},
	} {
		var h inner
		res := serve(guard.Protect(&h), tt.r)
		if res.StatusCode != tt.status || len(h.requests) != map[bool]int{true: 1}[tt.status == 418] {
			t.Errorf("%s: %s, reached the handler %d times", tt.name, res.Status, len(h.requests))
		}
		if challenges, _ := metadata.ParseChallenges(res.Header["Www-Authenticate"]); len(challenges) == 1 {
			if scope, _ := challenges[0].Get("scope"); scope != tt.scope {
				t.Errorf("%s: the challenge names %q, want %q", tt.name, scope, tt.scope)
			}
		} else if tt.scope != "" {
			t.Errorf("%s: challenges %v", tt.name, challenges)
		}
		for _, token := range h.tokens {
			if anonymous := len(tt.r.Header["Authorization"]) == 0; (token == nil) != anonymous {
				t.Errorf("%s: the handler got the token %+v", tt.name, token)
			}
		}
	}
	// A handler behind RequireScope needs a token all the same.
	res := serve(guard.Protect(guard.RequireScope()(&inner{})), newRequest("GET", resource))
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("RequireScope without a token: %s", res.Status)
	}
}

func TestPolicyRefused(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, policy := range map[string]middleware.Policy{
		"scope of every request": {Scopes: []string{"two words"}},
		"scope of a tool":        {Tools: map[string][]string{"add": {""}}},
		"scope of a method":      {Methods: map[string][]string{"ping": {"a\"b"}}},
		"refresh tokens":         {Tools: map[string][]string{"add": {"offline_access"}}},
		"empty name":             {Resources: map[string][]string{"": {"notes:read"}}},
		"implied scope":          {Implies: map[string][]string{"notes:admin": {"é"}}},
		"implying scope":         {Implies: map[string][]string{"": {"notes:read"}}},
		"listing":                {Listing: 7},
	} {
		_, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}, Policy: policy})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAllScopes(t *testing.T) {
	policy := notesPolicy()
	policy.Scopes = []string{"notes:use"}
	if got := strings.Join(policy.AllScopes(), " "); got != "notes:admin notes:all notes:drafts notes:notify notes:read notes:use notes:write" {
		t.Errorf("all scopes are %s", got)
	}
}

// Scopes that imply each other do not loop.
func TestImpliesInACircle(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy.Implies = map[string][]string{"a": {"b"}, "b": {"c", "a"}, "c": {"a"}}
	})
	token := passes(t, guard, withToken(issuer.Mint(claims{"aud": resource, "scope": "c"})))
	if !token.HasScope("a", "b", "c") || token.HasScope("d") || len(token.Scopes) != 1 {
		t.Errorf("the token has %q", token.Scopes)
	}
}
