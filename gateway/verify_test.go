package gateway_test

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// verifier starts a gateway with VerifyOnly.
func verifier(t testing.TB, change ...func(*gateway.Config)) *gate {
	t.Helper()
	return newGate(t, "", append([]func(*gateway.Config){func(c *gateway.Config) { c.VerifyOnly = true }}, change...)...)
}

// notes is a policy with names in every part.
var notes = middleware.Policy{
	Scopes:    []string{"notes:read"},
	Methods:   map[string][]string{"logging/setLevel": {"notes:log"}},
	Tools:     map[string][]string{"list_notes": {"notes:read"}, "add_note": {"notes:write"}, "Zoë": {"notes:write"}, "whoami": {}},
	Prompts:   map[string][]string{"*": {"notes:prompt"}},
	Resources: map[string][]string{"notes://*": {"notes:read"}},
	Implies:   map[string][]string{"notes:admin": {"notes:write", "notes:log", "notes:prompt", "notes:read"}},
}

const all = "notes:log notes:prompt notes:read notes:write"

func TestVerify(t *testing.T) {
	plain, whole := verifier(t), verifier(t, func(c *gateway.Config) { c.Guard.Policy = notes })
	both := newGate(t, newUpstream(t).URL, func(c *gateway.Config) { c.Guard.Policy = notes })
	tests := []struct {
		name   string
		g      *gate
		token  string
		status int
		code   string
		scope  string
	}{
		{"no token", plain, "", 401, "", "notes:read notes:write"},
		{"another scheme", plain, "Basic YTpi", 401, "", "notes:read notes:write"},
		{"no token at all", plain, "Bearer wrong", 401, "invalid_token", "notes:read notes:write"},
		{"not one token", plain, "Bearer a b", 401, "invalid_request", ""},
		{"another resource", plain, "Bearer " + plain.token(t, claims{"aud": "https://other.example.com"}), 401, "invalid_token", "notes:read notes:write"},
		{"any token", plain, "Bearer " + plain.token(t, claims{"scope": nil}), 200, "", ""},
		{"no token, where scopes are needed", whole, "", 401, "", all},
		{"an expired token, where scopes are needed", whole, "Bearer " + whole.token(t, claims{"exp": 1}), 401, "invalid_token", all},
		{"some scopes", whole, "Bearer " + whole.token(t, claims{"scope": "notes:read notes:write"}), 403, "insufficient_scope", all},
		{"all scopes", whole, "Bearer " + whole.token(t, claims{"scope": all}), 200, "", ""},
		{"all scopes, implied", whole, "Bearer " + whole.token(t, claims{"scope": "notes:admin"}), 200, "", ""},
		{"beside a proxy", both, "Bearer " + both.token(t, claims{"scope": "notes:read"}), 403, "insufficient_scope", all},
		{"beside a proxy, all scopes", both, "Bearer " + both.token(t, claims{"scope": all}), 200, "", ""},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			r := tt.g.request(t, method, "/verify", "", "Authorization", tt.token)
			a := do(t, r)
			if a.status != tt.status {
				t.Errorf("%s: %s: %d %s, want %d", tt.name, method, a.status, a.body, tt.status)
				continue
			}
			if tt.status == 200 {
				if a.header.Get("Gatehouse-Subject") != "reader" || a.header.Get("Cache-Control") != "no-store" || a.body != "" {
					t.Errorf("%s: %v %q", tt.name, a.header, a.body)
				}
				continue
			}
			challenge := challengeOf(t, a)
			code, _ := challenge.Get("error")
			scope, _ := challenge.Get("scope")
			metadata, _ := challenge.Get("resource_metadata")
			if code != tt.code || scope != tt.scope || metadata != "https://notes.example.com/.well-known/oauth-protected-resource/mcp" || len(identity(a.header)) != 0 {
				t.Errorf("%s: %s %v", tt.name, challenge, a.header)
			}
		}
	}
}

