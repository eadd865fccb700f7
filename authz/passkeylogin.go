package authz

import (
	"cmp"
	"errors"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/authz/internal/throttle"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// passkeyAttempts is the name under which failures with passkeys count. No person has it.
const passkeyAttempts = " passkey"

// passkeyLogin handles POST /login/passkey: it checks the passkey and starts a session. The person
// need not give a name. A passkey verifies the person itself, so no second factor follows.
func (s *Server) passkeyLogin(w http.ResponseWriter, r *http.Request) error {
	f, err := passkeyForm.body(w, r)
	if err != nil {
		return err
	}
	if s.party == nil {
		return gone()
	}
	if wait := s.throttle.Wait(throttle.SignIn{Name: passkeyAttempts, From: fair.Requester(r.Context())}); wait > 0 && s.cookies.get(r, deviceCookie) == "" {
		return tooMany(wait)
	}
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	t := v.t
	if err := s.checkCSRF(r, t, "login", liveSession{}, f.get("csrf")); err != nil {
		return err
	}
	user, err := s.signInWithPasskey(r, t, []byte(f.get("credential")))
	var refused *passkey.Refused
	if errors.As(err, &refused) {
		s.happened(r.Context(), fact{kind: audit.SignInRefused, person: user.Subject, how: methodPasskey})
		s.cfg.Logger.InfoContext(r.Context(), "sign-in with a passkey refused", "user", user.Name, "reason", refused.Reason, "from", fair.Requester(r.Context()))
		return s.loginPage(w, r, v, http.StatusForbidden, "", language.Say("passkey.refusedSignIn"))
	}
	if err != nil {
		return err
	}
	return s.enter(w, r, t, user, signInMethod{name: methodPasskey})
}

// signInWithPasskey returns the person of a passkey. Its refusals are a *passkey.Refused, with the
// person if one is known.
func (s *Server) signInWithPasskey(r *http.Request, t storage.Transaction, credential []byte) (_ storage.User, err error) {
	r, end := s.part(r, PartPasskey)
	defer func() { end(err) }()
	answer, err := passkey.Read(credential)
	if err != nil {
		return storage.User{}, err
	}
	user, err := s.cfg.Store.UserOf(r.Context(), storage.PasskeyAlias(answer.ID()))
	known := err == nil
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, err
	}
	attempt, wait := s.throttle.Begin(throttle.SignIn{Name: passkeyAttempts, From: fair.Requester(r.Context()), Device: s.device(r, user)})
	if wait > 0 {
		return storage.User{}, tooMany(wait)
	}
	signedIn, err := s.provePasskey(r, t, user, known, answer)
	var refused *passkey.Refused
	switch {
	case err == nil:
		err = settled(attempt.Right(r.Context()))
	case !errors.As(err, &refused):
		attempt.Void()
	default:
		err = cmp.Or(settled(attempt.Wrong(r.Context())), err)
	}
	return signedIn, err
}

// provePasskey checks the answer of a browser for the person to whom it leads, if one is known, and
// ends its challenge.
func (s *Server) provePasskey(r *http.Request, t storage.Transaction, user storage.User, known bool, answer passkey.Answer) (storage.User, error) {
	challenge := answer.Challenge()
	switch {
	case !s.ownChallenge(r, t, purposeSignIn, liveSession{}, challenge):
		return user, &passkey.Refused{Reason: "the challenge is not of this page"}
	case !known || user.Disabled:
		return user, &passkey.Refused{Reason: "the passkey is unknown, or its person is disabled"}
	}
	if _, err := s.party.SignedIn(user, challenge, answer); err != nil {
		return user, err
	}
	if err := s.useChallenge(r.Context(), challenge); errors.Is(err, storage.ErrConflict) {
		return user, &passkey.Refused{Reason: "the challenge was answered before"}
	} else if err != nil {
		return user, err
	}
	signedIn, err := s.passkeyUsed(r.Context(), user, challenge, answer, s.cfg.Now())
	if err != nil {
		return user, err
	}
	return signedIn, nil
}
