package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

var (
	// ErrUserName means that a string cannot be the name of a person.
	ErrUserName = account.ErrName
	// ErrPassword means that a password is empty or too long.
	ErrPassword = account.ErrPassword
	// ErrDisabled means that a person is disabled, so that neither a password nor a link would let
	// them in.
	ErrDisabled = errors.New("authz: the person is disabled, and stays so: to let them in again remove them (authz user rm) and invite them anew (authz user invite)")
	// ErrShortPassword is the error of [CheckPassword].
	ErrShortPassword = account.ErrShort
)

// CheckPassword returns [ErrShortPassword] for a password of fewer than 8 characters. Call it
// where a user or an operator chooses a password: [AddUser] and [SetPassword] also store
// shorter ones.
func CheckPassword(password string) error { return account.CheckChosen(password) }

// User is the view of a person, without the password.
type User struct {
	Name     string    `json:"name"`
	Subject  string    `json:"subject"`
	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled"`
	// Invited means that the person has not chosen how to sign in yet.
	Invited bool `json:"invited,omitempty"`
	// Groups are the groups of this server, those of the store, of which the person is a member.
	// Only [Users], [Members] and [ProfileOf] fill it in.
	Groups []string `json:"groups,omitempty"`
	// Identities are the accounts at providers with which the person can sign in.
	Identities []Identity `json:"identities,omitempty"`
}

// Identity is the view of a person's account at a provider.
type Identity struct {
	// Provider is the id of the provider. Issuer and Subject name the account there, Handle is by
	// what people recognise it.
	Provider string `json:"provider"`
	Issuer   string `json:"issuer"`
	Subject  string `json:"subject"`
	Handle   string `json:"handle"`
	// Groups are the person's groups as the provider named them last.
	Groups []string `json:"groups,omitempty"`
	// Linked is when the account was connected, Used when the person last signed in with it.
	Linked time.Time `json:"linked,omitzero"`
	Used   time.Time `json:"used,omitzero"`
}

// UserOf returns the view of a person.
func UserOf(u storage.User) User {
	invited := u.Invitation != nil && u.Password == "" && len(u.Passkeys) == 0
	view := User{Name: u.Name, Subject: u.Subject, Created: u.Created, Disabled: u.Disabled, Invited: invited}
	for _, i := range u.Identities {
		view.Identities = append(view.Identities, Identity{Provider: i.Provider, Issuer: i.Issuer, Subject: i.Subject, Handle: i.Handle, Groups: i.Groups, Linked: i.Linked, Used: i.Used})
	}
	return view
}

// userIn returns the view of a person with their groups, of which ids has all that there are. A
// membership in an earlier group of the same name does not count.
func userIn(u storage.User, ids map[string]string) User {
	view := UserOf(u)
	for _, m := range u.Groups {
		if id := ids[m.Group]; id != "" && id == m.ID {
			view.Groups = append(view.Groups, m.Group)
		}
	}
	slices.Sort(view.Groups)
	return view
}

// Users lists all people by name. The list is read while the caller iterates. For a record
// that cannot be read, Users yields an error that wraps [storage.ErrRecord] in its place;
// every other error ends the list.
func Users(ctx context.Context, store *storage.Store) iter.Seq2[User, error] {
	return func(yield func(User, error) bool) {
		ids, err := groupIDs(ctx, store)
		if err != nil {
			yield(User{}, err)
			return
		}
		for u, err := range store.Users(ctx) {
			if !yield(userIn(u, ids), err) {
				return
			}
		}
	}
}

// views returns the views of records.
func views[Record, View any](records iter.Seq2[Record, error], view func(Record) View) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for r, err := range records {
			if !yield(view(r), err) {
				return
			}
		}
	}
}

// AddUser stores a person with a password of 1 to 1024 bytes. The error wraps
// [storage.ErrConflict] if the name is taken, and is [ErrUserName] or [ErrPassword] if the
// argument is invalid.
func AddUser(ctx context.Context, store *storage.Store, name, password string) (storage.User, error) {
	canonical, err := account.OwnName(name)
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

// SetPassword gives a person another password. It ends the sessions that began with the
// previous one, including one that begins at the same moment, and a one-time link. Grants remain. The error wraps
// [storage.ErrNotFound] for an unknown name, and is [ErrElsewhere] for a person of a provider, and
// [ErrDisabled] for one who is disabled.
func SetPassword(ctx context.Context, store *storage.Store, name, password string) error {
	if strings.Contains(name, "/") {
		return ErrElsewhere
	}
	hash, err := account.HashPassword(password)
	if err != nil {
		return err
	}
	return changeUser(ctx, store, name, func(u *storage.User) error {
		if u.Disabled {
			return ErrDisabled
		}
		u.Password, u.Invitation, u.SessionEpoch = hash, nil, u.SessionEpoch+1
		return nil
	})
}

// HasPassword reports whether password is the password of a person. Use it to avoid setting
// the same password again. The error wraps [storage.ErrNotFound] for an unknown name.
func HasPassword(ctx context.Context, store *storage.Store, name, password string) (bool, error) {
	user, err := FindUser(ctx, store, name)
	return err == nil && passwords.Check(user.Password, password), err
}

// FindUser returns the person with a name in any spelling, or with the name PROVIDER/HANDLE of a
// person of a provider, which has one. The error wraps
// [storage.ErrNotFound] for an unknown name.
func FindUser(ctx context.Context, store *storage.Store, name string) (storage.User, error) {
	canonical, err := account.RecordName(name)
	if err != nil {
		return storage.User{}, err
	}
	user, err := store.User(ctx, canonical)
	if err != nil {
		return storage.User{}, fmt.Errorf("authz: user %s: %w", canonical, err)
	}
	return user, nil
}

// DisableUser locks a person out: it ends their sessions, revokes their grants, and forgets what they
// decided to be asked no more about. The error wraps [storage.ErrNotFound] for an unknown name.
func DisableUser(ctx context.Context, store *storage.Store, name string) error {
	_, err := disableUser(ctx, store, name)
	return err
}

func disableUser(ctx context.Context, store *storage.Store, name string) (disabled storage.User, err error) {
	err = changeUser(ctx, store, name, func(u *storage.User) error {
		u.Disabled, disabled = true, *u
		return nil
	})
	if err != nil {
		return storage.User{}, err
	}
	return disabled, store.RevokeUser(ctx, disabled.Subject, "the person was disabled")
}

// RemoveUser disables a person and then removes the record. A person added later under the
// same name has another subject, and stays.
func RemoveUser(ctx context.Context, store *storage.Store, name string) error {
	disabled, err := disableUser(ctx, store, name)
	if err != nil {
		return err
	}
	return store.DeleteUser(ctx, disabled.Name, disabled.Subject)
}

// changeUser swaps a person's record, and tries again if another writer changed it meanwhile. An error
// of change ends it, and nothing is written.
func changeUser(ctx context.Context, store *storage.Store, name string, change func(*storage.User) error) error {
	for range 8 {
		user, err := FindUser(ctx, store, name)
		if err != nil {
			return err
		}
		if err := change(&user); err != nil {
			return err
		}
		if err := store.UpdateUser(ctx, user); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("authz: user %.64s: %w", name, storage.ErrConflict)
}
