package storage

import (
	"context"
	"errors"
	"iter"
	"time"
)

const kindUser = "user"

var userIndex = key("users", "all")

// User is a person who can sign in.
type User struct {
	// Name is what the person types, already canonical (see authz/internal/account).
	Name string `json:"name"`
	// Subject is the opaque id in tokens. A name that is removed and added again gets another
	// one.
	Subject string `json:"sub"`
	// Password is an argon2id hash in PHC string form.
	Password string `json:"password"`
	// PasswordChanges counts the changes of the password. Sessions of an earlier count have
	// ended.
	PasswordChanges int `json:"password_changes,omitempty"`

	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled,omitempty"`

	version Version
}

// CreateUser stores a new person under u.Name. [ErrConflict] means that the name is taken.
func (s *Store) CreateUser(ctx context.Context, u User) error {
	_, err := s.write(ctx, record{kind: kindUser, id: u.Name, value: u, listed: []Listing{{userIndex, u.Name}}}, Absent)
	return err
}

// User returns a person by name, or [ErrNotFound].
func (s *Store) User(ctx context.Context, name string) (User, error) {
	var u User
	version, err := s.read(ctx, kindUser, name, &u)
	if err != nil {
		return User{}, err
	}
	u.version = version
	return u, nil
}

// Users lists all people by name. A record that cannot be read is an error in its place; the
// iteration may go on after it.
func (s *Store) Users(ctx context.Context) iter.Seq2[User, error] {
	return func(yield func(User, error) bool) {
		for name, err := range s.indexed(ctx, userIndex) {
			var u User
			if err == nil {
				u, err = s.User(ctx, name)
			}
			if errors.Is(err, ErrNotFound) {
				continue // added or removed at this moment
			}
			if !yield(u, err) || ends(err) {
				return
			}
		}
	}
}

// UpdateUser replaces a person that was read before, or returns [ErrConflict].
func (s *Store) UpdateUser(ctx context.Context, u User) error {
	_, err := s.write(ctx, record{kind: kindUser, id: u.Name, value: u}, Unchanged(u.version))
	return err
}

// DeleteUser removes a person. Their grants are revoked by [Store.RevokeUser].
func (s *Store) DeleteUser(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindUser, name)); err != nil {
		return unavailable("delete user", err)
	}
	return s.indexRemove(ctx, userIndex, name)
}
