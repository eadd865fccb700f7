package authz

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/authz/internal/people"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// refresh handles grant_type=refresh_token (OAuth 2.1 section 4.3). Every refresh token has a
// generation. The current one is rotated. The previous one gets the same successor again
// inside the window, because clients refresh twice and lose answers. An older one, or the
// previous one after the window, was stolen or copied: the family ends. A later one proves
// that the store lost rotations: after a failover they are recovered, otherwise the family
// ends. A token that is not genuine, or comes from another client, changes nothing.
func (s *Server) refresh(r *http.Request, set *resourceSet, client storage.Client, f form, reads *grantReads) (_ tokenResponse, err error) {
	r, end := s.part(r, PartRefresh)
	defer func() { end(err) }()
	if f.get("refresh_token") == "" {
		return tokenResponse{}, invalidRequest("the parameter refresh_token is missing")
	}
	token, ok := storage.ParseRefreshToken(f.get("refresh_token"))
	if !ok {
		return tokenResponse{}, invalidGrant()
	}
	g, holder, err := reads.grant(r.Context(), set, token.GrantID)
	if err != nil {
		return tokenResponse{}, err
	}
	if g.ClientID != client.ID || !s.refreshableNow(g) {
		if err := s.genuine(r, g, token); err != nil {
			return tokenResponse{}, err
		}
		return tokenResponse{}, s.refuseEnded(r.Context(), client, g)
	}
	if err := s.genuine(r, g, token); err != nil {
		return tokenResponse{}, err
	}
	turn := s.classify(g, token.Generation)
	if turn == refreshForgotten {
		g, turn, err = s.recoverRotations(r, g, token)
	}
	if err == nil && turn == refreshReuse {
		err = s.revokeReused(r, g, token)
	}
	if err != nil {
		return tokenResponse{}, err
	}
	return s.exchangeRefresh(r, set, client, g, holder, f, token.Generation, turn)
}

// genuine returns an error unless this server made a token for the grant, and notes the grant if it
// did.
func (s *Server) genuine(r *http.Request, g storage.Grant, token storage.RefreshToken) error {
	genuine, err := s.cfg.Store.Genuine(g, token)
	switch {
	case err != nil:
		return err
	case !genuine:
		return invalidGrant()
	}
	sawGrantOf(r.Context(), g)
	return nil
}

func (s *Server) refreshableNow(g storage.Grant) bool {
	now := s.cfg.Now()
	return g.State == storage.GrantActive && g.Refreshable && now.Before(g.IdleExpires) && now.Before(g.Expires)
}

// refreshKind classifies a genuine refresh token of a live grant by its generation.
type refreshKind int

const (
	refreshReuse     refreshKind = iota // an old one: the family ends
	refreshRotate                       // the current token
	refreshRepeat                       // the previous token, inside the window
	refreshForgotten                    // one later than the store's record
)

func (s *Server) classify(g storage.Grant, generation uint32) refreshKind {
	switch {
	case generation == g.Generation:
		return refreshRotate
	case generation+1 == g.Generation && s.inWindow(g):
		return refreshRepeat
	case generation > g.Generation:
		return refreshForgotten
	}
	return refreshReuse
}

// recoverRotations handles a token of rotations that the store lost. If a failover or a backup explains
// the loss, it restores the grant. It never restores a grant whose person is disabled or
// removed.
func (s *Server) recoverRotations(r *http.Request, g storage.Grant, token storage.RefreshToken) (storage.Grant, refreshKind, error) {
	user, err := s.cfg.Store.User(r.Context(), g.UserName)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return g, refreshReuse, err
	}
	if err != nil || user.Disabled || user.Subject != g.Subject {
		return g, refreshReuse, nil
	}
	remembered, ok, err := s.cfg.Store.Remember(r.Context(), g, token.Generation)
	if err != nil || !ok {
		return g, refreshReuse, err
	}
	s.happened(r.Context(), ofGrant(audit.RefreshRecovered, g))
	s.cfg.Logger.WarnContext(r.Context(), "rotations of a refresh token were lost, by a failover or since a backup, and are restored", "grant", g.ID, "client", g.ClientID,
		"sub", g.Subject, "stored", g.Generation, "presented", token.Generation)
	return remembered, refreshRotate, nil
}

func (s *Server) inWindow(g storage.Grant) bool {
	return s.cfg.RefreshWindow > 0 && s.cfg.Now().Before(g.Rotated.Add(s.cfg.RefreshWindow))
}

// revokeReused ends the family of a token that no client should hold any more. A generation
// that was never issued means that the store lost a write: that ends the family too, and is
// logged as an error.
func (s *Server) revokeReused(r *http.Request, g storage.Grant, token storage.RefreshToken) error {
	because := "an old refresh token was used again"
	if token.Generation > g.Generation {
		because = "a refresh token from a forgotten write was used"
		s.cfg.Logger.ErrorContext(quietlog.Always(r.Context()), "the store lost an acknowledged rotation", "grant", g.ID, "stored", g.Generation, "presented", token.Generation)
	}
	if err := s.cfg.Store.Revoke(r.Context(), g.ID, because); err != nil {
		return err
	}
	reused := ofGrant(audit.RefreshReused, g)
	reused.shown, reused.about = eventTokenReused, cmp.Or(g.ClientName, hostOfClient(s.clients.Known(g.ClientID)))
	s.happened(r.Context(), reused)
	s.cfg.Logger.WarnContext(quietlog.Always(r.Context()), "refresh token reused, grant revoked", "grant", g.ID, "client", g.ClientID, "sub", g.Subject, "because", because)
	return invalidGrant()
}

// refreshAttempts is the greatest number of attempts of a refresh when resources of its grant
// end meanwhile. A grant loses each resource once.
const refreshAttempts = 16

// exchangeRefresh rotates the token, or repeats the previous answer. When the swap is lost,
// the current record decides: another request with the same token has written the answer, or
// a resource has ended and this request may go on with the rest. A race does not revoke
// anything.
func (s *Server) exchangeRefresh(r *http.Request, set *resourceSet, client storage.Client, g storage.Grant, holder people.Holder, f form, generation uint32, turn refreshKind) (tokenResponse, error) {
	for range refreshAttempts {
		narrowed, err := set.narrow(g, holder, f, f.get("scope"))
		if err != nil {
			return tokenResponse{}, err
		}
		response, err := s.tryRefresh(r, client, g, f, narrowed, turn)
		var lost *engine.LostError
		if !errors.As(err, &lost) {
			return response, err
		}
		g, turn = lost.Current, s.classify(lost.Current, generation)
		if !s.refreshableNow(g) || turn != refreshRotate && turn != refreshRepeat {
			return tokenResponse{}, exchangeError(err)
		}
	}
	return tokenResponse{}, fmt.Errorf("authz: refresh: %w: the grant kept changing", storage.ErrUnavailable)
}

func (s *Server) tryRefresh(r *http.Request, client storage.Client, g storage.Grant, f form, n narrowed, turn refreshKind) (tokenResponse, error) {
	now := s.cfg.Now()
	x := engine.Exchange{
		Client: client, Grant: g, Audience: n.audience, Scopes: n.scopes, About: n.about, RefreshToken: f.get("refresh_token"),
		Life: s.lifetime(now, g.Expires), Expires: s.accessExpiry(now, g.Expires), Repeat: turn == refreshRepeat,
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
	if x.Repeat {
		s.happened(r.Context(), ofGrant(audit.RefreshRepeated, g))
	}
	s.issued(r, audit.TokenRefreshed, x, tokens)
	return s.respond(now, x, tokens), nil
}
