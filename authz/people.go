package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/internal/throttle"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// refusedSignIn means that name and password do not match. userName is the person with that
// name, if there is one.
type refusedSignIn struct{ userName, subject string }

func (e *refusedSignIn) Error() string { return "authz: wrong name or password" }

// refuseEarly refuses a sign-in that [Server.signIn] would refuse, before anything is read
// from the store: a network that has used up its attempts costs next to nothing. It leaves
// browsers with a device cookie to signIn, which verifies the cookie.
func (s *Server) refuseEarly(r *http.Request, name string) error {
	if s.cookies.get(r, deviceCookie) != "" {
		return nil
	}
	canonical, err := account.OwnName(name)
	if err != nil {
		canonical = ""
	}
	if wait := s.throttle.Wait(throttle.SignIn{Name: canonical, From: fair.Requester(r.Context())}); wait > 0 {
		return tooMany(wait)
	}
	return nil
}

// signIn returns the person with that name and password. An unknown name, a disabled person
// and a wrong password give the same answer and take the same time. Failures are throttled by
// network, by name and for browsers that signed in before; no person is locked out.
func (s *Server) signIn(r *http.Request, name, password string) (_ storage.User, err error) {
	r, end := s.part(r, PartPassword)
	defer func() { end(err) }()
	canonical, err := account.OwnName(name)
	if err != nil {
		canonical = ""
	}
	user, err := s.cfg.Store.User(r.Context(), canonical)
	known := err == nil
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, err
	}
	if !known {
		user.Name, user.Password = "", s.passwords.dummy
	}
	compared := cmp.Or(user.Password, s.passwords.dummy) // a person without a password takes as long
	from := fair.Requester(r.Context())
	attempt, wait := s.throttle.Begin(throttle.SignIn{Name: canonical, From: from, Device: s.device(r, user)})
	if wait > 0 {
		return storage.User{}, tooMany(wait)
	}
	right, err := s.passwords.check(r.Context(), attempt.Lane, from, compared, password)
	switch {
	case err != nil:
		attempt.Void()
		return storage.User{}, busySignIn(err)
	case !known || !right || user.Disabled || user.Password == "":
		return storage.User{}, s.wrongPassword(r.Context(), attempt, user)
	}
	if err := settled(attempt.Right(r.Context())); err != nil {
		return storage.User{}, err
	}
	return s.rehash(r.Context(), attempt.Lane, from, user, password)
}

// wrongPassword counts a refused attempt against the limits, and returns its error: of a person, or of
// nobody if the name is empty.
func (s *Server) wrongPassword(ctx context.Context, attempt *throttle.Attempt, user storage.User) error {
	if err := settled(attempt.Wrong(ctx)); err != nil {
		return err
	}
	return &refusedSignIn{user.Name, user.Subject}
}

// settled returns the error of an attempt that the limits of all processes do not let have an
// answer.
func settled(wait time.Duration, err error) error {
	if err == nil && wait > 0 {
		return tooMany(wait)
	}
	return err
}

// rehash replaces the hash of a right password by one that takes as much work as new ones do. It is
// one attempt: after a conflict the next sign-in makes another. Sessions go on.
func (s *Server) rehash(ctx context.Context, lane string, from netip.Addr, user storage.User, password string) (storage.User, error) {
	hash, err := s.passwords.replacement(ctx, lane, from, user.Password, password)
	if errors.Is(err, errTooManySignIns) || err == nil && hash == "" {
		return user, nil
	}
	if err != nil {
		return storage.User{}, err
	}
	changed := user
	changed.Password = hash
	err = s.cfg.Store.UpdateUser(ctx, changed)
	if errors.Is(err, storage.ErrConflict) {
		return user, nil
	}
	return changed, err
}

// tooMany returns the page that gives the time of the next attempt. It does not reveal
// whether the name or the password was right.
func tooMany(wait time.Duration) *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait, limit: LimitSignIn,
		title:   language.Say("error.tooMany.title"),
		message: language.Say("error.tooMany.message"),
		steps: []language.Text{
			language.Say("error.tooMany.wait", "seconds", wholeSeconds(wait)),
			language.Say("error.tooMany.elsewhere"),
		},
	}
}

func busySignIn(cause error) *displayedError {
	return &displayedError{
		status: http.StatusServiceUnavailable, code: codeUnavailable, cause: cause,
		title:   language.Say("error.busySignIn.title"),
		message: language.Say("error.busySignIn.message"),
		steps:   []language.Text{language.Say("step.waitSeconds")},
	}
}
