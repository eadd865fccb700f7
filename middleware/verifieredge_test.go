package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestLimitsOfStatements checks what a guard takes over from a statement, and what not.
func TestLimitsOfStatements(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	stated := func(token string, s middleware.Statement, change ...func(*middleware.Config)) (*middleware.Token, error) {
		return newGuard(t, issuer, append(change, verifiedWith(stating(s, nil)))...).Verify(t.Context(), token)
	}
	withClaims := func(text string) middleware.Statement {
		return said(func(s *middleware.Statement) { s.Claims = []byte(text) })
	}
	const small = `{"a":"1234"}`
	var own map[string]any
	for name, c := range map[string]struct {
		token, object string
		largest       int
		want          error
	}{
		"as large as a token":       {"key_1", small, len(small), nil},
		"larger than a token":       {"key_1", small, len(small) - 1, middleware.ErrNoClaims},
		"with the token":            {"key_1", `{"a":"key_1"}`, 100, middleware.ErrNoClaims},
		"with the token in escapes": {"key_1", `{"a":"key\u005f1"}`, 100, middleware.ErrNoClaims},
	} {
		token, err := stated(c.token, withClaims(c.object), func(m *middleware.Config) { m.MaxToken = c.largest })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := token.Claims(&own); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := stated("key_1", said(func(s *middleware.Statement) { s.ID = "a\xff" })); !errors.Is(err, middleware.ErrToken) {
		t.Errorf("an id that is not valid text: %v", err)
	}
	elsewhere := said(func(s *middleware.Statement) { s.Audience = []string{"api://notes"} })
	if _, err := stated("key_1", elsewhere, func(c *middleware.Config) { c.Audiences = []string{"api://notes"} }); err != nil {
		t.Errorf("a further audience: %v", err)
	}
	token, err := stated("key_1", withClaims(small))
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Claims(&map[int]any{}); err == nil || !strings.Contains(err.Error(), "into a pointer") {
		t.Errorf("a map with other keys: %v", err)
	}
}

// TestVerifiersHaveATime looks at the context of a verifier, and at the cause of its refusal.
func TestVerifiersHaveATime(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	ends := false
	revoked := middleware.VerifierFunc(func(ctx context.Context, _ string) (middleware.Statement, error) {
		_, ends = ctx.Deadline()
		return middleware.Statement{}, fmt.Errorf("revoked yesterday: %w", middleware.ErrToken)
	})
	var seen middleware.Event
	guard := newGuard(t, issuer, verifiedWith(revoked), func(c *middleware.Config) {
		c.Observe = func(_ *http.Request, e middleware.Event) { seen = e }
	})
	refused(t, guard, withToken("key_1"), http.StatusUnauthorized)
	if !ends || !strings.Contains(seen.Err.Error(), "revoked yesterday") {
		t.Errorf("the context ends: %t, the event has %v", ends, seen.Err)
	}
	long := verifiedWith(revoked, func(k *middleware.TokenKind) { k.Issuer, k.Prefix = keysIssuer+"/2", "key_2" })
	for _, order := range [][]func(*middleware.Config){{long, verifiedWith(revoked)}, {verifiedWith(revoked), long}} {
		c := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}}
		for _, f := range order {
			f(&c)
		}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), "tokens can begin with") {
			t.Errorf("two prefixes of one token: %v", err)
		}
	}
}

// TestTokensWithoutTheOptionNeedAnAudience has the option at one of two kinds alone.
func TestTokensWithoutTheOptionNeedAnAudience(t *testing.T) {
	s := stating(said(func(s *middleware.Statement) { s.Audience = nil }), nil)
	guard := newGuard(t, middlewaretest.NewIssuer(t), verifiedWith(s), verifiedWith(s, func(k *middleware.TokenKind) {
		k.Issuer, k.Prefix, k.InsecureNoAudience = keysIssuer+"/2", "loose_", true
	}))
	passes(t, guard, withToken("loose_1"))
	refused(t, guard, withToken("key_1"), http.StatusUnauthorized)
}
