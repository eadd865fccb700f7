package engine

import (
	"context"
	"strings"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"

	"gatehouse.example/authz/internal/keyring"
	gatehouse "gatehouse.example/storage"
)

// strategy makes the tokens that fosite requests. Presented tokens were already checked when
// the grant was read, so the Validate methods do nothing.
type strategy struct {
	store *gatehouse.Store
	keys  *keyring.Ring
	now   func() time.Time
	begin func(context.Context) (end func(error)) // may be nil
}

var _ oauth2.CoreStrategy = (*strategy)(nil)

func (s *strategy) GenerateAuthorizeCode(ctx context.Context, _ fosite.Requester) (string, string, error) {
	u := unitOf(ctx)
	return u.code, u.grant.ID, nil
}

// GenerateAccessToken makes an RFC 9068 token: aud contains exactly the resources that were
// requested and allowed, sub is an opaque id, and iat and jti are new each time.
func (s *strategy) GenerateAccessToken(ctx context.Context, _ fosite.Requester) (string, string, error) {
	u := unitOf(ctx)
	id, err := s.store.NewID()
	if err != nil {
		return "", "", err
	}
	u.tokens.AccessID = id
	end := s.signs(ctx)
	token, err := s.keys.Sign(keyring.Claims{
		Subject: u.grant.Subject, Audience: u.client.resources, ClientID: u.client.id,
		Scope: strings.Join(u.client.scopes, " "), ID: id, GrantID: u.grant.ID,
		IssuedAt: s.now().Unix(), Expires: u.expires.Unix(), AuthTime: u.grant.AuthTime.Unix(),
		About: u.about,
	})
	end(err)
	return token, id, err
}

// signs returns a function to call after a signature.
func (s *strategy) signs(ctx context.Context) (end func(error)) {
	if s.begin == nil {
		return func(error) {}
	}
	return s.begin(ctx)
}

// GenerateRefreshToken derives the refresh token of the unit's generation.
func (s *strategy) GenerateRefreshToken(ctx context.Context, _ fosite.Requester) (string, string, error) {
	u := unitOf(ctx)
	token, err := s.store.RefreshTokenOf(*u.grant, u.generation)
	return token, u.grant.ID, err
}

func (*strategy) AuthorizeCodeSignature(_ context.Context, token string) string { return token }
func (*strategy) AccessTokenSignature(_ context.Context, token string) string   { return token }
func (*strategy) RefreshTokenSignature(_ context.Context, token string) string  { return token }

func (*strategy) ValidateAuthorizeCode(context.Context, fosite.Requester, string) error { return nil }
func (*strategy) ValidateRefreshToken(context.Context, fosite.Requester, string) error  { return nil }
func (*strategy) ValidateAccessToken(context.Context, fosite.Requester, string) error {
	return errUnreachable
}
