// Package engine runs the grants of OAuth 2.1 through fosite, and is the only place
// that knows fosite.
//
// The caller has normalised the request and decided it: the client is authenticated,
// the redirect URI matched, PKCE, resources and scopes checked, the grant read. The
// engine hands fosite a request made from those decisions, so that none of its own
// parsing, client authentication, redirect matching, error writing or reuse detection
// is ever reached by what a stranger sent. What is left to it is the order of a grant:
// the second PKCE check, the tokens, and one commit.
//
// All state of one run travels in a unit of work in the context. fosite's many storage
// calls read it or add to it, and exactly one of them, the commit, reaches the store:
// a compare-and-swap of the grant that was read. A lost swap comes back as
// [LostError], a store that does not answer as [storage.ErrUnavailable], whatever
// fosite makes of either.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ory/fosite"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Config configures [New].
type Config struct {
	Store *storage.Store
	Keys  *keyring.Ring
	// TokenURL is the token endpoint.
	TokenURL string
	Now      func() time.Time
}

// Engine runs grants. It is safe for concurrent use.
type Engine struct {
	provider *fosite.Fosite
	store    *storage.Store
	now      func() time.Time
}

// New returns an Engine.
func New(cfg Config) *Engine {
	return &Engine{provider: newProvider(cfg), store: cfg.Store, now: cfg.Now}
}

// LostError says that the grant changed after it was read: another request redeemed,
// rotated or revoked it. It wraps [storage.ErrConflict].
type LostError struct {
	Current storage.Grant // what is there now
}

func (e *LostError) Error() string { return "engine: the grant changed meanwhile" }
func (e *LostError) Unwrap() error { return storage.ErrConflict }

// RefusedError says that fosite refused what the caller had let through.
type RefusedError struct {
	Code  string // the OAuth error code that fosite chose
	cause error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("engine: refused: %s: %v", e.Code, e.cause) }
func (e *RefusedError) Unwrap() error { return e.cause }

// Authorization is a decided authorization request: the person has said yes.
type Authorization struct {
	Client storage.Client
	Grant  storage.Grant // prepared, not stored
	Code   string        // the code of Grant
}

// IssueCode stores the grant and returns nil when its code may be sent.
func (e *Engine) IssueCode(ctx context.Context, a Authorization) error {
	u := &unit{
		client: newClient(a.Client, a.Grant.RedirectURI, a.Grant.Resources, a.Grant.Scopes), grant: a.Grant, code: a.Code,
		commit: func(ctx context.Context) (storage.Grant, error) {
			return a.Grant, e.store.CreateGrant(ctx, a.Grant)
		},
	}
	ctx = u.within(ctx)
	request, err := e.provider.NewAuthorizeRequest(ctx, authorizeForm(u))
	if err != nil {
		return u.outcome(err)
	}
	for _, scope := range u.client.scopes {
		request.GrantScope(scope)
	}
	for _, resource := range u.client.resources {
		request.GrantAudience(resource)
	}
	_, err = e.provider.NewAuthorizeResponse(ctx, request, &session{})
	return u.outcome(err)
}

// authorizeForm is the request as fosite wants to read it, made from decisions. The
// state is a placeholder: fosite refuses requests without one, and ours never passes
// through it.
func authorizeForm(u *unit) *http.Request {
	return &http.Request{Method: http.MethodGet, Header: http.Header{}, Form: url.Values{
		"client_id":             {u.client.id},
		"response_type":         {"code"},
		"redirect_uri":          {u.grant.RedirectURI},
		"scope":                 {strings.Join(u.client.scopes, " ")},
		"audience":              u.client.resources,
		"state":                 {"-"},
		"code_challenge":        {u.grant.Challenge},
		"code_challenge_method": {"S256"},
	}}
}

// Exchange is a decided token request.
type Exchange struct {
	Client storage.Client
	Grant  storage.Grant // as it was read
	// Life is the grant's lifetime after this exchange.
	Life storage.Lifetime
	// Audience and Scopes go into the access token, which ends at Expires.
	Audience []string
	Scopes   []string
	Expires  time.Time
	// Repeat hands out the current refresh token again and changes nothing: the answer to
	// the previous refresh token inside the window.
	Repeat bool

	// Code and Verifier, or RefreshToken, as they were presented.
	Code         string
	Verifier     string
	RefreshToken string
}

// Tokens are what an exchange gives. Refresh is empty for grants without refresh tokens.
type Tokens struct {
	Access  string
	Refresh string
}

// Redeem exchanges an authorization code (OAuth 2.1 section 4.1.3).
func (e *Engine) Redeem(ctx context.Context, x Exchange) (Tokens, error) {
	return e.exchange(ctx, x, url.Values{
		"grant_type":    {metadata.GrantAuthorizationCode},
		"code":          {x.Code},
		"code_verifier": {x.Verifier},
	}, func(ctx context.Context) (storage.Grant, error) {
		return e.store.Redeem(ctx, x.Grant, x.Life, x.Audience...)
	})
}

// Refresh exchanges a refresh token (OAuth 2.1 section 4.3).
func (e *Engine) Refresh(ctx context.Context, x Exchange) (Tokens, error) {
	return e.exchange(ctx, x, url.Values{
		"grant_type":    {metadata.GrantRefreshToken},
		"refresh_token": {x.RefreshToken},
	}, func(ctx context.Context) (storage.Grant, error) {
		if x.Repeat {
			return e.store.Confirm(ctx, x.Grant)
		}
		return e.store.Rotate(ctx, x.Grant, x.Life)
	})
}

func (e *Engine) exchange(ctx context.Context, x Exchange, form url.Values, commit func(context.Context) (storage.Grant, error)) (Tokens, error) {
	u := &unit{
		client: newClient(x.Client, x.Grant.RedirectURI, x.Audience, x.Scopes), grant: x.Grant, code: x.Code,
		expires: x.Expires, commit: commit,
		generation: x.Grant.Generation,
	}
	if x.RefreshToken != "" && !x.Repeat {
		u.generation++
	}
	ctx = u.within(ctx)
	request := &http.Request{Method: http.MethodPost, Header: http.Header{}, Form: form, PostForm: form}
	access, err := e.provider.NewAccessRequest(ctx, request, &session{})
	if err != nil {
		return Tokens{}, u.outcome(err)
	}
	response, err := e.provider.NewAccessResponse(ctx, access)
	if err := u.outcome(err); err != nil {
		return Tokens{}, err
	}
	refresh, _ := response.GetExtra("refresh_token").(string)
	return Tokens{Access: response.GetAccessToken(), Refresh: refresh}, nil
}

// outcome translates what fosite returned. What the store said wins: fosite turns a
// lost swap into server_error (code) or invalid_request (refresh).
func (u *unit) outcome(err error) error {
	switch {
	case u.failure != nil:
		return u.failure
	case err == nil && !u.committed:
		return errors.New("engine: nothing was committed")
	case err == nil:
		return nil
	}
	refused := fosite.ErrorToRFC6749Error(err)
	return &RefusedError{Code: refused.ErrorField, cause: err}
}
