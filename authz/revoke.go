package authz

import (
	"errors"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// revoke handles POST /revoke (RFC 7009). A refresh token ends the whole grant, and so does
// an access token if the client authenticates. Every resource sees access tokens and the id
// of a public client, so without authentication an access token ends only its own resource in
// the grant, and the grant if that was the last one; a token for several resources is
// refused.
//
// The answer is 200 when the token is not valid any more: its end is recorded, or this server
// never issued it (section 2.2). For an authorization code, which is not a token, the answer
// is 200 and nothing happens. A token of another client is refused and not changed (section
// 2.1). While the store cannot be read or written, the answer is 503, and the client must
// assume that the token still exists (section 2.2.1).
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	f, err := revokeForm.body(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticate(r, f, s.urls.revoke, forNothing)
	if err != nil {
		return err
	}
	if f.get("token") == "" {
		return invalidRequest("the parameter token is missing")
	}
	if err := s.endToken(r, client, f); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// endToken ends what the token of a form stands for. One that this server does not know has ended.
func (s *Server) endToken(r *http.Request, client storage.Client, f form) (err error) {
	r, end := s.part(r, PartRevoke)
	defer func() { end(err) }()
	held, err := s.grantOf(r, f.get("token"))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	case held.clientID != client.ID:
		return refuse(codeInvalidGrant, "the token was issued to another client")
	}
	return s.endGrant(r, held, authenticated(client, f))
}

// authenticated reports whether the client of a form proved its identity, beyond naming
// itself.
func authenticated(client storage.Client, f form) bool {
	return !dcr.Public(client) || f.get("client_assertion") != ""
}

// tokenGrant identifies the grant of a genuine token.
type tokenGrant struct {
	grantID, clientID, subject string
	refresh                    bool
	audience                   []string // of an access token
}

// endGrant revokes the grant of a token, or ends the token's resource in it.
func (s *Server) endGrant(r *http.Request, h tokenGrant, authenticated bool) error {
	switch {
	case h.refresh || authenticated:
		if err := s.cfg.Store.Revoke(r.Context(), h.grantID, "revoked by the client"); err != nil {
			return err
		}
		s.happened(r.Context(), fact{kind: audit.GrantRevoked, by: audit.ByClient, person: h.subject, client: h.clientID, grant: h.grantID})
		s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "grant revoked by the client", "grant", h.grantID, "client", h.clientID)
	case len(h.audience) != 1:
		return invalidRequest("an access token for several resources does not say which of them to end; revoke the refresh token, or a token for one resource")
	default:
		if err := s.cfg.Store.EndResource(r.Context(), h.grantID, h.audience[0], "its last resource was ended with an access token"); err != nil {
			return err
		}
		s.happened(r.Context(), fact{kind: audit.ResourceEnded, person: h.subject, client: h.clientID, grant: h.grantID, resources: h.audience})
		s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "resource of a grant ended with an access token", "grant", h.grantID, "client", h.clientID, "resource", h.audience[0])
	}
	return nil
}

// grantOf returns the grant of a genuine refresh or access token, or [storage.ErrNotFound].
func (s *Server) grantOf(r *http.Request, token string) (tokenGrant, error) {
	if refresh, ok := storage.ParseRefreshToken(token); ok {
		g, err := s.cfg.Store.Grant(r.Context(), refresh.GrantID)
		if err != nil {
			return tokenGrant{}, err
		}
		genuine, err := s.cfg.Store.Genuine(g, refresh)
		over := g.State == storage.GrantRevoked && errors.Is(err, storage.ErrRecord) // its master key may be gone
		if over || err == nil && !genuine {
			err = storage.ErrNotFound
		}
		return tokenGrant{grantID: g.ID, clientID: g.ClientID, subject: g.Subject, refresh: true}, err
	}
	claims, err := s.keys.Verify(token)
	if errors.Is(err, keyring.ErrToken) {
		err = storage.ErrNotFound
	}
	return tokenGrant{grantID: claims.GrantID, clientID: claims.ClientID, subject: claims.Subject, audience: claims.Audience}, err
}
