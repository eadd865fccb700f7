package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// ErrUserName says that a string cannot be the name of a person.
var ErrUserName = errors.New("authz: a name has 1 to 64 characters out of a-z 0-9 . _ @ + - and starts with a letter or digit")

var errWrongPassword = errors.New("authz: wrong name or password")

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

// SetPassword gives a person another password. Sessions and grants stay.
func SetPassword(ctx context.Context, store *storage.Store, name, password string) error {
	hash, err := newPassword(password)
	if err != nil {
		return err
	}
	return changeUser(ctx, store, name, func(u *storage.User) { u.Password = hash })
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
	canonical, err := CanonicalUserName(name)
	if err != nil {
		return err
	}
	for range 8 {
		user, err := store.User(ctx, canonical)
		if err != nil {
			return fmt.Errorf("authz: user %s: %w", canonical, err)
		}
		change(&user)
		if err := store.UpdateUser(ctx, user); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("authz: user %s: %w", canonical, storage.ErrConflict)
}

// signIn returns the person with that name and password. Unknown, disabled and wrong are
// one answer and take the same time. Guessing at one account from one network slows down;
// nobody is locked out.
func (s *Server) signIn(r *http.Request, name, password string) (storage.User, error) {
	canonical, err := CanonicalUserName(name)
	if err != nil {
		canonical = ""
	}
	key := canonical + " " + proxies(s.cfg.TrustedProxies).network(r)
	if err := s.guesses.Wait(r.Context(), key); err != nil {
		return storage.User{}, tooMany(err)
	}
	user, err := s.checkSignIn(r, canonical, password)
	switch {
	case err == nil:
		s.guesses.Forget(key)
	case errors.Is(err, errWrongPassword):
		s.guesses.Failed(key)
	}
	return user, err
}

func (s *Server) checkSignIn(r *http.Request, canonical, password string) (storage.User, error) {
	user, err := s.cfg.Store.User(r.Context(), canonical)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, err
	}
	known := err == nil
	hash := s.passwords.dummy
	if known {
		hash = user.Password
	}
	right, err := s.passwords.check(r.Context(), hash, password)
	if err != nil {
		return storage.User{}, crowded(err)
	}
	if !known || !right || user.Disabled {
		return storage.User{}, errWrongPassword
	}
	return user, nil
}

func tooMany(cause error) *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable, cause: cause,
		title:   "Too many attempts to sign in",
		message: "Somebody tried many passwords for this name from your network, so attempts have to wait.",
		steps:   []string{"Wait a few seconds, go back, and try again."},
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
