package middlewaretest_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const resource = "https://notes.example.com/mcp"

// complaints is a testing.TB that records errors.
type complaints struct {
	testing.TB
	failures []string
}

func (c *complaints) Helper() {}
func (c *complaints) Errorf(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

// attack returns the errors of an attack.
func attack(issuer *middlewaretest.Issuer, handler http.Handler) []string {
	t := new(complaints)
	middlewaretest.Attack(t, issuer, resource, handler)
	return t.failures
}

var welcome = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") })

func guarded(t *testing.T, issuer *middlewaretest.Issuer, change func(*middleware.Config)) *middleware.Guard {
	t.Helper()
	config := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}, Scopes: []string{"notes:read"}}
	change(&config)
	guard, err := middleware.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestAttackOnTheGuard checks that a guard withstands the attack in every mode of verification.
func TestAttackOnTheGuard(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config, middleware.Introspection){
		"by themselves":     func(*middleware.Config, middleware.Introspection) {},
		"without a cache":   func(c *middleware.Config, _ middleware.Introspection) { c.CachedTokens = -1 },
		"looked up as well": func(c *middleware.Config, i middleware.Introspection) { introspects(c, i) },
		"looked up alone":   func(c *middleware.Config, i middleware.Introspection) { i.Opaque = true; introspects(c, i) },
		"with names in a policy": func(c *middleware.Config, _ middleware.Introspection) {
			c.Policy.Methods = map[string][]string{"a": {"b"}}
		},
		"with scopes in a policy": func(c *middleware.Config, _ middleware.Introspection) { c.Policy.Scopes = []string{"notes:read"} },
	} {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			id, secret := issuer.Credentials()
			guard := guarded(t, issuer, func(c *middleware.Config) {
				change(c, middleware.Introspection{ClientID: id, ClientSecret: secret})
			})
			middlewaretest.Attack(t, issuer, resource, guard.Protect(welcome))
		})
	}
}

func introspects(c *middleware.Config, i middleware.Introspection) {
	c.Introspection = map[string]middleware.Introspection{c.AuthorizationServers[0]: i}
}

// TestAttackFinds attacks servers with one vulnerability each.
func TestAttackFinds(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := guarded(t, issuer, func(*middleware.Config) {})
	good := guard.Protect(welcome)
	// unless returns a server that passes the requests of one vulnerability around the guard.
	unless := func(hole func(*http.Request) bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hole(r) {
				welcome.ServeHTTP(w, r)
				return
			}
			good.ServeHTTP(w, r)
		})
	}
	authorization := func(r *http.Request) string { return r.Header.Get("Authorization") }
	for name, tt := range map[string]struct {
		handler http.Handler
		want    string
	}{
		"lets everybody in": {welcome, "no header is let through: 200"},
		"lets nobody in":    {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }), "a good token is refused: 401"},
		"answers 400 to all": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }),
			"a good token is refused: 400"},
		"is not there": {http.NotFoundHandler(), "no header is let through: 404"},
		"forgets the challenge": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if authorization(r) == "" {
				w.WriteHeader(401)
				return
			}
			good.ServeHTTP(w, r)
		}), "no header: the challenge is"},
		"repeats the token": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Debug", authorization(r))
			good.ServeHTTP(w, r)
		}), "the answer repeats the token"},
		"wants the scheme in its own spelling": {unless(func(r *http.Request) bool {
			if strings.HasPrefix(authorization(r), "bearer ") {
				r.Header.Del("Authorization")
			}
			return false
		}), "a good token, lowercase scheme is refused: 401"},
		"does not look at tokens": {unless(func(r *http.Request) bool { return authorization(r) != "" }), "exp: absent is let through"},
		"reads claims alone":      {unless(readsClaimsAlone), "key: not the issuer's is let through"},
		"takes tokens from the query": {unless(func(r *http.Request) bool { return r.URL.Query().Get("access_token") != "" }),
			"query: access_token is let through"},
		"takes tokens from forms": {unless(func(r *http.Request) bool { return r.FormValue("access_token") != "" && r.URL.RawQuery == "" }),
			"form: access_token is let through"},
		"takes the last header": {unless(func(r *http.Request) bool {
			values := r.Header["Authorization"]
			return len(values) == 2 && values[1] == "Bearer "+good2(r)
		}), "two headers"},
		"believes a proxy":      {unless(func(r *http.Request) bool { return r.Header.Get("X-Forwarded-User") != "" }), "header: X-Forwarded-User is let through"},
		"believes sessions":     {unless(func(r *http.Request) bool { return r.Header.Get("Mcp-Session-Id") != "" }), "header: Mcp-Session-Id is let through"},
		"guards POST alone":     {unless(func(r *http.Request) bool { return r.Method == "DELETE" }), "method DELETE is let through"},
		"trusts a method field": {unless(func(r *http.Request) bool { return r.Header.Get("X-Http-Method-Override") == "OPTIONS" }), "overridden is let through"},
	} {
		t.Run(name, func(t *testing.T) {
			failures := attack(issuer, tt.handler)
			if !strings.Contains(strings.Join(failures, "\n"), tt.want) {
				t.Errorf("%d complaints, none of them about %q:\n%s", len(failures), tt.want, strings.Join(failures, "\n"))
			}
		})
	}
	if failures := attack(issuer, good); len(failures) > 0 {
		t.Errorf("about a good server: %s", strings.Join(failures, "\n"))
	}
}

