package authz

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// logoutTokens is the purpose under which ids of logout tokens are taken.
func logoutTokens(p *provider) string { return "logout token of " + p.ID }

// backChannelLogout handles POST /login/PROVIDER/logout (OpenID Connect Back-Channel Logout 1.0
// section 2.5): a provider says that a person has signed out there. The answer is 200 if all that
// had to end has ended, also if there was nothing (section 2.8), and 400 for a token that does
// not count.
func (s *Server) backChannelLogout(w http.ResponseWriter, r *http.Request) error {
	p := s.providers.byID[r.PathValue("provider")]
	if p == nil {
		return &apiError{status: http.StatusNotFound, code: codeInvalidRequest, description: "this server does not know that provider"}
	}
	// Signatures cost time, and anybody may send any: what turns out valid is given back.
	share := fair.ByNetwork(fair.Requester(r.Context()), "logout at "+p.ID, unprovenLogouts)
	if wait := s.unproven.Take(1, share...); wait > 0 {
		return &apiError{status: http.StatusTooManyRequests, code: codeUnavailable, limit: LimitProvider, description: "too many logout tokens that are not valid came from this network", retryAfter: wait}
	}
	f, err := backChannelForm.body(w, r)
	if err != nil {
		return err
	}
	token := f.get("logout_token")
	if token == "" {
		return invalidRequest("the parameter logout_token is missing")
	}
	request, err := p.client.Logout(r.Context(), token)
	if err != nil {
		return logoutFault(err)
	}
	s.unproven.Return(1, share...)
	return s.endAtProvider(r.Context(), p, request) // nil is a 200 without a body
}

// logoutFault is the answer for an error of [upstream.Client.Logout].
func logoutFault(err error) error {
	if errors.Is(err, upstream.ErrUnavailable) {
		return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable, description: "the keys of the provider cannot be read; try again later", cause: err}
	}
	refused := invalidRequest("the logout token is not valid here")
	refused.cause = err
	return refused
}

// endAtProvider does what a logout token says, once. Its id is taken at the end: after a failure
// the provider may send it again, and to end the same sessions twice does no harm.
func (s *Server) endAtProvider(ctx context.Context, p *provider, request upstream.LogoutRequest) error {
	taken, err := s.cfg.Store.Taken(ctx, logoutTokens(p), request.JTI)
	if err != nil {
		return err
	}
	if taken {
		return invalidRequest("the logout token was used before") // section 2.6, step 8
	}
	subjects, err := s.endSessionsAt(ctx, p, request)
	if err != nil {
		return err
	}
	ended := fact{kind: audit.SignedOut, by: audit.ByProvider, provider: p.ID, shown: eventProviderSignedOut, about: p.ID}
	for _, subject := range subjects {
		if p.LogoutEndsGrants {
			ended.kind, ended.shown = audit.GrantRevoked, eventProviderLogoutEnded
			if err := s.revokePerson(ctx, subject, "the person signed out at "+p.Title()); err != nil {
				return err
			}
		}
		s.cfg.Logger.InfoContext(quietlog.Always(ctx), "signed out by the provider", "sub", subject, "provider", p.ID, "grants", p.LogoutEndsGrants)
	}
	err = s.cfg.Store.TakeOnce(ctx, logoutTokens(p), request.JTI, request.Expires)
	if errors.Is(err, storage.ErrConflict) {
		return nil // the same token in another process, at the same time
	}
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		ended.person = subject
		s.happened(ctx, ended)
	}
	return nil
}

// endSessionsAt ends the session that a logout token names (sid), or else all sessions that began
// with the account at the provider (sub), those of sign-ins that are under way included. Other sessions
// of the person go on. It returns the
// people, as far as the token or a session tells.
func (s *Server) endSessionsAt(ctx context.Context, p *provider, request upstream.LogoutRequest) (subjects []string, err error) {
	user, err := s.cfg.Store.UserOf(ctx, storage.IdentityAlias(p.ID, request.Issuer, request.Subject))
	switch {
	case err == nil:
		subjects = []string{user.Subject}
	case !errors.Is(err, storage.ErrNotFound):
		return nil, err
	}
	if request.SID == "" {
		if err := s.cfg.Store.EndProviderAccount(ctx, p.ID, request.Subject); err != nil {
			return nil, err
		}
		identity := storage.Identity{Provider: p.ID, Issuer: request.Issuer, Subject: request.Subject}
		return subjects, s.endSessionsOf(ctx, user, identity, "")
	}
	ended, err := s.cfg.Store.EndProviderSession(ctx, p.ID, request.SID)
	for _, session := range ended {
		if !slices.Contains(subjects, session.Subject) {
			subjects = append(subjects, session.Subject)
		}
	}
	return subjects, err
}
