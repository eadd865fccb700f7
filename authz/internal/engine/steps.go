package engine

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/pkce"
)

// steps are fosite's handlers. Each does a part of a grant, and they are called here in fosite's order.
// fosite's provider would make its request for them out of a form, and its answer out of maps: what
// is in both was decided before.
type steps struct {
	code    *oauth2.AuthorizeExplicitGrantHandler
	proof   *pkce.Handler
	refresh *oauth2.RefreshTokenGrantHandler
}

func newSteps(cfg Config) steps {
	store, config := work{}, newConfig()
	strategy := &strategy{store: cfg.Store, keys: cfg.Keys, now: cfg.Now, begin: cfg.Signing}
	return steps{
		code: &oauth2.AuthorizeExplicitGrantHandler{
			AccessTokenStrategy: strategy, RefreshTokenStrategy: strategy, AuthorizeCodeStrategy: strategy,
			CoreStorage: store, TokenRevocationStorage: store, Config: config,
		},
		proof: &pkce.Handler{AuthorizeCodeStrategy: strategy, Storage: store, Config: config},
		refresh: &oauth2.RefreshTokenGrantHandler{
			AccessTokenStrategy: strategy, RefreshTokenStrategy: strategy, TokenRevocationStorage: store, Config: config,
		},
	}
}

// newConfig returns the settings of the handlers. Every field that fosite would otherwise fill in on
// first use is set, because its getters write without a lock.
func newConfig() *fosite.Config {
	return &fosite.Config{
		AccessTokenLifespan:  time.Minute, // not used: the lifetimes are in the unit of work
		RefreshTokenLifespan: time.Minute,
		// OAuth 2.1 section 4.1.1: PKCE for every client, and S256 only.
		EnforcePKCE:                    true,
		EnforcePKCEForPublicClients:    true,
		EnablePKCEPlainChallengeMethod: false,
		RefreshTokenScopes:             []string{}, // not nil: refresh tokens require no scope
		OmitRedirectScopeParam:         true,
		ScopeStrategy:                  fosite.ExactScopeStrategy,
		AudienceMatchingStrategy:       exactAudience,
		RedirectSecureChecker:          func(context.Context, *url.URL) bool { return true }, // matched before
	}
}

// exactAudience replaces fosite's prefix match: resources are compared as a whole.
func exactAudience(allowed, wanted []string) error {
	for _, w := range wanted {
		if !slices.Contains(allowed, w) {
			return &fosite.RFC6749Error{ErrorField: "invalid_target", CodeField: http.StatusBadRequest}
		}
	}
	return nil
}

// issue makes a code. The second handler needs the code of the first one.
func (s steps) issue(ctx context.Context, u *unit) error {
	to, err := url.Parse(u.grant.RedirectURI)
	if err != nil || !fosite.IsValidRedirectURI(to) {
		return fosite.ErrInvalidRequest
	}
	if err := s.code.HandleAuthorizeEndpointRequest(ctx, request{u}, answer{u}); err != nil {
		return err
	}
	return s.proof.HandleAuthorizeEndpointRequest(ctx, request{u}, answer{u})
}

// redeem makes tokens for a code.
func (s steps) redeem(ctx context.Context, u *unit) error {
	if err := s.code.HandleTokenEndpointRequest(ctx, request{u}); err != nil {
		return err
	}
	if err := s.proof.HandleTokenEndpointRequest(ctx, request{u}); err != nil {
		return err
	}
	return s.code.PopulateTokenEndpointResponse(ctx, request{u}, answer{u})
}

// rotate makes tokens for a refresh token.
func (s steps) rotate(ctx context.Context, u *unit) error {
	if err := s.refresh.HandleTokenEndpointRequest(ctx, request{u}); err != nil {
		return err
	}
	return s.refresh.PopulateTokenEndpointResponse(ctx, request{u}, answer{u})
}
