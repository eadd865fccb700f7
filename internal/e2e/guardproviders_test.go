//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
)

const (
	guarded  = "https://notes.example.com/mcp"
	elsewise = "https://tasks.example.com/mcp"
	secretly = "https://notes.example.com/opaque" // panva's provider issues opaque tokens for it
)

// issue signs ada in at the provider, and returns an access token for a resource, none for "", and the
// ID token.
func (p *panva) issue(browser *http.Client, resource, scope string) (access, id string) {
	p.Helper()
	return p.tokens(browser, upstreamRedirect, resource, scope)
}

// tokens is issue for a client with another redirect URI.
func (p *panva) tokens(browser *http.Client, redirect, resource, scope string) (access, id string) {
	p.Helper()
	const verifier = "a-code-verifier-of-forty-three-characters-or-more"
	challenge := sha256.Sum256([]byte(verifier))
	values := url.Values{
		"response_type": {"code"}, "client_id": {"gatehouse"}, "redirect_uri": {redirect}, "state": {"state"}, "scope": {strings.TrimSpace("openid " + scope)},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	redeem := url.Values{"grant_type": {"authorization_code"}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	if resource != "" {
		values.Set("resource", resource)
		redeem.Set("resource", resource)
	}
	back := p.visit(browser, p.issuer+"/auth?"+values.Encode(), redirect, "ada")
	if redeem.Set("code", back.Query().Get("code")); redeem.Get("code") == "" {
		p.Fatalf("no code for %q, but %s", resource, back)
	}
	var tokens struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	answer, err := p.send("/token", redeem)
	decodeInto(p.T, answer, err, http.StatusOK, &tokens)
	return tokens.Access, tokens.ID
}

// send posts a form with the credentials of the client.
func (p *panva) send(path string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, p.issuer+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth("gatehouse", "secret")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return http.DefaultClient.Do(r)
}

// guardFor returns a guard for tokens of the provider.
func (p *panva) guardFor(resource string, rules []middleware.ScopeRule, asked ...middleware.Introspection) *middleware.Guard {
	p.Helper()
	config := middleware.Config{Resource: resource, Issuers: []middleware.Issuer{{URL: p.issuer, ScopeMap: rules}}}
	for _, one := range asked {
		one.ClientID, one.ClientSecret, one.Fresh = "gatehouse", "secret", time.Nanosecond
		config.Introspection = map[string]middleware.Introspection{p.issuer: one}
	}
	guard, err := middleware.New(config)
	if err != nil {
		p.Fatal(err)
	}
	return guard
}

// refusesTokens checks that a guard refuses each of the tokens for good.
func refusesTokens(t *testing.T, guard *middleware.Guard, tokens map[string]string) {
	t.Helper()
	for name, token := range tokens {
		if _, err := guard.Verify(t.Context(), token); !errors.Is(err, middleware.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The guard accepts access tokens of panva's provider for its resource, with the scopes that they or
// the roles in them grant. It refuses all other tokens, looks opaque ones up, learns of
// revocations, and takes a new key at once.
func TestGuardBeforeOIDCProvider(t *testing.T) {
	t.Parallel()
	p := startPanva(t, upstreamRedirect, nil)
	browser := newBrowser(t)
	access, id := p.issue(browser, guarded, "notes:read")
	other, _ := p.issue(browser, elsewise, "notes:read")
	plain, _ := p.issue(browser, "", "")
	hidden, _ := p.issue(browser, secretly, "notes:read")

	staff := []middleware.ScopeRule{{Claim: []string{"realm_access", "roles"}, Value: "staff", Scopes: []string{"notes:write"}}}
	guard := p.guardFor(guarded, staff)
	token, err := guard.Verify(t.Context(), access)
	if err != nil || token.Subject != "ada" || token.ClientID != "gatehouse" || token.Issuer != p.issuer || !token.HasScope("notes:read", "notes:write") {
		t.Errorf("%+v, %v", token, err)
	}
	for name, guard := range map[string]*middleware.Guard{
		"by signature": guard, "opaque": p.guardFor(guarded, staff, middleware.Introspection{Opaque: true}),
	} {
		t.Run(name, func(t *testing.T) {
			refusesTokens(t, guard, map[string]string{"an ID token": id, "another resource": other, "no resource": plain, "another resource, opaque": hidden})
		})
	}

	opaque := p.guardFor(secretly, staff, middleware.Introspection{Opaque: true})
	token, err = opaque.Verify(t.Context(), hidden)
	if err != nil || token.Subject != "ada" || token.ClientID != "gatehouse" || !token.HasScope("notes:read") {
		t.Errorf("an opaque token: %+v, %v", token, err)
	}
	refusesTokens(t, opaque, map[string]string{"an ID token": id, "a JWT": access, "no resource": plain})
	answer, err := p.send("/token/revocation", url.Values{"token": {hidden}})
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	refusesTokens(t, opaque, map[string]string{"a revoked token": hidden})

	p.tell("rotate")
	renewed, _ := p.issue(browser, guarded, "notes:read")
	if _, err := guard.Verify(t.Context(), renewed); err != nil {
		t.Errorf("a new key: %v", err)
	}
	p.stop()
	if _, err := opaque.Verify(t.Context(), "another-opaque-token"); !errors.Is(err, middleware.ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
}
