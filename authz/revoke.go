package authz

import (
	"errors"
	"net/http"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// revoke is POST /revoke (RFC 7009). Revoking a refresh token or an access token ends
// the whole grant. The answer is 200 when nothing of the token is valid any more: it was
// revoked and that is on record, or it was never ours (section 2.2). An authorization
// code is no token: the answer is 200 and nothing happens. A token of another client is
// refused and left alone (section 2.1). While the store cannot tell, the answer is 503,
// and the client must assume that the token lives (section 2.2.1).
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	f, err := revokeGuard.body(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticate(r, f, s.urls.revoke)
	if err != nil {
		return err
	}
	if f.get("token") == "" {
		return invalidRequest("the parameter token is missing")
	}
	id, clientID, err := s.grantOf(r, f.get("token"))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		w.WriteHeader(http.StatusOK)
		return nil
	case err != nil:
		return err
	case clientID != client.ID:
		return refuse(codeInvalidGrant, "the token was issued to another client")
	}
	if err := s.cfg.Store.Revoke(r.Context(), id, "revoked by the client"); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(r.Context(), "grant revoked by the client", "grant", id, "client", client.ID)
	w.WriteHeader(http.StatusOK)
	return nil
}

// grantOf returns the grant that a genuine refresh or access token belongs to and the
// client it was issued to, or [storage.ErrNotFound].
func (s *Server) grantOf(r *http.Request, token string) (id, clientID string, err error) {
	if refresh, ok := storage.ParseRefreshToken(token); ok {
		g, err := s.cfg.Store.Grant(r.Context(), refresh.GrantID)
		if err != nil {
			return "", "", err
		}
		genuine, err := s.cfg.Store.Genuine(g, refresh)
		over := g.State == storage.GrantRevoked && errors.Is(err, storage.ErrRecord) // its master key may be gone
		if over || err == nil && !genuine {
			err = storage.ErrNotFound
		}
		return g.ID, g.ClientID, err
	}
	claims, err := s.keys.Verify(token)
	if errors.Is(err, keyring.ErrToken) {
		err = storage.ErrNotFound
	}
	return claims.GrantID, claims.ClientID, err
}
