// Package engine runs the grants of OAuth 2.1 through fosite. It is the only package that
// imports fosite.
//
// The caller has already decided the request: it has authenticated the client, matched the
// redirect URI, checked PKCE, resources and scopes, and read the grant. The engine calls
// fosite's handlers with a request that is made of those decisions, so client input never reaches
// fosite's own parsing, client authentication, redirect matching, error writing or reuse detection.
// The handlers perform the steps of a grant: the second PKCE check, the tokens, and one commit.
//
// All state of one run is in a unit of work in the context. fosite's many storage calls read
// it or add to it, and exactly one of them, the commit, reaches the store: a compare-and-swap
// of the grant that was read. A lost swap is returned as [LostError], a store that does not
// answer as [storage.ErrUnavailable], whatever error fosite makes of it.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ory/fosite"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// Config configures [New].
type Config struct {
	Store *storage.Store
	Keys  *keyring.Ring
	Now   func() time.Time
	// Signing, if set, is called before an access token is signed, and what it returns afterwards.
	Signing func(ctx context.Context) (end func(error))
}

// Engine runs grants. It is safe for concurrent use.
type Engine struct {
	steps steps
	store *storage.Store
}

// New returns an Engine.
func New(cfg Config) *Engine {
	return &Engine{steps: newSteps(cfg), store: cfg.Store}
}

// LostError means that the grant changed after it was read: another request redeemed, rotated
// or revoked it. It wraps [storage.ErrConflict].
type LostError struct {
	Current storage.Grant // the current record
}

func (e *LostError) Error() string { return "engine: the grant changed meanwhile" }
func (e *LostError) Unwrap() error { return storage.ErrConflict }

// RefusedError means that fosite refused a request that the caller had accepted.
type RefusedError struct {
	Code  string // the OAuth error code that fosite chose
	cause error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("engine: refused: %s: %v", e.Code, e.cause) }
func (e *RefusedError) Unwrap() error { return e.cause }

// Authorization is an authorization request that the person allowed.
type Authorization struct {
	Client storage.Client
	Grant  storage.Grant // prepared, not stored
	Code   string        // the code of Grant
}

// IssueCode stores the grant. After it returns nil, the code may be sent.
func (e *Engine) IssueCode(ctx context.Context, a Authorization) error {
	u := &unit{
		client: newClient(a.Client, a.Grant.RedirectURI, a.Grant.Resources, a.Grant.Scopes), grant: &a.Grant, code: a.Code,
		form: url.Values{"code_challenge": {a.Grant.Challenge}, "code_challenge_method": {"S256"}},
		commit: func(ctx context.Context) (storage.Grant, error) {
			return a.Grant, e.store.CreateGrant(ctx, a.Grant)
		},
	}
	return u.outcome(e.steps.issue(u.withUnit(ctx), u))
}

// Exchange is a token request that the caller has accepted.
type Exchange struct {
	Client storage.Client
	Grant  storage.Grant // as it was read
	// Life is the grant's lifetime after this exchange.
	Life storage.Lifetime
	// Audience and Scopes go into the access token, which ends at Expires.
	Audience []string
	Scopes   []string
	Expires  time.Time
	// About is what the access token tells about the person.
	About keyring.About
	// Repeat issues the current refresh token again and changes nothing. It answers the
	// previous refresh token inside the window.
	Repeat bool

	// Code and Verifier, or RefreshToken, as they were presented.
	Code         string
	Verifier     string
	RefreshToken string
}

// Tokens is the result of an exchange. Refresh is empty for grants without refresh tokens. AccessID
// is the id of the access token ("jti").
type Tokens struct {
	Access   string
	AccessID string
	Refresh  string
}

// Redeem exchanges an authorization code (OAuth 2.1 section 4.1.3).
func (e *Engine) Redeem(ctx context.Context, x Exchange) (Tokens, error) {
	u := x.unit(ofCode, url.Values{
		"code":                  {x.Code},
		"code_verifier":         {x.Verifier},
		"code_challenge":        {x.Grant.Challenge},
		"code_challenge_method": {"S256"},
	}, func(ctx context.Context) (storage.Grant, error) {
		return e.store.Redeem(ctx, x.Grant, x.Life, x.Audience...)
	})
	return u.result(e.steps.redeem(u.withUnit(ctx), u))
}

// Refresh exchanges a refresh token (OAuth 2.1 section 4.3).
func (e *Engine) Refresh(ctx context.Context, x Exchange) (Tokens, error) {
	u := x.unit(ofRefresh, url.Values{
		"refresh_token": {x.RefreshToken},
	}, func(ctx context.Context) (storage.Grant, error) {
		if x.Repeat {
			return e.store.Confirm(ctx, x.Grant)
		}
		return e.store.Rotate(ctx, x.Grant, x.Life)
	})
	if !x.Repeat {
		u.generation++
	}
	return u.result(e.steps.rotate(u.withUnit(ctx), u))
}

// unit returns the unit of work of an exchange, whose write is commit.
func (x *Exchange) unit(grantType fosite.Arguments, form url.Values, commit func(context.Context) (storage.Grant, error)) *unit {
	return &unit{
		client: newClient(x.Client, x.Grant.RedirectURI, x.Audience, x.Scopes), grant: &x.Grant, code: x.Code,
		expires: x.Expires, about: x.About, commit: commit, generation: x.Grant.Generation, grantType: grantType, form: form,
	}
}

// result returns the tokens of an exchange.
func (u *unit) result(err error) (Tokens, error) {
	if err := u.outcome(err); err != nil {
		return Tokens{}, err
	}
	return u.tokens, nil
}

// outcome translates an error of fosite. An error of the store takes precedence: fosite turns
// a lost swap into server_error (code) or invalid_request (refresh).
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
