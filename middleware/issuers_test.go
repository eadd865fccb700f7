package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// another is a second resource, with guards that share issuers with those of the first.
const another = "https://other.example.com/mcp"

func newIssuers(t testing.TB, issuer *middlewaretest.Issuer, change ...func(*middleware.IssuersConfig)) *middleware.Issuers {
	t.Helper()
	c := middleware.IssuersConfig{Issuers: []middleware.Issuer{{URL: issuer.URL()}}}
	for _, f := range change {
		f(&c)
	}
	shared, err := middleware.NewIssuers(c)
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

// sharing returns a guard for a resource whose issuers are shared.
func sharing(t testing.TB, shared *middleware.Issuers, of string, change ...func(*middleware.Config)) *middleware.Guard {
	t.Helper()
	c := middleware.Config{Resource: of, SharedIssuers: shared, Scopes: []string{"notes:read"}}
	for _, f := range change {
		f(&c)
	}
	guard, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestSharedIssuersFetchKeysOnce lets 100 guards verify their first tokens at the same time. The
// issuer answers when all of them are there.
func TestSharedIssuersFetchKeysOnce(t *testing.T) {
	const guards = 100
	issuer := middlewaretest.NewIssuer(t)
	shared := newIssuers(t, issuer)
	var done sync.WaitGroup
	for n := range guards {
		of := fmt.Sprintf("https://tenant%d.example.com/mcp", n)
		guard, token := sharing(t, shared, of), issuer.Mint(claims{"aud": of})
		done.Go(func() {
			if _, err := guard.Verify(t.Context(), token); err != nil {
				t.Errorf("%s: %v", of, err)
			}
		})
	}
	done.Wait()
	if got := issuer.KeyRequests(); got != 1 {
		t.Errorf("%d guards fetched the keys %d times, want once", guards, got)
	}
}

// TestSharedIssuersShareNoVerdict tries each token at the guard of its resource and at that of
// another one, in both orders and twice, so that caches are empty and full.
func TestSharedIssuersShareNoVerdict(t *testing.T) {
	for name, mint := range map[string]func(*middlewaretest.Issuer, claims) string{
		"JWT": (*middlewaretest.Issuer).Mint, "opaque": (*middlewaretest.Issuer).MintOpaque,
	} {
		for kind, change := range map[string]func(*middlewaretest.Issuer) func(*middleware.Config){
			"signature": func(*middlewaretest.Issuer) func(*middleware.Config) { return func(*middleware.Config) {} },
			"lookup":    func(i *middlewaretest.Issuer) func(*middleware.Config) { return introspects(i, opaque) },
			"no cache": func(i *middlewaretest.Issuer) func(*middleware.Config) {
				return func(c *middleware.Config) { introspects(i, opaque)(c); uncached(c) }
			},
			"further audience": func(i *middlewaretest.Issuer) func(*middleware.Config) {
				return func(c *middleware.Config) { introspects(i, opaque)(c); c.Audiences = []string{"api://" + c.Resource} }
			},
		} {
			if name == "opaque" && kind == "signature" {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				issuer := middlewaretest.NewIssuer(t)
				shared := newIssuers(t, issuer)
				first, second := sharing(t, shared, resource, change(issuer)), sharing(t, shared, another, change(issuer))
				for _, audience := range []string{"", "api://"} {
					if audience != "" && kind != "further audience" {
						continue
					}
					a, b := mint(issuer, claims{"aud": audience + resource}), mint(issuer, claims{"aud": audience + another})
					for range 2 {
						verdicts(t, first, a, b)
						verdicts(t, second, b, a)
					}
				}
			})
		}
	}
}

// verdicts fails the test unless a guard accepts the one token and refuses the other as one for
// another resource.
func verdicts(t *testing.T, guard *middleware.Guard, good, foreign string) {
	t.Helper()
	if _, err := guard.Verify(t.Context(), good); err != nil {
		t.Errorf("its own token: %v", err)
	}
	if _, err := guard.Verify(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "another resource") {
		t.Errorf("the token of the other resource: %v", err)
	}
}

// TestSharedIssuersForgetKeysTogether rotates the keys of the issuer: a token that two guards have
// in their caches is refused by both when one of them has seen the new keys.
func TestSharedIssuersForgetKeysTogether(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	shared := newIssuers(t, issuer, func(c *middleware.IssuersConfig) { c.Now = clock.Now })
	first, second := sharing(t, shared, resource), sharing(t, shared, another)
	old := issuer.Mint(claims{"aud": []string{resource, another}})
	for _, guard := range []*middleware.Guard{first, second} {
		if _, err := guard.Verify(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}
	issuer.Rotate("ES256")
	clock.Advance(time.Minute) // the pause for unknown keys is over
	fresh := issuer.Mint(claims{"aud": resource, "iat": clock.Now().Unix(), "exp": clock.Now().Add(time.Hour).Unix()})
	if _, err := first.Verify(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	for _, guard := range []*middleware.Guard{first, second} {
		if _, err := guard.Verify(t.Context(), old); err == nil {
			t.Error("a token of a withdrawn key is still accepted")
		}
	}
	if got := issuer.KeyRequests(); got != 2 {
		t.Errorf("%d fetches of keys, want 2", got)
	}
}

// TestSharedIntrospectionIsPerGuard revokes a token: each guard asks with its own credentials, and
// none of them uses the answer for the other.
func TestSharedIntrospectionIsPerGuard(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	shared := newIssuers(t, issuer)
	token := issuer.MintOpaque(claims{"aud": []string{resource, another}})
	for n, of := range []string{resource, another} {
		guard := sharing(t, shared, of, introspects(issuer, opaque))
		for range 2 {
			if _, err := guard.Verify(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		wantQuestions(t, issuer, n+1)
	}
	wrong := sharing(t, shared, resource, introspects(issuer, opaque, func(i *middleware.Introspection) { i.ClientSecret = "another secret" }))
	refusedAs(t, wrong, token, http.StatusServiceUnavailable)
}

// refusedAs fails the test unless the guard refuses a token with a status.
func refusedAs(t *testing.T, guard *middleware.Guard, token string, status int) {
	t.Helper()
	refused(t, guard, withToken(token), status)
}

func TestOnlySomeOfTheSharedIssuers(t *testing.T) {
	one, two := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	shared := newIssuers(t, one, func(c *middleware.IssuersConfig) { c.Issuers = append(c.Issuers, middleware.Issuer{URL: two.URL()}) })
	some, err := shared.Only(one.URL())
	if err != nil {
		t.Fatal(err)
	}
	guard := sharing(t, some, resource)
	passes(t, guard, withToken(one.Mint(claims{"aud": resource})))
	refusedAs(t, guard, two.Mint(claims{"aud": resource}), http.StatusUnauthorized)
	passes(t, sharing(t, shared, resource), withToken(two.Mint(claims{"aud": resource})))
	if got := one.KeyRequests() + two.KeyRequests(); got != 2 {
		t.Errorf("%d fetches of keys, want one for each issuer", got)
	}
	for _, names := range [][]string{nil, {"https://unknown.example.com"}, {one.URL(), one.URL() + "/"}} {
		if _, err := shared.Only(names...); err == nil {
			t.Errorf("%q are accepted", names)
		}
	}
}

func TestMistakesAboutSharedIssuers(t *testing.T) {
	const url = "https://auth.example.com"
	shared, err := middleware.NewIssuers(middleware.IssuersConfig{Issuers: []middleware.Issuer{{URL: url}}})
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*middleware.Config){
		"make them with NewIssuers": func(c *middleware.Config) { c.SharedIssuers = new(middleware.Issuers) },
		"Issuers, StaleKeys":        func(c *middleware.Config) { c.Issuers = []middleware.Issuer{{URL: url}} },
		"StaleKeys, Client":         func(c *middleware.Config) { c.StaleKeys = time.Hour },
		"Client and Now":            func(c *middleware.Config) { c.Client = new(http.Client) },
		"and Now belong":            func(c *middleware.Config) { c.Now = time.Now },
		"ObserveKeyFetch, Issuers": func(c *middleware.Config) {
			c.ObserveKeyFetch = func(ctx context.Context, _ string) (context.Context, func(error)) { return ctx, nil }
		},
		"not one of the shared issuers": func(c *middleware.Config) { c.AuthorizationServers = []string{"https://unknown.example.com"} },
		"not one of the authorization se": func(c *middleware.Config) {
			c.Introspection = map[string]middleware.Introspection{"https://x.example.com": {}}
		},
	} {
		c := middleware.Config{Resource: resource, SharedIssuers: shared}
		change(&c)
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for want, issuers := range map[string][]middleware.Issuer{
		"there is no issuer": nil,
		"occurs twice":       {{URL: url}, {URL: url}},
		"have no audiences":  {{URL: url, Audiences: []string{"api://notes"}}},
		"every guard would":  {{URL: url, Profile: middleware.Cognito, InsecureNoAudience: true, Audiences: []string{"a client"}}},
		"no profile":         {{URL: url, Profile: 99}},
	} {
		if _, err := middleware.NewIssuers(middleware.IssuersConfig{Issuers: issuers}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestSharedTenants shares the tenants of one issuer of Entra: the guard of one of them names it to
// clients, and no other.
func TestSharedTenants(t *testing.T) {
	const one, two = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	shared, err := middleware.NewIssuers(middleware.IssuersConfig{Issuers: []middleware.Issuer{{
		URL: "https://login.microsoftonline.com/{tenantid}/v2.0", Profile: middleware.Entra, Tenants: []string{one, two},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	some, err := shared.Only("https://login.microsoftonline.com/" + one + "/v2.0")
	if err != nil {
		t.Fatal(err)
	}
	guard := sharing(t, some, resource)
	if got := body(t, guard.Metadata(), newRequest("GET", metaURL)); !strings.Contains(got, one) || strings.Contains(got, two) {
		t.Errorf("the metadata is %s", got)
	}
}

// body returns the body of an answer with status 200.
func body(t *testing.T, h http.Handler, r *http.Request) string {
	t.Helper()
	res := serve(h, r)
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %v", res.Status, text, err)
	}
	return string(text)
}

// BenchmarkSharedIssuers measures what a further guard costs, and a cached token at one of 100 guards.
func BenchmarkSharedIssuers(b *testing.B) {
	issuer := middlewaretest.NewIssuer(b)
	shared := newIssuers(b, issuer)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sharing(b, shared, resource)
		}
	})
	b.Run("cached", func(b *testing.B) {
		var guards []*middleware.Guard
		var tokens []string
		for n := range 100 {
			of := fmt.Sprintf("https://tenant%d.example.com/mcp", n)
			guards, tokens = append(guards, sharing(b, shared, of)), append(tokens, issuer.Mint(claims{"aud": of}))
			verifiedBy(b, guards[n], tokens[n])
		}
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, err := guards[n%100].Verify(b.Context(), tokens[n%100]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
