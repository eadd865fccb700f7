package zitadel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"gatehouse.example/middleware"
)

const rolesClaim = "urn:zitadel:iam:org:project:roles"

// addressed is the example's storage, with access tokens for a resource. They are JWTs if it says so,
// and name the roles of the person as the service of zitadel does.
type addressed struct {
	*rotating
	resource string
	jwts     bool
}

// request is an authorization request for a resource.
type request struct {
	*storage.AuthRequest
	audience []string
}

func (r request) GetAudience() []string { return r.audience }

// ofJWTs is a client whose access tokens are JWTs.
type ofJWTs struct{ op.Client }

func (ofJWTs) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (a *addressed) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := a.rotating.GetClientByClientID(ctx, id)
	if err == nil && a.jwts {
		client = ofJWTs{client}
	}
	return client, err
}

func (a *addressed) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	found, err := a.rotating.AuthRequestByCode(ctx, code)
	if err != nil {
		return nil, err
	}
	return request{found.(*storage.AuthRequest), []string{a.resource}}, nil
}

// renewal is a refresh for a resource.
type renewal struct {
	op.RefreshTokenRequest
	audience []string
}

func (r renewal) GetAudience() []string { return r.audience }

func (a *addressed) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	found, err := a.rotating.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	return renewal{found, []string{a.resource}}, nil
}

// bare returns a request as the example's storage knows it.
func bare(r op.TokenRequest) op.TokenRequest {
	switch of := r.(type) {
	case request:
		return of.AuthRequest
	case renewal:
		return of.RefreshTokenRequest
	}
	return r
}

func (a *addressed) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	return a.rotating.CreateAccessToken(ctx, bare(r))
}

func (a *addressed) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	return a.rotating.CreateAccessAndRefreshTokens(ctx, bare(r), current)
}

func (a *addressed) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return map[string]any{rolesClaim: map[string]any{"editor": map[string]string{"201982826478953724": "zitadel.ch"}}}, nil
}

// issue signs the person in, and returns an access token and an ID token.
func (p *provider) issue() (access, id string) {
	p.Helper()
	values := url.Values{"response_type": {"code"}, "client_id": {"gatehouse"}, "redirect_uri": {p.redirect}, "state": {"state"}, "scope": {"openid"}, "nonce": {"n"}}
	back := p.visit(newBrowser(p.T), p.server.URL+"/auth?"+values.Encode())
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {p.redirect}}
	r, err := http.NewRequest(http.MethodPost, p.server.URL+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	r.SetBasicAuth("gatehouse", "secret")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	var tokens struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	if err := json.Unmarshal(text, &tokens); err != nil || tokens.Access == "" || tokens.ID == "" {
		p.Fatalf("%s %s", answer.Status, text)
	}
	return tokens.Access, tokens.ID
}

// guard returns a guard for tokens of the provider. Their header says JWT.
func (p *provider) guard(resource string, asked map[string]middleware.Introspection) *middleware.Guard {
	p.Helper()
	one := middleware.Issuer{URL: p.server.URL, Type: "JWT", ScopeMap: []middleware.ScopeRule{{Claim: []string{rolesClaim}, Value: "editor", Scopes: []string{"notes:write"}}}}
	if asked != nil {
		one.Type = ""
	}
	guard, err := middleware.New(middleware.Config{Resource: resource, Issuers: []middleware.Issuer{one}, Introspection: asked})
	if err != nil {
		p.Fatal(err)
	}
	return guard
}

// TestGuardBeforeZitadel: the guard accepts access tokens of zitadel's provider for its resource, with
// the scopes of their roles, refuses its ID tokens and those for another resource, and takes a new
// key at once. An opaque token is looked up; it has no audience there, and is refused.
func TestGuardBeforeZitadel(t *testing.T) {
	p := serve(t, redirect)
	p.handle(&addressed{p.store, notes, true})
	guard := p.guard(notes, nil)
	access, id := p.issue()
	token, err := guard.Verify(t.Context(), access)
	if err != nil || token.Subject != "id2" || token.ClientID != "gatehouse" || token.Issuer != p.server.URL || !token.HasScope("notes:write") {
		t.Errorf("%+v, %v", token, err)
	}
	refuse := func(name, token string, guard *middleware.Guard) {
		t.Helper()
		if _, err := guard.Verify(t.Context(), token); !errors.Is(err, middleware.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refuse("an ID token", id, guard)
	refuse("a token for another resource", access, p.guard("https://tasks.example.com/mcp", nil))
	refuse("a token without the type", access, p.guard(notes, map[string]middleware.Introspection{p.server.URL: {ClientID: "gatehouse", ClientSecret: "secret"}}))

	p.store.rotate(t)
	renewed, _ := p.issue()
	if _, err := guard.Verify(t.Context(), renewed); err != nil {
		t.Errorf("a new key: %v", err)
	}

	p.handle(&addressed{p.store, notes, false})
	hidden, _ := p.issue()
	refuse("an opaque token", hidden, guard)
	asks := p.guard(notes, map[string]middleware.Introspection{p.server.URL: {ClientID: "gatehouse", ClientSecret: "secret", Opaque: true}})

	refuse("an opaque token whose answer has no audience", hidden, asks)
	refuse("an ID token where tokens are opaque", id, asks)
}
