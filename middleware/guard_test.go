package middleware_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	resource = "https://notes.example.com/mcp"
	metaURL  = "https://notes.example.com/.well-known/oauth-protected-resource/mcp"
)

type claims = middlewaretest.Claims

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newGuard(t testing.TB, issuer *middlewaretest.Issuer, change ...func(*middleware.Config)) *middleware.Guard {
	t.Helper()
	config := middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer.URL()},
		Scopes:               []string{"notes:read", "notes:write"},
	}
	for _, c := range change {
		c(&config)
	}
	guard, err := middleware.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// inner is a protected handler that records its requests.
type inner struct {
	requests []*http.Request
	tokens   []*middleware.Token
}

func (h *inner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := middleware.TokenFrom(r.Context())
	h.requests = append(h.requests, r)
	h.tokens = append(h.tokens, token)
	w.WriteHeader(http.StatusTeapot)
}

// newRequest returns a request as the server of the resource receives it. Header fields come in
// pairs; the same name may occur twice.
func newRequest(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func withToken(token string) *http.Request {
	return newRequest("POST", resource, "Authorization", "Bearer "+token)
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// passes fails the test unless the request reaches the protected handler.
func passes(t *testing.T, guard *middleware.Guard, r *http.Request) *middleware.Token {
	t.Helper()
	var h inner
	res := serve(guard.Protect(&h), r)
	if res.StatusCode != http.StatusTeapot || len(h.tokens) != 1 || h.tokens[0] == nil {
		t.Fatalf("the request was answered with %s %v, and reached the handler %d times", res.Status, res.Header, len(h.tokens))
	}
	return h.tokens[0]
}

// refused fails the test unless the guard answers the request itself, completely. It
// returns the challenge, which is empty when there is none.
func refused(t *testing.T, guard *middleware.Guard, r *http.Request, status int) metadata.Challenge {
	t.Helper()
	var h inner
	w := httptest.NewRecorder()
	guard.Protect(&h).ServeHTTP(w, r)
	res := w.Result()
	if res.StatusCode != status || len(h.requests) > 0 {
		t.Fatalf("%s %v, reached the handler %d times; want %d", res.Status, res.Header, len(h.requests), status)
	}
	return checkRefusal(t, res, w.Body.Bytes())
}

func checkRefusal(t *testing.T, res *http.Response, raw []byte) metadata.Challenge {
	t.Helper()
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Description == "" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the body is not a JSON error: %q, %v", raw, err)
	}
	if res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers of a refusal: %v", res.Header)
	}
	challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
	if err != nil || len(challenges) > 1 {
		t.Fatalf("WWW-Authenticate %q: %v", res.Header["Www-Authenticate"], err)
	}
	if len(challenges) == 0 {
		return metadata.Challenge{}
	}
	if code, _ := challenges[0].Get("error"); code != body.Error || !challenges[0].Is("Bearer") {
		t.Errorf("the header says %q, the body %q", challenges[0], raw)
	}
	if got, _ := challenges[0].Get("resource_metadata"); got != metaURL {
		t.Errorf("resource_metadata is %q", got)
	}
	return challenges[0]
}

func get(c metadata.Challenge, name string) string {
	value, _ := c.Get(name)
	return value
}

func TestGoodToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	now := time.Now().Truncate(time.Second)
	token := passes(t, guard, withToken(issuer.Mint(claims{
		"aud": resource, "sub": "reader", "client_id": "editor", "scope": "notes:read  notes:write", "jti": "one",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "extra": map[string]any{"deep": []int{1}},
	})))
	want := middleware.Token{
		Subject: "reader", ClientID: "editor", Issuer: issuer.URL(), ID: "one",
		Audience: []string{resource}, Scopes: []string{"notes:read", "notes:write"},
		IssuedAt: now, Expiry: now.Add(time.Minute),
	}
	if token.Subject != want.Subject || token.ClientID != want.ClientID || token.Issuer != want.Issuer || token.ID != want.ID ||
		!slices.Equal(token.Audience, want.Audience) || !slices.Equal(token.Scopes, want.Scopes) ||
		!token.Expiry.Equal(want.Expiry) || !token.IssuedAt.Equal(want.IssuedAt) {
		t.Errorf("got  %+v\nwant %+v", *token, want)
	}
	if !token.HasScope() || !token.HasScope("notes:read") || !token.HasScope("notes:write", "notes:read") || token.HasScope("notes:read", "admin") || token.HasScope("notes") || token.HasScope("") {
		t.Error("HasScope is wrong")
	}
	if token.Principal() != issuer.URL()+"|reader" {
		t.Errorf("Principal is %q", token.Principal())
	}
}

func TestGoodTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	now := time.Now()
	for name, overrides := range map[string]claims{
		"one audience in an array":     {"aud": []string{resource}},
		"several audiences":            {"aud": []string{"https://other.example.org/mcp", resource}},
		"audience in another spelling": {"aud": "HTTPS://Notes.Example.com:443/mcp"},
		"no scope":                     {"scope": nil},
		"no jti":                       {"jti": nil},
		"times with fractions":         {"iat": float64(now.Unix()) + 0.25, "exp": float64(now.Unix()) + 60.75},
		"times in another notation":    {"exp": json.RawMessage("4e9")},
		"nbf a moment ahead":           {"nbf": now.Add(9 * time.Second).Unix()},
		"iat a moment ahead":           {"iat": now.Add(9 * time.Second).Unix()},
		"expired a moment ago":         {"exp": now.Add(-8 * time.Second).Unix()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := overrides["aud"]; !ok {
				overrides["aud"] = resource
			}
			passes(t, newGuard(t, issuer), withToken(issuer.Mint(overrides)))
		})
	}
}

func TestBrokenTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	broken := issuer.Broken(resource)
	if len(broken) < 80 {
		t.Fatalf("only %d broken tokens", len(broken))
	}
	for _, tt := range broken {
		t.Run(tt.Name, func(t *testing.T) {
			status, code := http.StatusUnauthorized, "invalid_token"
			if strings.Contains(tt.Token, "{") {
				status, code = http.StatusBadRequest, "invalid_request" // no bearer token at all
			}
			c := refused(t, guard, withToken(tt.Token), status)
			if get(c, "error") != code || get(c, "error_description") == "" {
				t.Errorf("the challenge is %s", c)
			}
			if strings.Contains(c.String(), tt.Token) {
				t.Error("the challenge repeats the token")
			}
		})
	}
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource})))
}

func TestClockSkew(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	clock := newClock()
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now })
	start := clock.Now().Truncate(time.Second)
	clock.Advance(start.Sub(clock.Now()))
	at := func(d time.Duration) int64 { return start.Add(d).Unix() }
	for _, tt := range []struct {
		claim string
		d     time.Duration
		want  bool
	}{
		{"exp", 0, true}, {"exp", -10 * time.Second, true}, {"exp", -11 * time.Second, false}, {"exp", -61 * time.Second, false},
		{"nbf", 10 * time.Second, true}, {"nbf", 11 * time.Second, false}, {"nbf", 61 * time.Second, false}, {"nbf", -time.Hour, true},
		{"iat", 10 * time.Second, true}, {"iat", 11 * time.Second, false}, {"iat", 61 * time.Second, false}, {"iat", -time.Hour, true},
	} {
		request := withToken(issuer.Mint(claims{"aud": resource, tt.claim: at(tt.d)}))
		if tt.want {
			passes(t, guard, request)
		} else if c := refused(t, guard, request, http.StatusUnauthorized); get(c, "error") != "invalid_token" {
			t.Errorf("%s %v: %s", tt.claim, tt.d, c)
		}
	}
	token := issuer.Mint(claims{"aud": resource, "exp": at(time.Minute)})
	passes(t, guard, withToken(token))
	clock.Advance(71 * time.Second)
	refused(t, guard, withToken(token), http.StatusUnauthorized)
}

