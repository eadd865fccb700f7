package authz

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// refresh answers grant_type=refresh_token (OAuth 2.1 section 4.3). Every token has a
// generation. The current one is rotated. The one before it gets the same successor
// again inside the window, because clients refresh twice and lose answers. An older one,
// or the one before after the window, was stolen or copied: the family ends. A later one
// proves that the store forgot rotations: after a failover that is made good, otherwise
// the family ends. A token that is not genuine, or comes from another client, changes
// nothing.
func (s *Server) refresh(r *http.Request, client storage.Client, f form) (tokenResponse, error) {
	if f.get("refresh_token") == "" {
		return tokenResponse{}, invalidRequest("the parameter refresh_token is missing")
	}
	token, ok := storage.ParseRefreshToken(f.get("refresh_token"))
	if !ok {
		return tokenResponse{}, invalidGrant()
	}
	g, err := s.grant(r, token.GrantID)
	if err != nil {
		return tokenResponse{}, err
	}
	if g.ClientID != client.ID || !s.refreshableNow(g) {
		return tokenResponse{}, invalidGrant()
	}
	genuine, err := s.cfg.Store.Genuine(g, token)
	if err != nil {
		return tokenResponse{}, err
	}
	if !genuine {
		return tokenResponse{}, invalidGrant()
	}
	turn := s.turn(g, token.Generation)
	if turn == turnForgotten {
		g, turn, err = s.remember(r, g, token)
	}
	if err == nil && turn == turnReuse {
		err = s.reused(r, g, token)
	}
	if err != nil {
		return tokenResponse{}, err
	}
	return s.exchangeRefresh(r, client, g, f, token.Generation, turn)
}

func (s *Server) refreshableNow(g storage.Grant) bool {
	now := s.cfg.Now()
	return g.State == storage.GrantActive && g.Refreshable && now.Before(g.IdleExpires) && now.Before(g.Expires)
}

// turn is what a genuine refresh token of a live grant is worth.
type turn int

const (
	turnReuse     turn = iota // the family ends
	turnRotate                // the current token
	turnRepeat                // the one before it, inside the window
	turnForgotten             // one that the store does not know that it issued
)

func (s *Server) turn(g storage.Grant, generation uint32) turn {
	switch {
	case generation == g.Generation:
		return turnRotate
	case generation+1 == g.Generation && s.inWindow(g):
		return turnRepeat
	case generation > g.Generation:
		return turnForgotten
	}
	return turnReuse
}

// remember decides what a token is worth that the store forgot. If a failover explains
// it, the grant is as it was before. A grant whose person is gone is never brought back.
func (s *Server) remember(r *http.Request, g storage.Grant, token storage.RefreshToken) (storage.Grant, turn, error) {
	user, err := s.cfg.Store.User(r.Context(), g.UserName)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return g, turnReuse, err
	}
	if err != nil || user.Disabled || user.Subject != g.Subject {
		return g, turnReuse, nil
	}
	remembered, ok, err := s.cfg.Store.Remember(r.Context(), g, token.Generation)
	if err != nil || !ok {
		return g, turnReuse, err
	}
	s.cfg.Logger.WarnContext(r.Context(), "a failover forgot rotations of a refresh token, they are made good", "grant", g.ID, "client", g.ClientID,
		"sub", g.Subject, "stored", g.Generation, "presented", token.Generation)
	return remembered, turnRotate, nil
}

func (s *Server) inWindow(g storage.Grant) bool {
	return s.cfg.RefreshWindow > 0 && s.cfg.Now().Before(g.Rotated.Add(s.cfg.RefreshWindow))
}

// reused ends the family of a token that should not be in anybody's hands any more. A
// generation that was never issued means that the store forgot a write: that ends the
// family too, and is worth an alarm.
func (s *Server) reused(r *http.Request, g storage.Grant, token storage.RefreshToken) error {
	because := "an old refresh token was used again"
	if token.Generation > g.Generation {
		because = "a refresh token from a forgotten write was used"
		s.cfg.Logger.ErrorContext(quietlog.Always(r.Context()), "the store lost an acknowledged rotation", "grant", g.ID, "stored", g.Generation, "presented", token.Generation)
	}
	if err := s.cfg.Store.Revoke(r.Context(), g.ID, because); err != nil {
		return err
	}
	s.cfg.Logger.WarnContext(quietlog.Always(r.Context()), "refresh token reused, grant revoked", "grant", g.ID, "client", g.ClientID, "sub", g.Subject, "because", because)
	return invalidGrant()
}

// refreshAttempts is how often a refresh begins anew because a resource of its grant ended
// while it went on. A grant loses each resource once.
const refreshAttempts = 16

// exchangeRefresh rotates, or repeats the answer to the token before. When the swap is lost,
// what is there now decides: another request with the same token has written the answer, or
// a resource has ended and this one may go on with the rest. Nothing is revoked on a race.
func (s *Server) exchangeRefresh(r *http.Request, client storage.Client, g storage.Grant, f form, generation uint32, turn turn) (tokenResponse, error) {
	for range refreshAttempts {
		narrowed, err := s.narrow(g, f, f.get("scope"))
		if err != nil {
			return tokenResponse{}, err
		}
		response, err := s.tryRefresh(r, client, g, f, narrowed, turn)
		var lost *engine.LostError
		if !errors.As(err, &lost) {
			return response, err
		}
		g, turn = lost.Current, s.turn(lost.Current, generation)
		if !s.refreshableNow(g) || turn != turnRotate && turn != turnRepeat {
			return tokenResponse{}, exchangeError(err)
		}
	}
	return tokenResponse{}, fmt.Errorf("authz: refresh: %w: the grant kept changing", storage.ErrUnavailable)
}

func (s *Server) tryRefresh(r *http.Request, client storage.Client, g storage.Grant, f form, n narrowed, turn turn) (tokenResponse, error) {
	now := s.cfg.Now()
	x := engine.Exchange{
		Client: client, Grant: g, Audience: n.audience, Scopes: n.scopes, RefreshToken: f.get("refresh_token"),
		Life: s.life(now, g.Expires), Expires: s.accessExpiry(now, g.Expires), Repeat: turn == turnRepeat,
	}
	if !x.Expires.After(now.Truncate(time.Second)) {
		return tokenResponse{}, invalidGrant()
	}
	tokens, err := s.engine.Refresh(r.Context(), x)
	var lost *engine.LostError
	switch {
	case errors.As(err, &lost):
		return tokenResponse{}, err
	case err != nil:
		return tokenResponse{}, exchangeError(err)
	}
	return s.respond(now, x, tokens), nil
}
