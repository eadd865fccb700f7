package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// own are claims that a provider could put into its tokens.
type own struct {
	Tenant string   `json:"tenant"`
	Groups []string `json:"groups"`
	Quota  int64    `json:"quota"`
	Extra  any      `json:"extra"`
}

// custom are claims of a token, with names that differ from those of own in case only.
func custom() claims {
	return claims{"aud": resource, "tenant": "north", "groups": []string{"staff", "admins"}, "quota": 9007199254740993,
		"extra": map[string]any{"n": 9007199254740993}, "TENANT": "south", "Groups": []string{"forged"}}
}

// verifiedBy returns the token that a guard found in a token string.
func verifiedBy(t testing.TB, guard *middleware.Guard, token string) *middleware.Token {
	t.Helper()
	got, err := guard.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestClaims reads claims of a JWT, of an opaque token and of a JWT that is looked up, from the
// cache and not. Names match exactly, and numbers are not rounded.
func TestClaims(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	want := own{"north", []string{"staff", "admins"}, 9007199254740993, map[string]any{"n": json.Number("9007199254740993")}}
	for name, mint := range map[string]func(claims) string{"JWT": issuer.Mint, "opaque": issuer.MintOpaque} {
		for kind, guard := range map[string]*middleware.Guard{
			"cached": newGuard(t, issuer, introspects(issuer, opaque)), "uncached": newGuard(t, issuer, introspects(issuer, opaque), uncached),
		} {
			token := mint(custom())
			for range 2 {
				verified := verifiedBy(t, guard, token)
				got := own{Tenant: "preset"}
				if err := verified.Claims(&got); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s: %+v, %v", name, kind, got, err)
				}
				got.Groups[0] = "changed" // it belongs to the caller alone
				var all map[string]any
				if err := verified.Claims(&all); err != nil || all["TENANT"] != "south" || all["sub"] != verified.Subject {
					t.Errorf("%s, %s: %v, %v", name, kind, all, err)
				}
			}
		}
	}
}

func TestClaimsThatCannotBeRead(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := verifiedBy(t, newGuard(t, issuer), issuer.Mint(custom()))
	wrong := struct {
		Tenant string `json:"tenant"`
		Groups int    `json:"groups"`
	}{Tenant: "preset"}
	if err := token.Claims(&wrong); err == nil || !strings.Contains(err.Error(), "groups") || wrong.Tenant != "preset" {
		t.Errorf("%v, %+v", err, wrong)
	}
	for _, v := range []any{nil, own{}, (*own)(nil), new(string), new([]byte), new(json.RawMessage), new(any), &map[int]string{}} {
		if err := token.Claims(v); err == nil {
			t.Errorf("claims were decoded into %T", v)
		}
	}
	for _, none := range []*middleware.Token{nil, {Subject: "made by hand"}} {
		if err := none.Claims(new(own)); !errors.Is(err, middleware.ErrNoClaims) {
			t.Errorf("claims of %v: %v", none, err)
		}
	}
}

// TestClaimsAreNotPrinted formats a token as logs do: claims may be about people.
func TestClaimsAreNotPrinted(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, raw := range []string{issuer.Mint(custom()), issuer.MintOpaque(custom())} {
		token := verifiedBy(t, newGuard(t, issuer, introspects(issuer, opaque)), raw)
		for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(form, token); strings.Contains(text, "north") || strings.Contains(text, raw) {
				t.Errorf("%s prints %s", form, text)
			}
		}
	}
}

func TestClaimsFromAContext(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Optional = true })
	var got own
	var err error
	handler := guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, err = middleware.ClaimsFrom[own](r.Context()) }))
	handler.ServeHTTP(httptest.NewRecorder(), withToken(issuer.Mint(custom())))
	if err != nil || got.Tenant != "north" {
		t.Errorf("%+v, %v", got, err)
	}
	handler.ServeHTTP(httptest.NewRecorder(), newRequest("POST", resource))
	if !errors.Is(err, middleware.ErrNoToken) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := middleware.ClaimsFrom[own](context.Background()); !errors.Is(err, middleware.ErrNoToken) {
		t.Errorf("outside a guard: %v", err)
	}
}

// TestLargeAnswersAreNotKept looks up a token whose response is larger than a token may be: it is
// accepted, and its claims are not kept.
func TestLargeAnswersAreNotKept(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.MintOpaque(claims{"aud": resource, "groups": []string{strings.Repeat("g", 8<<10)}})
	if err := verifiedBy(t, newGuard(t, issuer, introspects(issuer, opaque)), token).Claims(new(own)); !errors.Is(err, middleware.ErrNoClaims) {
		t.Errorf("the response is kept: %v", err)
	}
	roomy := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.MaxToken = 16 << 10 })
	if err := verifiedBy(t, roomy, token).Claims(new(own)); err != nil {
		t.Error(err)
	}
}

// TestAnswersWithTheTokenAreNotKept looks up a token at an issuer that repeats it: no handler gets
// it back (requirement R-TOK-6).
func TestAnswersWithTheTokenAreNotKept(t *testing.T) {
	for _, repeated := range []string{`"token":"secret/token"`, `"deep":{"x":["a secret\/token"]}`, `"a":{"secret\u002ftoken":1}`} {
		issuer := middlewaretest.NewIssuer(t)
		answers(issuer, fmt.Sprintf(`{"active":true,"sub":"a","client_id":"b","aud":%q,"exp":%d,%s}`, resource, time.Now().Add(time.Hour).Unix(), repeated))
		var all map[string]any
		if err := verifiedBy(t, newGuard(t, issuer, introspects(issuer, opaque)), "secret/token").Claims(&all); !errors.Is(err, middleware.ErrNoClaims) {
			t.Errorf("%s: %v, %v", repeated, all, err)
		}
	}
}

// TestMaxToken sends tokens of many groups through a real listener.
func TestMaxToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, max := range []int{0, 24 << 10, 64 << 10} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.MaxHeaderBytes = max + 24<<10
		server.Start()
		t.Cleanup(server.Close)
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Resource, c.MaxToken = server.URL, max })
		server.Config.Handler = guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		limit := max
		if limit == 0 {
			limit = 8 << 10
		}
		for groups, want := range map[int]int{limit * 3 / 4 * 9 / 10: http.StatusTeapot, limit * 3 / 4: http.StatusUnauthorized} {
			if groups > 45<<10 && want == http.StatusTeapot {
				groups -= 1 << 10
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": server.URL, "groups": strings.Repeat("g", groups)}))
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("a limit of %d, groups of %d bytes: %s, want %d", max, groups, res.Status, want)
			}
		}
	}
	for _, bad := range []int{-1, 64<<10 + 1} {
		c := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}, MaxToken: bad}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), "tokens have") {
			t.Errorf("MaxToken %d: %v", bad, err)
		}
	}
}
