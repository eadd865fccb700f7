package authz

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// redeem answers grant_type=authorization_code (OAuth 2.1 section 4.1.3). Everything is
// checked before anything is written: a wrong verifier, redirect URI, client or resource
// burns nothing. Of many redeemers one wins the swap; one that finds the code spent, with
// everything else right, has found a replay and ends the family.
func (s *Server) redeem(r *http.Request, client storage.Client, f form) (tokenResponse, error) {
	code := f.get("code")
	if code == "" {
		return tokenResponse{}, invalidRequest("the parameter code is missing")
	}
	id, ok := storage.CodeGrant(code)
	if !ok {
		return tokenResponse{}, invalidGrant()
	}
	g, err := s.grant(r, id)
	if err != nil {
		return tokenResponse{}, err
	}
	if !presentedRightly(g, client, f) {
		return tokenResponse{}, invalidGrant()
	}
	narrowed, err := s.narrow(g, f, "")
	switch {
	case g.State != storage.GrantCode:
		return tokenResponse{}, s.spent(r, g, err != nil && len(f.all("resource")) > 0)
	case !s.stillRedirects(client, g):
		return tokenResponse{}, invalidGrant()
	case err != nil:
		return tokenResponse{}, err
	}
	return s.exchangeCode(r, client, g, narrowed, f)
}

// stillRedirects reports whether the client has the redirect URI that the code was sent to.
// One that was taken away may be in other hands by now.
func (s *Server) stillRedirects(client storage.Client, g storage.Grant) bool {
	_, err := s.prove(client, g.RedirectURI, "")
	return err == nil
}

// presentedRightly checks what a code is bound to: itself, its client, its redirect URI
// and its PKCE challenge. OAuth 2.1 section 10.2: redirect_uri may be left out here, and
// is compared byte for byte if it is not.
func presentedRightly(g storage.Grant, client storage.Client, f form) bool {
	return g.Code.Matches(f.get("code")) &&
		g.ClientID == client.ID &&
		(f.get("redirect_uri") == "" || f.get("redirect_uri") == g.RedirectURI) &&
		verifies(f.get("code_verifier"), g.Challenge)
}

// verifies checks a PKCE verifier (RFC 7636 sections 4.1 and 4.6).
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 || strings.ContainsFunc(verifier, notUnreserved) {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	computed := base64.RawURLEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(computed), []byte(challenge)) == 1
}

func notUnreserved(c rune) bool { return notBase64URL(c) && c != '.' && c != '~' }

// spent answers a code that is not waiting any more. The family of a replayed code is
// revoked (OAuth 2.1 section 4.1.3), and the client hears invalid_grant only when that
// is certain. Who names a resource that is not of the grant proves nothing, and neither does
// whoever was told 503 before: nobody has tokens then.
func (s *Server) spent(r *http.Request, g storage.Grant, astray bool) error {
	if g.State != storage.GrantActive || g.Unanswered || astray {
		return invalidGrant()
	}
	if err := s.cfg.Store.Revoke(r.Context(), g.ID, "the authorization code was used twice"); err != nil {
		return err
	}
	s.cfg.Logger.WarnContext(quietlog.Always(r.Context()), "authorization code replayed, grant revoked", "grant", g.ID, "client", g.ClientID, "sub", g.Subject)
	return invalidGrant()
}

func (s *Server) exchangeCode(r *http.Request, client storage.Client, g storage.Grant, n narrowed, f form) (tokenResponse, error) {
	now := s.cfg.Now()
	life := s.life(now, now.Add(s.cfg.RefreshMax))
	if !g.Refreshable {
		life.Expires = now.Add(s.cfg.AccessTokenTTL)
	}
	x := engine.Exchange{
		Client: client, Grant: g, Life: life, Audience: n.audience, Scopes: n.scopes,
		Expires: s.accessExpiry(now, life.Expires), Code: f.get("code"), Verifier: f.get("code_verifier"),
	}
	tokens, err := s.engine.Redeem(r.Context(), x)
	if err != nil {
		return tokenResponse{}, exchangeError(err)
	}
	return s.respond(now, x, tokens), nil
}
