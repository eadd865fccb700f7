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

	"gatehouse.example/storage"
)

// newProviders configures fosite twice: for codes with two handlers in this order, because the PKCE
// handler needs the code that the first one made, and for refresh tokens with one. In one provider
// each of the three would be asked for each token, and an answer that it is not concerned is an error
// with a trace of the stack. Every field that fosite would otherwise fill in on first use is set
// here, because its getters write without a lock.
func newProviders(cfg Config) (codes, refreshes *fosite.Fosite) {
	store := work{}
	strategy := &strategy{store: cfg.Store, keys: cfg.Keys, now: cfg.Now, begin: cfg.Signing}
	config, refreshing := newConfig(cfg), newConfig(cfg)
	explicit := &oauth2.AuthorizeExplicitGrantHandler{
		AccessTokenStrategy: strategy, RefreshTokenStrategy: strategy, AuthorizeCodeStrategy: strategy,
		CoreStorage: store, TokenRevocationStorage: store, Config: config,
	}
	refresh := &oauth2.RefreshTokenGrantHandler{
		AccessTokenStrategy: strategy, RefreshTokenStrategy: strategy, TokenRevocationStorage: store, Config: refreshing,
	}
	proof := &pkce.Handler{AuthorizeCodeStrategy: strategy, Storage: store, Config: config}
	config.AuthorizeEndpointHandlers.Append(explicit)
	config.AuthorizeEndpointHandlers.Append(proof)
	config.TokenEndpointHandlers.Append(explicit)
	config.TokenEndpointHandlers.Append(proof)
	refreshing.TokenEndpointHandlers.Append(refresh)
	return fosite.NewOAuth2Provider(store, config), fosite.NewOAuth2Provider(store, refreshing)
}

func newConfig(cfg Config) *fosite.Config {
	return &fosite.Config{
		AccessTokenLifespan:  time.Minute, // not used: the lifetimes are in the unit of work
		RefreshTokenLifespan: time.Minute,
		TokenURL:             cfg.TokenURL,
		// OAuth 2.1 section 4.1.1: PKCE for every client, and S256 only.
		EnforcePKCE:                    true,
		EnforcePKCEForPublicClients:    true,
		EnablePKCEPlainChallengeMethod: false,
		RefreshTokenScopes:             []string{}, // not nil: refresh tokens require no scope
		OmitRedirectScopeParam:         true,
		MinParameterEntropy:            1,
		SanitationWhiteList:            []string{"code_challenge", "code_challenge_method"},
		ScopeStrategy:                  fosite.ExactScopeStrategy,
		AudienceMatchingStrategy:       exactAudience,
		RedirectSecureChecker:          func(context.Context, *url.URL) bool { return true }, // matched before
		ClientSecretsHasher:            noHasher{},
		ClientAuthenticationStrategy: func(ctx context.Context, _ *http.Request, _ url.Values) (fosite.Client, error) {
			return unitOf(ctx).client, nil // authenticated before
		},
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

// client is the view of a client in one run: only the redirect URI, resources and scopes that
// were decided on.
type client struct {
	id          string
	public      bool
	grantTypes  []string
	redirectURI string
	resources   []string
	scopes      []string
}

func newClient(c storage.Client, redirectURI string, resources, scopes []string) client {
	return client{id: c.ID, public: c.Metadata.Public(), grantTypes: c.Metadata.GrantTypes, redirectURI: redirectURI, resources: resources, scopes: scopes}
}

func (c client) GetID() string                      { return c.id }
func (c client) GetHashedSecret() []byte            { return nil }
func (c client) GetRedirectURIs() []string          { return []string{c.redirectURI} }
func (c client) GetGrantTypes() fosite.Arguments    { return c.grantTypes }
func (c client) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }
func (c client) GetScopes() fosite.Arguments        { return c.scopes }
func (c client) GetAudience() fosite.Arguments      { return c.resources }
func (c client) IsPublic() bool                     { return c.public }

// session implements fosite.Session without content: the claims of a token come from the unit
// of work.
type session struct{}

func (*session) SetExpiresAt(fosite.TokenType, time.Time)    {}
func (*session) GetExpiresAt(fosite.TokenType) (t time.Time) { return t }
func (*session) GetUsername() string                         { return "" }
func (*session) GetSubject() string                          { return "" }
func (s *session) Clone() fosite.Session                     { return s }
