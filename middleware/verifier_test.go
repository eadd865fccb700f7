package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const keysIssuer = "https://notes.example.com/keys"

// said returns a statement that passes, with changes.
func said(change ...func(*middleware.Statement)) middleware.Statement {
	s := middleware.Statement{Subject: "robot", ClientID: "batch", Audience: []string{resource}, Scopes: []string{"notes:read"},
		Expiry: time.Now().Add(time.Hour), Claims: []byte(`{"team":"north"}`)}
	for _, f := range change {
		f(&s)
	}
	return s
}

// stating is a verifier that always returns the same.
func stating(s middleware.Statement, err error) middleware.VerifierFunc {
	return func(context.Context, string) (middleware.Statement, error) { return s, err }
}

// verifiedWith configures a guard to have its tokens with a prefix verified.
func verifiedWith(v middleware.Verifier, change ...func(*middleware.TokenKind)) func(*middleware.Config) {
	return func(c *middleware.Config) {
		kind := middleware.TokenKind{Issuer: keysIssuer, Prefix: "key_", Verifier: v}
		for _, f := range change {
			f(&kind)
		}
		c.TokenKinds = append(c.TokenKinds, kind)
	}
}

func TestTokensOfAVerifier(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	scopes := []string{"notes:read", "two scopes", "", "notes:write"}
	s := said(func(s *middleware.Statement) { s.Scopes = scopes })
	guard := newGuard(t, issuer, verifiedWith(stating(s, nil)))
	token := passes(t, guard, withToken("key_1"))
	var own struct{ Team string }
	if token.Issuer != keysIssuer || token.Principal() != keysIssuer+"|robot" || !reflect.DeepEqual(token.Scopes, []string{"notes:read", "notes:write"}) {
		t.Errorf("%+v", token)
	}
	if err := token.Claims(&own); err != nil || own.Team != "" { // names match exactly
		t.Errorf("%+v, %v", own, err)
	}
	s.Audience[0], scopes[0] = "changed", "changed"
	if token.Audience[0] != resource || token.Scopes[0] != "notes:read" {
		t.Errorf("the verifier can change the token: %+v", token)
	}
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource})))
	refused(t, guard, withToken("other_1"), http.StatusUnauthorized)
}

// TestStatementsThatDoNotPass lets a verifier return statements with one fault each.
func TestStatementsThatDoNotPass(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	type statement = middleware.Statement
	for name, s := range map[string]statement{
		"nothing":           {},
		"another audience":  said(func(s *statement) { s.Audience = []string{another} }),
		"no audience":       said(func(s *statement) { s.Audience = nil }),
		"an empty audience": said(func(s *statement) { s.Audience = []string{""} }),
		"no expiry":         said(func(s *statement) { s.Expiry = time.Time{} }),
		"expired":           said(func(s *statement) { s.Expiry = time.Now().Add(-time.Minute) }),
		"not yet issued":    said(func(s *statement) { s.IssuedAt = time.Now().Add(time.Minute) }),
		"not yet valid":     said(func(s *statement) { s.NotBefore = time.Now().Add(time.Minute) }),
		"no subject":        said(func(s *statement) { s.Subject = "" }),
		"no client":         said(func(s *statement) { s.ClientID = "" }),
		"an invalid name":   said(func(s *statement) { s.Subject = "a\xff" }),
		"an invalid client": said(func(s *statement) { s.ClientID = "a\xff" }),
		"bound to a key":    said(func(s *statement) { s.Claims = []byte(`{"cnf":{"jkt":"x"}}`) }),
		"bound to nothing":  said(func(s *statement) { s.Claims = []byte(`{"cnf":null}`) }),
	} {
		for _, fresh := range []time.Duration{0, time.Hour} {
			guard := newGuard(t, issuer, verifiedWith(stating(s, nil), func(k *middleware.TokenKind) { k.Fresh = fresh }))
			for range 2 {
				if c := refused(t, guard, withToken("key_1"), http.StatusUnauthorized); code(c) != "invalid_token" {
					t.Errorf("%s: %v", name, c)
				}
			}
		}
	}
	for _, bad := range []string{`{`, `[]`, `"x"`, `null`, `{"a":1,"a":2}`, `{} {}`, strings.Repeat(" ", 65<<10) + "{}"} {
		guard := newGuard(t, issuer, verifiedWith(stating(said(func(s *statement) { s.Claims = []byte(bad) }), nil)))
		refused(t, guard, withToken("key_1"), http.StatusServiceUnavailable)
	}
}