func TestAudienceOfAnOrigin(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, configured := range []string{"https://notes.example.com", "https://notes.example.com/"} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Resource = configured })
		for _, aud := range []string{"https://notes.example.com", "https://notes.example.com/"} {
			passes(t, guard, withToken(issuer.Mint(claims{"aud": aud})))
		}
		for _, aud := range []string{"https://notes.example.com/mcp", "https://notes.example.com//", "http://notes.example.com", "https://notes.example.com:8443", "notes.example.com"} {
			w := serve(guard.Protect(&inner{}), withToken(issuer.Mint(claims{"aud": aud})))
			if w.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s accepts a token for %s", configured, aud)
			}
		}
	}
	guard := newGuard(t, issuer)
	for _, aud := range []string{"https://notes.example.com", "https://notes.example.com/", resource + "/", resource + "?", "https://notes.example.com/MCP", "https://notes.example.com/%6Dcp"} {
		refused(t, guard, withToken(issuer.Mint(claims{"aud": aud})), http.StatusUnauthorized)
	}
}

func TestNewRefuses(t *testing.T) {
	good := middleware.Config{Resource: resource, AuthorizationServers: []string{"https://auth.example.com"}}
	if _, err := middleware.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*middleware.Config){
		"zero value":               func(c *middleware.Config) { *c = middleware.Config{} },
		"no resource":              func(c *middleware.Config) { c.Resource = "" },
		"relative resource":        func(c *middleware.Config) { c.Resource = "/mcp" },
		"resource with a fragment": func(c *middleware.Config) { c.Resource += "#" },
		"resource not canonical":   func(c *middleware.Config) { c.Resource = "https://NOTES.example.com/mcp" },
		"http resource":            func(c *middleware.Config) { c.Resource = "http://notes.example.com/mcp" },
		"no issuer":                func(c *middleware.Config) { c.AuthorizationServers = nil },
		"issuer with a slash":      func(c *middleware.Config) { c.AuthorizationServers = []string{"https://auth.example.com/"} },
		"http issuer":              func(c *middleware.Config) { c.AuthorizationServers = []string{"http://auth.example.com"} },
		"issuer twice": func(c *middleware.Config) {
			c.AuthorizationServers = append(c.AuthorizationServers, "https://auth.example.com")
		},
		"scope with a space":         func(c *middleware.Config) { c.Scopes = []string{"a b"} },
		"scope twice":                func(c *middleware.Config) { c.Scopes = []string{"a", "a"} },
		"offline_access":             func(c *middleware.Config) { c.Scopes = []string{"offline_access"} },
		"challenge with a bad scope": func(c *middleware.Config) { c.ChallengeScopes = []string{"a\"b"} },
		"challenge: offline_access":  func(c *middleware.Config) { c.ChallengeScopes = []string{"offline_access"} },
		"bad documentation":          func(c *middleware.Config) { c.ResourceDocumentation = "javascript:alert(1)" },
		"origin with a path":         func(c *middleware.Config) { c.AllowedOrigins = []string{"https://app.example.com/"} },
		"origin without a scheme":    func(c *middleware.Config) { c.AllowedOrigins = []string{"app.example.com"} },
		"origin with a wildcard":     func(c *middleware.Config) { c.AllowedOrigins = []string{"https://*.example.com"} },
		"origin null":                func(c *middleware.Config) { c.AllowedOrigins = []string{"null"} },
		"origin with a default port": func(c *middleware.Config) { c.AllowedOrigins = []string{"https://app.example.com:443"} },
		"origin with a query":        func(c *middleware.Config) { c.AllowedOrigins = []string{"https://app.example.com?a"} },
	} {
		config := good
		config.AuthorizationServers = slices.Clone(good.AuthorizationServers)
		change(&config)
		if guard, err := middleware.New(config); err == nil || guard != nil || !strings.HasPrefix(err.Error(), "middleware: config: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
