package authz

import (
	"context"
	"errors"
	"net/http"

	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// endOtherSessions ends all sessions of the person except the one of this browser, which goes on
// under a new cookie. In the same write it makes a change of the person's record, such as a new
// password; nil makes none. The change may be called several times, and an error of it ends the
// attempt with nothing written.
//
// The session that goes on is stored first, for the epoch that does not exist yet: until the
// person's record is swapped it signs nobody in, and from then on it is the only one that does. One that
// began with a session at a provider ends with that one under its new cookie too.
// If the error is [storage.ErrUnavailable], it is unknown whether the record was swapped.
func (s *Server) endOtherSessions(w http.ResponseWriter, r *http.Request, session liveSession, change func(*storage.User) error) (liveSession, error) {
	secret, err := s.cfg.Store.NewSecret(sessionPrefix)
	if err != nil {
		return liveSession{}, err
	}
	next := session.Session
	next.Epoch++
	if err := s.cfg.Store.CreateSession(r.Context(), secret, next); err != nil {
		return liveSession{}, err
	}
	began := signInMethod{provider: next.Provider, providerSubject: next.ProviderSubject, providerSession: next.ProviderSession, began: next.Begun}
	if err := s.joinProviderSession(r.Context(), secret, began, next.Expires); err != nil {
		return liveSession{}, err
	}
	person, err := s.changeSelf(r.Context(), session, func(u *storage.User) error {
		u.SessionEpoch++
		if change == nil {
			return nil
		}
		return change(u)
	})
	if err != nil {
		if !errors.Is(err, storage.ErrUnavailable) {
			s.forgetSession(r.Context(), secret)
		}
		return liveSession{}, err
	}
	s.chores.deferWork(s.removeEnded(session.Subject, next.Epoch))
	s.cookies.set(w, sessionCookie, secret, next.Expires.Sub(s.cfg.Now()))
	return liveSession{Session: next, secret: secret, person: person}, nil
}

// forgetSession removes a session that signs nobody in. It ends by itself if that fails.
func (s *Server) forgetSession(ctx context.Context, secret string) {
	if err := s.cfg.Store.DeleteSession(context.WithoutCancel(ctx), secret); err != nil {
		s.cfg.Logger.WarnContext(ctx, "a session that has ended cannot be removed", "error", err)
	}
}

// sessionOver is the page for a form of a session that has ended since the page was shown.
func sessionOver() *displayedError {
	return &displayedError{
		status: http.StatusForbidden, code: codeInvalidRequest,
		title: language.Say("error.sessionOver.title"), message: language.Say("error.sessionOver.message"),
		steps: []language.Text{language.Say("error.sessionOver.again")},
	}
}