// code returns the error code of a challenge.
func code(c metadata.Challenge) string {
	for _, p := range c.Params {
		if p.Name == "error" {
			return p.Value
		}
	}
	return ""
}

// brokenVerifier panics when it is called through a nil pointer.
type brokenVerifier struct{ s middleware.Statement }

func (b *brokenVerifier) Verify(context.Context, string) (middleware.Statement, error) {
	return b.s, nil
}

// TestVerifiersThatFail returns a good statement beside each error: the error counts.
func TestVerifiersThatFail(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	other := newGuard(t, issuer)
	_, foreign := other.Verify(t.Context(), "key_1")
	issuer.SetDown(true)
	_, down := newGuard(t, issuer).Verify(t.Context(), issuer.Mint(claims{"aud": resource}))
	for name, c := range map[string]struct {
		v    middleware.Verifier
		want int
	}{
		"not valid":             {stating(said(), middleware.ErrToken), http.StatusUnauthorized},
		"not valid, wrapped":    {stating(said(), fmt.Errorf("revoked: %w", middleware.ErrToken)), http.StatusUnauthorized},
		"refused by a guard":    {stating(said(), foreign), http.StatusUnauthorized},
		"unavailable":           {stating(said(), middleware.ErrUnavailable), http.StatusServiceUnavailable},
		"a guard without keys":  {stating(said(), down), http.StatusServiceUnavailable},
		"both":                  {stating(said(), errors.Join(middleware.ErrToken, middleware.ErrUnavailable)), http.StatusServiceUnavailable},
		"any other error":       {stating(said(), errors.New("the database is down")), http.StatusServiceUnavailable},
		"a context that ended":  {stating(said(), context.Canceled), http.StatusServiceUnavailable},
		"a nil pointer":         {(*brokenVerifier)(nil), http.StatusServiceUnavailable},
		"a nil function":        {middleware.VerifierFunc(nil), http.StatusServiceUnavailable},
		"a panic with the text": {middleware.VerifierFunc(func(_ context.Context, token string) (middleware.Statement, error) { panic(token) }), http.StatusServiceUnavailable},
	} {
		var seen middleware.Event
		guard := newGuard(t, issuer, verifiedWith(c.v, func(k *middleware.TokenKind) { k.Fresh = time.Hour }), func(c *middleware.Config) {
			c.Observe = func(_ *http.Request, e middleware.Event) { seen = e }
		})
		refused(t, guard, withToken("key_1"), c.want)
		if seen.Err == nil || strings.Contains(seen.Err.Error(), "key_1") {
			t.Errorf("%s: the event has the error %v", name, seen.Err)
		}
		want := map[int]error{http.StatusUnauthorized: middleware.ErrToken, http.StatusServiceUnavailable: middleware.ErrUnavailable}[c.want]
		if _, err := guard.Verify(t.Context(), "key_1"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestFreshStatements counts the calls of a verifier.
func TestFreshStatements(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	calls := 0
	s := said(func(s *middleware.Statement) { s.Expiry = clock.Now().Add(5 * time.Minute) })
	counts := middleware.VerifierFunc(func(context.Context, string) (middleware.Statement, error) { calls++; return s, nil })
	for _, c := range []struct {
		fresh, step time.Duration
		want        int
	}{{0, 0, 3}, {time.Minute, 0, 1}, {time.Minute, 45 * time.Second, 2}, {time.Minute, 61 * time.Second, 3}} {
		start := clock.Now()
		guard := newGuard(t, issuer, verifiedWith(counts, func(k *middleware.TokenKind) { k.Fresh = c.fresh }), func(c *middleware.Config) { c.Now = clock.Now })
		calls = 0
		for range 3 {
			verifiedBy(t, guard, "key_1")
			clock.Advance(c.step)
		}
		if calls != c.want {
			t.Errorf("fresh for %s, a request every %s: %d calls, want %d", c.fresh, c.step, calls, c.want)
		}
		clock.Advance(start.Sub(clock.Now()))
	}
	guard := newGuard(t, issuer, verifiedWith(counts, func(k *middleware.TokenKind) { k.Fresh = time.Hour }), func(c *middleware.Config) { c.Now = clock.Now })
	verifiedBy(t, guard, "key_1")
	clock.Advance(6 * time.Minute)
	refused(t, guard, withToken("key_1"), http.StatusUnauthorized)
}

// TestKindsKeepApart sends tokens of several kinds: each goes where it belongs, and a JWT of an
// issuer never to a verifier, whatever it begins with.
func TestKindsKeepApart(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	as := func(subject string) func(*middleware.Config) {
		return verifiedWith(stating(said(func(s *middleware.Statement) { s.Subject = subject }), nil), func(k *middleware.TokenKind) {
			k.Issuer, k.Prefix = "https://"+strings.Trim(subject, "._")+".example.com", strings.TrimPrefix(subject, "any")
		})
	}
	guard := newGuard(t, issuer, as("any"), as("a_"), as("b."), as("ey"))
	for token, want := range map[string]string{"a_1": "a_", "b.1": "b.", "c": "any", "a": "any", "eyJhbGciOiJub25lIn0.e30.": "ey",
		issuer.Mint(claims{"aud": resource, "sub": "a person"}): "a person"} {
		if got, err := guard.Verify(t.Context(), token); err != nil || got.Subject != want {
			t.Errorf("%.20s: %+v, %v, want %s", token, got, err, want)
		}
	}
	if _, err := guard.Verify(t.Context(), issuer.Mint(claims{"aud": another})); !errors.Is(err, middleware.ErrToken) {
		t.Errorf("a JWT for another resource reaches a verifier: %v", err)
	}
	for _, bad := range []string{"", "key_\n", "key_ x", "a_\"", "c=x"} {
		if got, err := guard.Verify(t.Context(), bad); !errors.Is(err, middleware.ErrToken) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestTokensWithoutAudienceOfAVerifier(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	loose := func(k *middleware.TokenKind) { k.InsecureNoAudience = true }
	for _, c := range []struct {
		audience []string
		want     int
	}{{nil, http.StatusTeapot}, {[]string{resource}, http.StatusTeapot}, {[]string{another}, http.StatusUnauthorized}, {[]string{""}, http.StatusUnauthorized}} {
		guard := newGuard(t, issuer, verifiedWith(stating(said(func(s *middleware.Statement) { s.Audience = c.audience }), nil), loose))
		if res := serve(guard.Protect(&inner{}), withToken("key_1")); res.StatusCode != c.want {
			t.Errorf("%q: %s, want %d", c.audience, res.Status, c.want)
		}
	}
}

func TestMistakesAboutTokenKinds(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	good := stating(said(), nil)
	for want, change := range map[string][]func(*middleware.Config){
		"no verifier":              {verifiedWith(nil)},
		"its issuer":               {verifiedWith(good, func(k *middleware.TokenKind) { k.Issuer = "keys" })},
		"choose a URL of its own":  {verifiedWith(good, func(k *middleware.TokenKind) { k.Issuer = issuer.URL() })},
		"has other tokens":         {verifiedWith(good), verifiedWith(good, func(k *middleware.TokenKind) { k.Prefix = "other_" })},
		"no access token begins":   {verifiedWith(good, func(k *middleware.TokenKind) { k.Prefix = "key 1" })},
		"below zero":               {verifiedWith(good, func(k *middleware.TokenKind) { k.Fresh = -1 })},
		"tokens can begin with":    {verifiedWith(good), verifiedWith(good, func(k *middleware.TokenKind) { k.Issuer, k.Prefix = keysIssuer+"/2", "key_2" })},
		"an issuer has opaque":     {verifiedWith(good, func(k *middleware.TokenKind) { k.Prefix = "" }), introspects(issuer, opaque)},
		"only one kind may be wit": {verifiedWith(good, func(k *middleware.TokenKind) { k.Prefix = "" }), verifiedWith(good, func(k *middleware.TokenKind) { k.Issuer, k.Prefix = keysIssuer+"/2", "" })},
	} {
		c := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}}
		for _, f := range change {
			f(&c)
		}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
