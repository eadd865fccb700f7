package authz

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/appendjson"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// tokenResponse is the answer of the token endpoint (OAuth 2.1 section 3.2.3).
type tokenResponse struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope"`
}

// token handles POST /token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) error {
	f, err := tokenForm.body(w, r)
	if err != nil {
		return err
	}
	kind, grant := f.get("grant_type"), s.redeem
	switch kind {
	case metadata.GrantAuthorizationCode:
	case metadata.GrantRefreshToken:
		grant = s.refresh
	case "":
		return invalidRequest("the parameter grant_type is missing")
	default:
		return refuse(codeUnsupportedGrantType, "grant_type must be authorization_code or refresh_token")
	}
	sawGrant(r, kind)
	reads := &grantReads{of: s.people, form: f}
	client, err := s.authenticate(r, f, s.urls.token, reads.ask)
	if err != nil {
		return err
	}
	sawClient(r.Context(), client.ID)
	if err := s.clientLimit(r, client); err != nil {
		return err
	}
	if client, err = s.grantType(r.Context(), client, kind); err != nil {
		return err
	}
	response, err := grant(r, s.resources.take(r.Context()), client, f, reads)
	if err != nil {
		return err
	}
	s.chores.clientUsed(client)
	writeBody(w, http.StatusOK, response.append(make([]byte, 0, 1024)))
	return nil
}

// grantType returns the client if it has a grant type, by now at the latest.
func (s *Server) grantType(ctx context.Context, client storage.Client, kind string) (_ storage.Client, err error) {
	if !slices.Contains(client.Metadata.GrantTypes, kind) {
		if client, err = s.newer(ctx, client); err != nil {
			return client, err
		}
	}
	if !slices.Contains(client.Metadata.GrantTypes, kind) {
		return client, refuse(codeUnauthorizedClient, "the client did not register the grant type %s", kind)
	}
	return client, nil
}

// newer returns a client that has authenticated as it is now: see [dcr.Clients.Renew]. It returns
// the same client if it has not changed, or if it would have to authenticate in another way now.
func (s *Server) newer(ctx context.Context, client storage.Client) (storage.Client, error) {
	newer, err := s.clients.Renew(ctx, client)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !authenticatesAs(newer, client) {
		return client, nil
	}
	return newer, err
}

// authenticatesAs reports whether a client authenticates now as it did before.
func authenticatesAs(now, before storage.Client) bool {
	return !now.Disabled && bytes.Equal(now.Secret, before.Secret) && slices.Equal(dcr.AuthMethods(now), dcr.AuthMethods(before))
}

// append appends the answer as encoding/json writes it.
func (t tokenResponse) append(dst []byte) []byte {
	dst = appendjson.String(append(dst, `{"access_token":`...), t.AccessToken)
	dst = appendjson.String(append(dst, `,"token_type":`...), t.TokenType)
	dst = strconv.AppendInt(append(dst, `,"expires_in":`...), t.ExpiresIn, 10)
	if t.RefreshToken != "" {
		dst = appendjson.String(append(dst, `,"refresh_token":`...), t.RefreshToken)
	}
	dst = appendjson.String(append(dst, `,"scope":`...), t.Scope)
	return append(dst, '}')
}

// accessExpiry returns the end of an access token issued now: after its own lifetime, and
// never later than the grant. Times in tokens are whole seconds.
func (s *Server) accessExpiry(now, grantExpires time.Time) time.Time {
	expires := now.Add(s.cfg.AccessTokenTTL)
	if expires.After(grantExpires) {
		expires = grantExpires
	}
	return expires.Truncate(time.Second)
}

// lifetime returns the lifetime of a grant whose code is redeemed, or refresh token rotated,
// at now.
func (s *Server) lifetime(now, expires time.Time) storage.Lifetime {
	return storage.Lifetime{
		Expires:     expires,
		IdleExpires: now.Add(s.cfg.RefreshIdle),
		AccessUntil: now.Add(s.cfg.AccessTokenTTL + max(s.cfg.RefreshWindow, 0)),
	}
}

func (s *Server) respond(now time.Time, x engine.Exchange, tokens engine.Tokens) tokenResponse {
	return tokenResponse{
		AccessToken: tokens.Access, TokenType: "Bearer", RefreshToken: tokens.Refresh,
		ExpiresIn: int64(x.Expires.Sub(now.Truncate(time.Second)).Seconds()), Scope: strings.Join(x.Scopes, " "),
	}
}

// exchangeError translates the error of an exchange. A lost swap, a record that ended
// meanwhile and a code from before a failover are invalid_grant. So is every refusal by the
// engine, because its input was already checked.
func exchangeError(err error) error {
	var refused *engine.RefusedError
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrLineage) || (errors.As(err, &refused) && refused.Code != codeServerError) {
		e := invalidGrant()
		e.cause = err
		return e
	}
	return err
}

// refuseEnded returns the refusal of a genuine code or token whose grant has ended. It is invalid_client
// if the grant has ended with its client, which this process may still remember: a client that is told
// invalid_grant sends its person to a page that does not know it (RFC 6749 section 5.2).
func (s *Server) refuseEnded(ctx context.Context, client storage.Client, g storage.Grant) error {
	if g.State != storage.GrantRevoked || g.ClientID != client.ID {
		return invalidGrant()
	}
	now, err := s.clients.Current(ctx, client.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && now.Disabled:
		return notTheClient()
	case err != nil:
		return err
	}
	return invalidGrant()
}

// invalidGrant returns the same error for every reason, so that it reveals nothing.
func invalidGrant() *apiError {
	return refuse(codeInvalidGrant, "the code or refresh token is not valid: it is unknown, expired, revoked, already used, or belongs to another client, redirect URI or code_verifier")
}
