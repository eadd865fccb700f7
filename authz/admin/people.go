package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

var (
	// ErrUserName says that a string cannot be the name of a person.
	ErrUserName = account.ErrName
	// ErrPassword says that a password cannot be used.
	ErrPassword = account.ErrPassword
)

// User is a person as it is shown: without the password.
type User struct {
	Name     string    `json:"name"`
	Subject  string    `json:"subject"`
	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled"`
}

// UserOf returns what is shown of a person.
func UserOf(u storage.User) User {
	return User{Name: u.Name, Subject: u.Subject, Created: u.Created, Disabled: u.Disabled}
}

// Users lists everybody by name. It reads while the caller works. A record that cannot be read
// is an error in its place that wraps [storage.ErrRecord]; every other error ends the list.
func Users(ctx context.Context, store *storage.Store) iter.Seq2[User, error] {
	return shown(store.Users(ctx), UserOf)
}

// shown is a list of records as they are shown.
func shown[Record, View any](records iter.Seq2[Record, error], view func(Record) View) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for r, err := range records {
			if !yield(view(r), err) {
				return
			}
		}
	}
}

// AddUser stores a person with a password of 1 to 1024 bytes. The error wraps
// [storage.ErrConflict] if the name is taken.
func AddUser(ctx context.Context, store *storage.Store, name, password string) (storage.User, error) {
	canonical, err := account.CanonicalName(name)
	if err != nil {
		return storage.User{}, err
	}
	hash, err := account.HashPassword(password)
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
	hash, err := account.HashPassword(password)
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
	canonical, err := account.CanonicalName(name)
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
	canonical, err := account.CanonicalName(name)
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
