package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/storage"
)

// changeAttempts bounds how often a person's record is read again because it changes.
const changeAttempts = 16

// swapPerson changes the record of a person, and does so again if another writer changed it
// meanwhile. An error of change ends it, and nothing is written.
func (s *Server) swapPerson(ctx context.Context, name string, change func(*storage.User) error) (storage.User, error) {
	user, err := s.cfg.Store.User(ctx, name)
	if err != nil {
		return storage.User{}, err
	}
	return s.swapRead(ctx, user, change)
}

// swapRead is swapPerson for a record that was just read.
func (s *Server) swapRead(ctx context.Context, user storage.User, change func(*storage.User) error) (storage.User, error) {
	for range changeAttempts {
		next := user
		if err := change(&next); err != nil {
			return storage.User{}, err
		}
		err := s.cfg.Store.UpdateUser(ctx, next)
		if !errors.Is(err, storage.ErrConflict) {
			return next, err
		}
		if user, err = s.cfg.Store.User(ctx, user.Name); err != nil {
			return storage.User{}, err
		}
	}
	return storage.User{}, fmt.Errorf("authz: %w: the record of a person kept changing", storage.ErrUnavailable)
}

// changePerson is swapPerson for a person who is signing in. One who is gone gives the page for an
// expired sign-in.
func (s *Server) changePerson(ctx context.Context, name string, change func(*storage.User) error) (storage.User, error) {
	user, err := s.swapPerson(ctx, name, change)
	return user, goneOn(err, storage.ErrNotFound)
}

// changeSelf is swapPerson for a person who is signed in. The session must still be valid when the
// record is written: nobody goes on after the operator has ended it.
func (s *Server) changeSelf(ctx context.Context, session liveSession, change func(*storage.User) error) (storage.User, error) {
	user, err := s.swapPerson(ctx, session.UserName, func(u *storage.User) error {
		if !sessionValid(*u, session.Session) {
			return sessionOver()
		}
		return change(u)
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = sessionOver()
	}
	return user, err
}

// changeSignIn changes how a person signs in, and ends the person's other sessions in the same write.
// The browser gets a device cookie again, which is bound to the password.
func (s *Server) changeSignIn(w http.ResponseWriter, r *http.Request, session liveSession, change func(*storage.User) error) (storage.User, error) {
	next, err := s.endOtherSessions(w, r, session, change)
	if err != nil {
		return storage.User{}, err
	}
	return next.person, s.rememberDevice(w, next.person)
}

// ofProvider reports whether the account of a person was made at a first sign-in with a provider.
func ofProvider(name string) bool {
	_, _, ok := account.OfProvider(name)
	return ok
}

// waysToSignIn returns the number of ways in which a person can sign in.
func (s *Server) waysToSignIn(u storage.User) int {
	ways := len(u.Passkeys)
	if u.Password != "" && !s.cfg.NoPasswords && !ofProvider(u.Name) { // names of providers are not typed
		ways++
	}
	for _, identity := range u.Identities {
		if s.providers.byID[identity.Provider] != nil {
			ways++
		}
	}
	return ways
}