// No header that a client can set makes /verify allow a request, or refuse a good one.
func TestVerifyBelievesTheTokenAlone(t *testing.T) {
	fields := []string{
		"X-Forwarded-Method", "OPTIONS", "X-Original-Method", "OPTIONS", "X-Http-Method-Override", "OPTIONS", "X-Forwarded-Uri", "/.well-known/oauth-protected-resource",
		"X-Original-Uri", "/healthz", "X-Original-Url", "/healthz", "X-Rewrite-Url", "/healthz", "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Host", "evil.example.com", "X-Forwarded-Proto", "http",
		"Origin", "https://evil.example.com", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "whoami", "Mcp-Session-Id", "of-somebody-else",
		"Gatehouse-Subject", "admin", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization", "Upgrade", "websocket", "Connection", "Upgrade",
	}
	g := verifier(t, func(c *gateway.Config) { c.Guard.Policy = notes })
	for _, method := range []string{"GET", "POST", "OPTIONS"} {
		for token, want := range map[string]int{"": 401, "Bearer " + g.token(t, nil): 403, "Bearer " + g.token(t, claims{"scope": all}): 200} {
			r := g.request(t, method, "/verify?x=y", "", append(slices.Clone(fields), "Authorization", token)...)
			r.Host = "evil.example.com"
			a := do(t, r)
			if a.status != want {
				t.Errorf("%s: %d %s, want %d", method, a.status, a.body, want)
			}
			if got := a.header["Gatehouse-Subject"]; want == 200 && !slices.Equal(got, []string{"reader"}) || want != 200 && got != nil {
				t.Errorf("%s: Gatehouse-Subject is %q", method, got)
			}
		}
	}
	// The body is ignored, and a token must be in one header.
	if a := do(t, g.request(t, "POST", "/verify", "{broken", "Authorization", "Bearer "+g.token(t, claims{"scope": all}))); a.status != 200 {
		t.Errorf("with a body: %d", a.status)
	}
	token := g.token(t, claims{"scope": all})
	if a := do(t, g.request(t, "GET", "/verify?access_token="+token, "", "Authorization", "Bearer "+token)); a.status != 401 {
		t.Errorf("with a token in the query: %d", a.status)
	}
}

