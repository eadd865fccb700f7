package authz

import (
	"net/http"
	"strings"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// redeem handles grant_type=authorization_code (OAuth 2.1 section 4.1.3). It checks
// everything before it writes anything: a wrong verifier, redirect URI, client or resource
// does not use up the code. Of several concurrent requests one wins the swap. A request with
// a used code, and with everything else right, is a replay and ends the family.
func (s *Server) redeem(r *http.Request, set *resourceSet, client storage.Client, f form, reads *grantReads) (_ tokenResponse, err error) {
	r, end := s.part(r, PartRedeem)
	defer func() { end(err) }()
	code := f.get("code")
	if code == "" {
		return tokenResponse{}, invalidRequest("the parameter code is missing")
	}
	id, ok := storage.CodeGrant(code)
	if !ok {
		return tokenResponse{}, invalidGrant()
	}
	g, holder, err := reads.grant(r.Context(), set, id)
	if err != nil {
		return tokenResponse{}, err
	}
	if !codeMatches(g, client, f) {
		return tokenResponse{}, invalidGrant()
	}
	sawGrantOf(r.Context(), g)
	narrowed, err := set.narrow(g, holder, f, "")
	switch {
	case g.State == storage.GrantRevoked:
		return tokenResponse{}, s.refuseEnded(r.Context(), client, g)
	case g.State != storage.GrantCode:
		return tokenResponse{}, s.refuseSpentCode(r, g, isRefusal(err, codeInvalidTarget) && len(f.all("resource")) > 0)
	case !s.stillRedirects(client, g):
		return s.redeemAnew(r, set, client, f)
	case err != nil:
		return tokenResponse{}, err
	}
	return s.exchangeCode(r, client, g, narrowed, f)
}

// redeemAnew redeems a code whose redirect URI the client does not have, if it has it now. Reading a
// document takes time, so the grant is read again as well.
func (s *Server) redeemAnew(r *http.Request, set *resourceSet, client storage.Client, f form) (tokenResponse, error) {
	newer, err := s.newer(r.Context(), client)
	if err == nil && dcr.Digest(newer) == dcr.Digest(client) {
		err = invalidGrant()
	}
	if err != nil {
		return tokenResponse{}, err
	}
	return s.redeem(r, set, newer, f, &grantReads{of: s.people, form: f})
}

// stillRedirects reports whether the client still has the redirect URI that the code was sent
// to. A third party may control one that was removed.
func (s *Server) stillRedirects(client storage.Client, g storage.Grant) bool {
	_, err := s.prove(client, g.RedirectURI, "")
	return err == nil
}

// codeMatches checks what a code is bound to: its value, its client, its redirect URI and its
// PKCE challenge. OAuth 2.1 section 10.2: redirect_uri is optional here, and is compared byte
// for byte if present.
func codeMatches(g storage.Grant, client storage.Client, f form) bool {
	verifier := f.get("code_verifier")
	return isVerifier(verifier) && g.ProvedBy(f.get("code"), verifier) &&
		g.ClientID == client.ID &&
		(f.get("redirect_uri") == "" || f.get("redirect_uri") == g.RedirectURI)
}

// isVerifier reports whether a PKCE verifier is well-formed (RFC 7636 section 4.1).
func isVerifier(verifier string) bool {
	return len(verifier) >= 43 && len(verifier) <= 128 && !strings.ContainsFunc(verifier, notUnreserved)
}

func notUnreserved(c rune) bool { return notBase64URL(c) && c != '.' && c != '~' }

// refuseSpentCode refuses a code that is not waiting for redemption. It revokes the family of
// a replayed code (OAuth 2.1 section 4.1.3), and returns invalid_grant only when the
// revocation is certain. A request that names a resource outside the grant (wrongResource) is
// no proof of a replay. Neither is a request after one that was answered 503: no client has
// tokens of that grant.
func (s *Server) refuseSpentCode(r *http.Request, g storage.Grant, wrongResource bool) error {
	if g.State != storage.GrantActive || g.Unanswered || wrongResource {
		return invalidGrant()
	}
	if err := s.cfg.Store.Revoke(r.Context(), g.ID, "the authorization code was used twice"); err != nil {
		return err
	}
	s.happened(r.Context(), ofGrant(audit.CodeReused, g))
	s.cfg.Logger.WarnContext(quietlog.Always(r.Context()), "authorization code replayed, grant revoked", "grant", g.ID, "client", g.ClientID, "sub", g.Subject)
	return invalidGrant()
}

func (s *Server) exchangeCode(r *http.Request, client storage.Client, g storage.Grant, n narrowed, f form) (tokenResponse, error) {
	now := s.cfg.Now()
	life := s.lifetime(now, now.Add(s.cfg.RefreshMax))
	if !g.Refreshable {
		life.Expires = now.Add(s.cfg.AccessTokenTTL)
	}
	x := engine.Exchange{
		Client: client, Grant: g, Life: life, Audience: n.audience, Scopes: n.scopes, About: n.about,
		Expires: s.accessExpiry(now, life.Expires), Code: f.get("code"), Verifier: f.get("code_verifier"),
	}
	tokens, err := s.engine.Redeem(r.Context(), x)
	if err != nil {
		return tokenResponse{}, exchangeError(err)
	}
	s.issued(r, audit.TokenIssued, x, tokens)
	return s.respond(now, x, tokens), nil
}
