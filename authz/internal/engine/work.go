package engine

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/pkce"
	"github.com/ory/fosite/storage"

	"gatehouse.example/authz/internal/keyring"
	gatehouse "gatehouse.example/storage"
)

// unit is the state of one run: the decisions of the caller, and the outcome of the commit.
type unit struct {
	client client
	grant  *gatehouse.Grant
	code   string

	expires    time.Time
	about      keyring.About
	generation uint32 // of the refresh token to hand out
	tokens     Tokens // that were made

	grantType fosite.Arguments
	form      url.Values // what fosite reads of the request and of the stored authorization

	commit    func(context.Context) (gatehouse.Grant, error)
	committed bool
	failure   error
}

type unitKey struct{}

func (u *unit) withUnit(ctx context.Context) context.Context {
	return context.WithValue(ctx, unitKey{}, u)
}

func unitOf(ctx context.Context) *unit { return ctx.Value(unitKey{}).(*unit) }

// run commits once and records the outcome.
func (u *unit) run(ctx context.Context) error {
	current, err := u.commit(ctx)
	u.committed = err == nil
	switch {
	case errors.Is(err, gatehouse.ErrConflict):
		u.failure = &LostError{Current: current}
	case err != nil:
		u.failure = err
	}
	return u.failure
}

// work implements fosite's storage. Reads come from the unit of work; writes become part of
// its one commit.
type work struct{}

var (
	_ oauth2.CoreStorage            = work{}
	_ oauth2.TokenRevocationStorage = work{}
	_ pkce.PKCERequestStorage       = work{}
	_ storage.Transactional         = work{}
)

var errUnreachable = errors.New("engine: this is decided before fosite runs")

// CreateAuthorizeCodeSession is the commit of an authorization: the grant is stored
// with its challenge in it, so there is no second PKCE record to lose or to burn.
func (work) CreateAuthorizeCodeSession(ctx context.Context, _ string, _ fosite.Requester) error {
	return unitOf(ctx).run(ctx)
}

func (work) GetAuthorizeCodeSession(ctx context.Context, _ string, _ fosite.Session) (fosite.Requester, error) {
	return request{unitOf(ctx)}, nil
}

func (work) GetPKCERequestSession(ctx context.Context, _ string, _ fosite.Session) (fosite.Requester, error) {
	return request{unitOf(ctx)}, nil
}

func (work) GetRefreshTokenSession(ctx context.Context, _ string, _ fosite.Session) (fosite.Requester, error) {
	return request{unitOf(ctx)}, nil
}

// Commit is the one write of an exchange.
func (work) Commit(ctx context.Context) error                     { return unitOf(ctx).run(ctx) }
func (work) BeginTX(ctx context.Context) (context.Context, error) { return ctx, nil }
func (work) Rollback(context.Context) error                       { return nil }

// These are parts of the commit: spending the code, rotating and recording tokens are
// one swap of one record, and access tokens are not stored at all.
func (work) InvalidateAuthorizeCodeSession(context.Context, string) error { return nil }
func (work) RotateRefreshToken(context.Context, string, string) error     { return nil }
func (work) CreateAccessTokenSession(context.Context, string, fosite.Requester) error {
	return nil
}
func (work) CreateRefreshTokenSession(context.Context, string, string, fosite.Requester) error {
	return nil
}
func (work) CreatePKCERequestSession(context.Context, string, fosite.Requester) error { return nil }
func (work) DeletePKCERequestSession(context.Context, string) error                   { return nil }

// fosite does not call these methods: reuse, revocation and introspection are decided before it runs.
func (work) GetAccessTokenSession(context.Context, string, fosite.Session) (fosite.Requester, error) {
	return nil, errUnreachable
}
func (work) DeleteAccessTokenSession(context.Context, string) error  { return errUnreachable }
func (work) DeleteRefreshTokenSession(context.Context, string) error { return errUnreachable }
func (work) RevokeRefreshToken(context.Context, string) error        { return errUnreachable }
func (work) RevokeAccessToken(context.Context, string) error         { return errUnreachable }
