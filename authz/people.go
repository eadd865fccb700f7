package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/authz/internal/limit"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

// ErrUserName says that a string cannot be the name of a person.
var ErrUserName = errors.New("authz: a name has 1 to 64 characters out of a-z 0-9 . _ @ + - and starts with a letter or digit")

// CanonicalUserName returns the one spelling of a name: surrounding space dropped, ASCII
// letters in lowercase. Names are ASCII, so no two of them look alike.
func CanonicalUserName(raw string) (string, error) {
	// Only ASCII is folded: strings.ToLower makes a k of the Kelvin sign.
	name := strings.Map(lowerASCII, strings.TrimSpace(raw))
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, notNameCharacter) || strings.ContainsAny(name[:1], "._@+-") {
		return "", ErrUserName
	}
	return name, nil
}

func lowerASCII(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

func notNameCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._@+-", c)
}

// AddUser stores a person with a password of 1 to 1024 bytes. The error wraps
// [storage.ErrConflict] if the name is taken.
func AddUser(ctx context.Context, store *storage.Store, name, password string) (storage.User, error) {
	canonical, err := CanonicalUserName(name)
	if err != nil {
		return storage.User{}, err
	}
	hash, err := newPassword(password)
	if err != nil {
		return storage.User{}, err
	}
	subject, err := store.NewID()
	if err != nil {
		return storage.User{}, err
	}
	user := storage.User{Name: canonical, Subject: subject, Password: hash, Created: time.Now().UTC()}
	if err := store.CreateUser(ctx, user); err != nil {
		return storage.User{}, fmt.Errorf("authz: add user: %w", err)
	}
	return user, nil
}

// SetPassword gives a person another password, and ends the sessions that were begun with
// the one before, also one that begins at this moment. Grants stay. The error wraps
// [storage.ErrNotFound] for an unknown name.
func SetPassword(ctx context.Context, store *storage.Store, name, password string) error {
	hash, err := newPassword(password)
	if err != nil {
		return err
	}
	return changeUser(ctx, store, name, func(u *storage.User) { u.Password, u.PasswordChanges = hash, u.PasswordChanges+1 })
}

// HasPassword reports whether a person has a password, so that one need not be set again.
// The error wraps [storage.ErrNotFound] for an unknown name.
func HasPassword(ctx context.Context, store *storage.Store, name, password string) (bool, error) {
	user, err := FindUser(ctx, store, name)
	return err == nil && passwords.Check(user.Password, password), err
}

// FindUser reads a person by any spelling of the name. The error wraps
// [storage.ErrNotFound] for an unknown one.
func FindUser(ctx context.Context, store *storage.Store, name string) (storage.User, error) {
	canonical, err := CanonicalUserName(name)
	if err != nil {
		return storage.User{}, err
	}
	user, err := store.User(ctx, canonical)
	if err != nil {
		return storage.User{}, fmt.Errorf("authz: user %s: %w", canonical, err)
	}
	return user, nil
}

// DisableUser locks a person out: their sessions count no more, and their grants are
// revoked. The error wraps [storage.ErrNotFound] for an unknown name.
func DisableUser(ctx context.Context, store *storage.Store, name string) error {
	var subject string
	err := changeUser(ctx, store, name, func(u *storage.User) { u.Disabled, subject = true, u.Subject })
	if err != nil {
		return err
	}
	return store.RevokeUser(ctx, subject, "the person was disabled")
}

// RemoveUser disables a person and then removes the record. Somebody added under the
// same name later is another person, with another subject.
func RemoveUser(ctx context.Context, store *storage.Store, name string) error {
	if err := DisableUser(ctx, store, name); err != nil {
		return err
	}
	canonical, err := CanonicalUserName(name)
	if err != nil {
		return err
	}
	return store.DeleteUser(ctx, canonical)
}

// changeUser swaps a person's record, again if somebody else was faster.
func changeUser(ctx context.Context, store *storage.Store, name string, change func(*storage.User)) error {
	for range 8 {
		user, err := FindUser(ctx, store, name)
		if err != nil {
			return err
		}
		change(&user)
		if err := store.UpdateUser(ctx, user); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("authz: user %.64s: %w", name, storage.ErrConflict)
}

// refusedSignIn says that name and password do not belong together, and who was meant, if
// that is anybody.
type refusedSignIn struct{ known string }

func (e *refusedSignIn) Error() string { return "authz: wrong name or password" }

// refuseEarly refuses what [Server.signIn] would refuse, before anything is read for it: a
// network that has used up its attempts costs next to nothing. Browsers that may have signed
// in before are told apart there.
func (s *Server) refuseEarly(r *http.Request, name string) error {
	if s.cookies.get(r, deviceCookie) != "" {
		return nil
	}
	canonical, err := CanonicalUserName(name)
	if err != nil {
		canonical = ""
	}
	if wait := s.guesses.Wait(limit.SignIn{Name: canonical, From: fair.Requester(r.Context())}); wait > 0 {
		return tooMany(wait)
	}
	return nil
}

// signIn returns the person with that name and password. Unknown, disabled and wrong are
// one answer and take the same time. Guessing slows down by network, by name and for browsers
// that signed in before; nobody is locked out.
func (s *Server) signIn(r *http.Request, name, password string) (storage.User, error) {
	canonical, err := CanonicalUserName(name)
	if err != nil {
		canonical = ""
	}
	user, err := s.cfg.Store.User(r.Context(), canonical)
	known := err == nil
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, err
	}
	if !known {
		user.Password = s.passwords.dummy
	}
	from := fair.Requester(r.Context())
	attempt, wait := s.guesses.Begin(limit.SignIn{Name: canonical, From: from, Device: s.device(r, user)})
	if wait > 0 {
		return storage.User{}, tooMany(wait)
	}
	right, err := s.passwords.check(r.Context(), attempt.Lane, from, user.Password, password)
	switch {
	case err != nil:
		attempt.Void()
		return storage.User{}, crowded(err)
	case !known || !right || user.Disabled:
		return storage.User{}, &refusedSignIn{user.Name}
	}
	attempt.Right()
	return user, nil
}

// tooMany tells a person when to try again. It says nothing about name or password.
func tooMany(wait time.Duration) *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait,
		title:   "Too many attempts to sign in",
		message: "Too many of them came from your network, or with this name.",
		steps: []string{
			fmt.Sprintf("Wait until %d s have passed, go back, and try again.", wholeSeconds(wait)),
			"Or sign in with a browser in which you have signed in here before, or from another network.",
		},
	}
}

func crowded(cause error) *displayedError {
	return &displayedError{
		status: http.StatusServiceUnavailable, code: codeUnavailable, cause: cause,
		title:   "Many people are signing in right now",
		message: "Your turn did not come in time. Nothing is wrong with your name or password.",
		steps:   []string{"Wait a few seconds, go back, and try again."},
	}
}
