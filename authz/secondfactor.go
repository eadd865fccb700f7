package authz

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/secondfactor"
	"gatehouse.example/authz/internal/throttle"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// pendingTTL is the time between a right password and the second factor.
const pendingTTL = 10 * time.Minute

// askPending reads a transaction, and with it the person whose password was right in it.
func (s *Server) askPending(r *http.Request, id string) (t storage.Transaction, person func() (storage.User, error), err error) {
	read := s.cfg.Store.Reading()
	kept, resume, err := s.askTransaction(r, read, id)
	if err != nil {
		return t, nil, err
	}
	name := ""
	if p := kept.Pending; p != nil {
		name, person = p.UserName, read.User(p.UserName)
	}
	if err := read.Read(r.Context()); err != nil {
		return t, nil, err
	}
	t, err = resume()
	if p := t.Pending; p != nil && p.UserName != name { // the browser does not keep the transaction
		person = func() (storage.User, error) { return s.cfg.Store.User(r.Context(), p.UserName) }
	}
	return t, person, err
}

// pending returns the person whose password was right in a transaction, as the record is now. It
// reports false if there is none, if it was too long ago, or if the person was disabled, or changed
// how to sign in, since: then the sign-in begins again.
func (s *Server) pending(t storage.Transaction, person func() (storage.User, error)) (storage.User, bool, error) {
	p := t.Pending
	if p == nil || s.cfg.Now().Sub(p.At) >= pendingTTL || s.cfg.NoPasswords {
		return storage.User{}, false, nil
	}
	user, err := person()
	if errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, false, nil
	}
	if err != nil {
		return storage.User{}, false, err
	}
	as := user.Subject == p.Subject && user.SessionEpoch == p.Epoch && !user.Disabled && user.SecondFactor != nil
	return user, as, nil
}

// showCode handles GET /login/code: it asks for the second factor.
func (s *Server) showCode(w http.ResponseWriter, r *http.Request) error {
	f, err := pageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	t, person, err := s.askPending(r, f.get("transaction"))
	if err != nil {
		return err
	}
	user, pending, err := s.pending(t, person)
	if err != nil {
		return err
	}
	if !pending {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	return s.codePage(w, r, t, user, http.StatusOK, language.Text{})
}

func (s *Server) codePage(w http.ResponseWriter, r *http.Request, t storage.Transaction, user storage.User, status int, problem language.Text) error {
	w.WriteHeader(status)
	return s.pagesFor(r, s.path("/login/code")+"?transaction="+t.ID).Code(w, templates.Code{
		Action: s.urls.login + "/code", Transaction: t.ID, CSRF: s.csrf(r, t, "code", liveSession{}),
		UserName: user.Name, Other: s.urls.login + "?transaction=" + t.ID, Problem: problem,
	})
}

// codeLogin handles POST /login/code: it checks the second factor and starts a session.
func (s *Server) codeLogin(w http.ResponseWriter, r *http.Request) error {
	f, err := codeForm.body(w, r)
	if err != nil {
		return err
	}
	t, person, err := s.askPending(r, f.get("transaction"))
	if err != nil {
		return err
	}
	if err := s.checkCSRF(r, t, "code", liveSession{}, f.get("csrf")); err != nil {
		return err
	}
	user, pending, err := s.pending(t, person)
	if err != nil {
		return err
	}
	if !pending {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	signedIn, err := s.checkCode(r, t, user, f.get("code"))
	if errors.Is(err, errWrongCode) {
		s.happened(r.Context(), fact{kind: audit.SignInRefused, person: user.Subject, how: string(SignInCode)})
		s.cfg.Logger.WarnContext(r.Context(), "second factor refused after the right password", "user", user.Name, "from", fair.Requester(r.Context()))
		return s.codePage(w, r, t, user, http.StatusForbidden, language.Say("code.wrong"))
	}
	if err != nil {
		return err
	}
	return s.enter(w, r, t, signedIn, signInMethod{name: methodPassword})
}

// errWrongCode means that a code is no code of the person now.
var errWrongCode = errors.New("authz: wrong code")

// guessed compares a code with those of the person, within the limits on guessing, and uses none up: one that
// gets no answer, because the limits of all processes are reached, can be used later.
func (s *Server) guessed(r *http.Request, user storage.User, code string) error {
	// By the subject: whoever gets the name of a person who was removed begins anew.
	attempt, wait := s.throttle.BeginCode(throttle.SignIn{Name: user.Subject, From: fair.Requester(r.Context()), Device: s.device(r, user)})
	if wait > 0 {
		return tooManyCodes(wait)
	}
	unspent := *user.SecondFactor
	switch _, err := s.spend(user, &unspent, code); {
	case errors.Is(err, errWrongCode):
		return cmp.Or(settledCode(attempt.Wrong(r.Context())), err)
	case err != nil:
		attempt.Void()
		return err
	}
	return settledCode(attempt.Right(r.Context()))
}

// checkCode checks the second factor, and records its use before anybody is signed in: no code is accepted
// twice, whatever processes get it.
func (s *Server) checkCode(r *http.Request, t storage.Transaction, user storage.User, code string) (storage.User, error) {
	if err := s.guessed(r, user, code); err != nil {
		return storage.User{}, err
	}
	left := -1 // recovery codes, after the use of one
	signedIn, err := s.swapRead(r.Context(), user, func(u *storage.User) error {
		p := t.Pending
		if u.Subject != p.Subject || u.SessionEpoch != p.Epoch || u.Disabled || u.SecondFactor == nil {
			return gone()
		}
		factor := *u.SecondFactor
		recovered, err := s.spend(*u, &factor, code)
		if err != nil {
			return err
		}
		if u.SecondFactor, left = &factor, -1; recovered {
			left = len(factor.Recovery)
		}
		return nil
	})
	if err != nil { // errWrongCode: it was used elsewhere at the same moment
		return storage.User{}, goneOn(err, storage.ErrNotFound)
	}
	if left >= 0 {
		s.cfg.Logger.WarnContext(quietlog.Always(r.Context()), "recovery code used", "user", user.Name, "sub", user.Subject, "left", left)
		s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: eventRecoveryCodeUsed})
	}
	return signedIn, nil
}

// spend uses up a code of the app, or a recovery code. It compares with every recovery code that is
// left, so the time does not tell which one came close.
func (s *Server) spend(u storage.User, factor *storage.SecondFactor, code string) (recovered bool, err error) {
	secret, err := s.cfg.Store.OpenFactor(u)
	if err != nil {
		return false, err
	}
	if step, ok := secondfactor.Accept(secret, code, s.cfg.Now(), factor.LastStep); ok {
		factor.LastStep = step
		return false, nil
	}
	typed, found := secondfactor.CanonicalRecovery(code), -1
	for i, hash := range factor.Recovery {
		if hash.Matches(typed) {
			found = i
		}
	}
	if found < 0 {
		return false, errWrongCode
	}
	factor.Recovery = slices.Delete(slices.Clone(factor.Recovery), found, found+1)
	return true, nil
}

// settledCode is [settled] for a second factor.
func settledCode(wait time.Duration, err error) error {
	if err == nil && wait > 0 {
		return tooManyCodes(wait)
	}
	return err
}

func tooManyCodes(wait time.Duration) *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait, limit: LimitCode,
		title:   language.Say("error.codes.title"),
		message: language.Say("error.codes.message"),
		steps:   []language.Text{language.Say("error.tooMany.wait", "seconds", wholeSeconds(wait)), language.Say("error.codes.known")},
	}
}