// When the issuer does not answer, the token cannot be verified.
func TestVerifyWithoutIssuer(t *testing.T) {
	g := verifier(t)
	token := g.token(t, nil)
	g.issuer.SetDown(true)
	a := do(t, g.request(t, "GET", "/verify", "", "Authorization", "Bearer "+token))
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.header["Www-Authenticate"] != nil {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// The headers with the identity are the same as those for an upstream.
func TestVerifyTellsWhatTheUpstreamHears(t *testing.T) {
	up := newUpstream(t)
	for _, how := range []gateway.Identity{gateway.IdentityHeaders, gateway.IdentityNone} {
		g := newGate(t, up.URL, func(c *gateway.Config) { c.Identity = how })
		token := "Bearer " + g.token(t, claims{"sub": "Zoë\n", "scope": "notes:read notes:write"})
		do(t, g.request(t, "POST", "/mcp", "{}", "Authorization", token))
		a := do(t, g.request(t, "GET", "/verify", "", "Authorization", token))
		if got, want := identity(a.header), identity(up.taken()[0].header); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %v, the upstream gets %v", how, got, want)
		}
	}
}

// With InsecureTrustMCPHeaders, the headers about a message decide like the message.
func TestVerifyByHeaders(t *testing.T) {
	g := verifier(t, func(c *gateway.Config) {
		c.Guard.Policy, c.InsecureTrustMCPHeaders = notes, true
		handles, err := middleware.NewHandles(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		c.Guard.Sessions = handles // which no subrequest can be held to
	})
	encoded := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	const now = "2026-07-28"
	for _, tt := range []struct {
		name            string
		version, method string
		about           string
		needs           string // none for operations that are refused for every token
	}{
		{"a tool", now, "tools/call", "list_notes", "notes:read"},
		{"another tool", now, "tools/call", "add_note", "notes:read notes:write"},
		{"a tool that needs nothing more", now, "tools/call", "whoami", "notes:read"},
		{"a tool that nobody may call", now, "tools/call", "drop_notes", ""},
		{"a name that is encoded", now, "tools/call", encoded("Zoë"), "notes:read notes:write"},
		{"a name that is encoded without need", now, "tools/call", encoded("add_note"), "notes:read notes:write"},
		{"a prompt", now, "prompts/get", "greet", "notes:read notes:prompt"},
		{"a resource", now, "resources/read", "notes://1", "notes:read"},
		{"a list", now, "tools/list", "", "notes:read"},
		{"a method", now, "logging/setLevel", "", "notes:read notes:log"},
		{"a later revision", "2027-01-01", "tools/call", "list_notes", "notes:read"},
		{"an older revision", "2025-11-25", "tools/call", "list_notes", all},
		{"no revision", "", "tools/call", "list_notes", all},
		{"a revision that is none", "9", "tools/call", "list_notes", all},
		{"a draft", "DRAFT-2026-v1", "tools/call", "list_notes", all},
		{"no method", now, "", "list_notes", all},
		{"a tool without a name", now, "tools/call", "", all},
		{"a name in another charset", now, "tools/call", "Zo\xeb", all},
		{"a name that is no base64", now, "tools/call", "=?base64?%?=", all},
		{"a name that is no UTF-8", now, "tools/call", encoded("\xff"), all},
		{"a name without an end", now, "tools/call", "=?base64?YQ==", all},
		{"what no header names", now, "completion/complete", "greet", all},
		{"what no header names either", now, "subscriptions/listen", "", all},
		{"watching", now, "resources/subscribe", "notes://1", all},
	} {
		fields := []string{"Mcp-Protocol-Version", tt.version, "Mcp-Method", tt.method, "Mcp-Name", tt.about, "Mcp-Session-Id", "x"}
		ask := func(scope string, more ...string) answered {
			return do(t, g.request(t, "GET", "/verify", "", append(slices.Concat(fields, more), "Authorization", "Bearer "+g.token(t, claims{"scope": scope}))...))
		}
		if tt.needs == "" {
			if a := ask(all); a.status != 403 || a.header["Www-Authenticate"] != nil || strings.Contains(a.body, `"id"`) {
				t.Errorf("%s: %d %v %s", tt.name, a.status, a.header, a.body)
			}
			continue
		}
		if a := ask(tt.needs); a.status != 200 || a.header.Get("Gatehouse-Subject") != "reader" {
			t.Errorf("%s: %d %v", tt.name, a.status, a.header)
		}
		for _, missing := range strings.Fields(tt.needs) {
			rest := slices.DeleteFunc(strings.Fields(all), func(s string) bool { return s == missing })
			a := ask(strings.Join(rest, " "))
			scope, _ := challengeOf(t, a).Get("scope")
			if a.status != 403 || len(strings.Fields(scope)) != len(strings.Fields(tt.needs)) || strings.Contains(a.body, `"id"`) { // proxies pass the body on
				t.Errorf("%s without %s: %d, asks for %q: %s", tt.name, missing, a.status, scope, a.body)
			}
		}
		// Headers that are there twice could be read either way.
		for _, again := range [][]string{{"Mcp-Method", "tools/list"}, {"Mcp-Protocol-Version", now}, {"mcp-method", "tools/list"}} {
			if a := ask("notes:read", again...); a.status != 403 && tt.version != "" && tt.method != "" {
				t.Errorf("%s, with %s twice: %d", tt.name, again[0], a.status)
			}
		}
	}
}

// A session id is accepted from the caller that received it, and refused like an unknown one for
// others.
func TestSessionsAreBound(t *testing.T) {
	const id = "3f0c-session"
	var got []string
	url := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		got = append(got, strings.Join(r.Header["Mcp-Session-Id"], ","))
		w.Header().Set("Mcp-Session-Id", id)
	})
	handles, err := middleware.NewHandles([]byte("a key of thirty-two bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, url, func(c *gateway.Config) { c.Guard.Sessions = handles })
	send := func(subject, session string) answered {
		return do(t, g.request(t, "POST", "/mcp", "{}", "Authorization", "Bearer "+g.token(t, claims{"sub": subject}), "Mcp-Session-Id", session))
	}
	first := send("alice", "").header.Get("Mcp-Session-Id")
	second := send("bob", "").header.Get("Mcp-Session-Id")
	if first == id || first == second || first == "" {
		t.Fatalf("bound ids %q and %q", first, second)
	}
	if a := send("alice", first); a.status != 200 || a.header.Get("Mcp-Session-Id") != first {
		t.Errorf("its own: %d %v", a.status, a.header)
	}
	if !slices.Equal(got, []string{"", "", id}) {
		t.Errorf("the upstream gets %q", got)
	}
	for _, stolen := range []string{first, id, first + "x", ""} {
		a := send("bob", stolen)
		if stolen != "" && a.status != http.StatusNotFound {
			t.Errorf("%q: %d", stolen, a.status)
		}
	}
	if len(got) != 4 {
		t.Errorf("the upstream gets %q", got)
	}
}

// Lists show only items that the token covers, also when the upstream would compress them.
func TestListsAreFiltered(t *testing.T) {
	url := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if r.Header.Get("Accept-Encoding") != "" {
			w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"list_notes"},{"name":"add_note"},{"name":"secret"}]}}`)
	})
	g := newGate(t, url, func(c *gateway.Config) {
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}, "add_note": {"notes:write"}}
		c.Guard.Policy.Listing = middleware.ListGranted
	})
	a := do(t, g.request(t, "POST", "/mcp", call("tools/list", nil), "Accept-Encoding", "br"))
	if a.status != 200 || a.header.Get("Content-Encoding") != "" || a.body != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"list_notes"}]}}` {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
