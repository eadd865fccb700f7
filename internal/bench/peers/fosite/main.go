// Command fosite is stock fosite with its store in memory, behind the least that makes it a server:
// whoever comes is signed in and allows everything. It is measured by internal/bench.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/storage"
	"github.com/ory/fosite/token/jwt"
	"golang.org/x/crypto/bcrypt"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8088", "address")
	resource := flag.String("resource", "https://notes.example.com/mcp", "audience of access tokens")
	redirect := flag.String("redirect", "http://127.0.0.1/callback", "redirect URI of the client")
	secret := flag.String("secret", "secret", "secret of the client notes, which introspects")
	flag.Parse()
	p, err := newPeer(*resource, *redirect, *secret)
	if err == nil {
		err = http.ListenAndServe(*listen, p.routes())
	}
	log.Fatal(err)
}

type peer struct {
	fosite.OAuth2Provider
	resource string
}

// newPeer composes fosite with JWT access tokens signed with ES256, for the client bench.
func newPeer(resource, redirect, secret string) (*peer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.DefaultCost)
	if err != nil {
		return nil, err
	}
	store := storage.NewMemoryStore()
	store.Clients["bench"] = &fosite.DefaultClient{
		ID: "bench", Public: true, RedirectURIs: []string{redirect}, ResponseTypes: []string{"code"},
		GrantTypes: []string{"authorization_code", "refresh_token"}, Scopes: []string{"notes:read", "notes:write"},
		Audience: []string{resource},
	}
	store.Clients["notes"] = &fosite.DefaultClient{ID: "notes", Secret: hash}
	config := &fosite.Config{
		GlobalSecret: make([]byte, 32), AccessTokenLifespan: 10 * time.Minute, AuthorizeCodeLifespan: 10 * time.Minute,
		AccessTokenIssuer: "https://auth.example.com", EnforcePKCE: true, RefreshTokenScopes: []string{},
	}
	strategy := compose.CommonStrategy{CoreStrategy: compose.NewOAuth2JWTStrategy(
		func(context.Context) (any, error) { return key, nil }, compose.NewOAuth2HMACStrategy(config), config)}
	return &peer{compose.Compose(config, store, strategy, compose.OAuth2AuthorizeExplicitFactory, compose.OAuth2RefreshTokenGrantFactory,
		compose.OAuth2PKCEFactory, compose.OAuth2TokenIntrospectionFactory), resource}, nil
}

func (p *peer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer":"https://auth.example.com","token_endpoint":"https://auth.example.com/token"}`))
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /introspect", p.introspect)
	return mux
}

func (p *peer) authorize(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	request, err := p.NewAuthorizeRequest(ctx, r)
	if err != nil {
		p.WriteAuthorizeError(ctx, w, request, err)
		return
	}
	for _, scope := range request.GetRequestedScopes() {
		request.GrantScope(scope)
	}
	request.GrantAudience(p.resource)
	answer, err := p.NewAuthorizeResponse(ctx, request, newSession("subject"))
	if err != nil {
		p.WriteAuthorizeError(ctx, w, request, err)
		return
	}
	p.WriteAuthorizeResponse(ctx, w, request, answer)
}

func (p *peer) token(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	request, err := p.NewAccessRequest(ctx, r, newSession(""))
	if err != nil {
		p.WriteAccessError(ctx, w, request, err)
		return
	}
	answer, err := p.NewAccessResponse(ctx, request)
	if err != nil {
		p.WriteAccessError(ctx, w, request, err)
		return
	}
	p.WriteAccessResponse(ctx, w, request, answer)
}

func (p *peer) introspect(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	answer, err := p.NewIntrospectionRequest(ctx, r, newSession(""))
	if err != nil {
		p.WriteIntrospectionError(ctx, w, err)
		return
	}
	p.WriteIntrospectionResponse(ctx, w, answer)
}

func newSession(subject string) *oauth2.JWTSession {
	return &oauth2.JWTSession{
		JWTClaims: &jwt.JWTClaims{Subject: subject, Extra: map[string]any{}}, JWTHeader: &jwt.Headers{Extra: map[string]any{}},
		ExpiresAt: map[fosite.TokenType]time.Time{}, Subject: subject,
	}
}
