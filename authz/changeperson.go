package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"gatehouse.example/storage"
)

// changePerson swaps the record of a person, and does so again if another writer changed it
// meanwhile. An error of change ends it, and nothing is written. A person who is gone gives the
// page for an expired sign-in.
func (s *Server) changePerson(ctx context.Context, name string, change func(*storage.User) error) (storage.User, error) {
	for range 8 {
		user, err := s.cfg.Store.User(ctx, name)
		if errors.Is(err, storage.ErrNotFound) {
			return storage.User{}, gone()
		}
		if err != nil {
			return storage.User{}, err
		}
		if err := change(&user); err != nil {
			return storage.User{}, err
		}
		if err := s.cfg.Store.UpdateUser(ctx, user); !errors.Is(err, storage.ErrConflict) {
			return user, err
		}
	}
	return storage.User{}, fmt.Errorf("authz: %w: the record of a person kept changing", storage.ErrUnavailable)
}

// changeSelf is changePerson for a person who is signed in. The session must still be valid when
// the record is written: nobody goes on after the operator has ended it.
func (s *Server) changeSelf(ctx context.Context, session liveSession, change func(*storage.User) error) (storage.User, error) {
	return s.changePerson(ctx, session.UserName, func(u *storage.User) error {
		if !sessionValid(*u, session.Session) {
			return gone()
		}
		return change(u)
	})
}

// keepThis lets the session of this browser go on after its person's other sessions were ended by
// a new [storage.User.SessionEpoch].
func (s *Server) keepThis(ctx context.Context, session liveSession, user storage.User) error {
	for range 8 {
		current, err := s.cfg.Store.Session(ctx, session.secret)
		if errors.Is(err, storage.ErrNotFound) {
			return nil // it was ended: the person signs in again
		}
		if err != nil {
			return err
		}
		current.Epoch = user.SessionEpoch
		if err := s.cfg.Store.UpdateSession(ctx, current); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return nil
}

// endOthers ends the other sessions of the person after a change of how to sign in, and keeps this
// one. The browser gets a device cookie again, which is bound to the password.
func (s *Server) endOthers(w http.ResponseWriter, r *http.Request, session liveSession, user storage.User) error {
	if err := s.keepThis(r.Context(), session, user); err != nil {
		return err
	}
	return s.rememberDevice(w, user)
}