// good2 returns the token in the second of two headers.
func good2(r *http.Request) string {
	return strings.TrimPrefix(r.Header["Authorization"][1], "Bearer ")
}

// readsClaimsAlone reports whether a token has the right audience, without verifying its
// signature.
func readsClaimsAlone(r *http.Request) bool {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && strings.Contains(string(payload), `"aud":"`+resource+`"`)
}

func TestIntrospectionEndpoint(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	id, secret := issuer.Credentials()
	ask := func(id, secret, token string) (int, string) {
		t.Helper()
		form := strings.NewReader(url.Values{"token": {token}}.Encode())
		req, err := http.NewRequestWithContext(t.Context(), "POST", issuer.URL()+"/introspect", form)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	active := func(token string) {
		t.Helper()
		if code, text := ask(id, secret, token); code != 200 || !strings.Contains(text, `"active":true`) || !strings.Contains(text, `"sub":"writer"`) {
			t.Errorf("%d %s", code, text)
		}
	}
	inactive := func(token string) {
		t.Helper()
		if code, text := ask(id, secret, token); code != 200 || text != `{"active":false}` {
			t.Errorf("%d %s", code, text)
		}
	}
	opaque, jwt := issuer.MintOpaque(middlewaretest.Claims{"sub": "writer"}), issuer.Mint(middlewaretest.Claims{"sub": "writer"})
	active(opaque)
	active(jwt)
	inactive("invented")
	inactive(issuer.MintOpaque(middlewaretest.Claims{"exp": int64(1)}))
	for _, broken := range issuer.Broken(resource) {
		inactive(broken.Token)
	}
	issuer.Revoke(opaque)
	inactive(opaque)
	active(jwt)
	for _, wrong := range [][2]string{{"", ""}, {id, ""}, {id, "x"}, {"x", secret}} {
		if code, _ := ask(wrong[0], wrong[1], jwt); code != http.StatusUnauthorized {
			t.Errorf("%q: %d", wrong, code)
		}
	}
	if code, _ := ask(id, secret, ""); code != http.StatusBadRequest {
		t.Errorf("no token: %d", code)
	}
	asked := issuer.IntrospectionRequests()
	active(jwt)
	if issuer.IntrospectionRequests() != asked+1 {
		t.Errorf("%d requests", issuer.IntrospectionRequests())
	}
	issuer.SetDown(true)
	if code, _ := ask(id, secret, jwt); code != http.StatusInternalServerError {
		t.Errorf("down: %d", code)
	}
	issuer.SetDown(false)
	issuer.SetDocument("/introspect", welcome)
	if _, text := ask(id, secret, "invented"); text != "welcome" {
		t.Errorf("replaced: %s", text)
	}
}
