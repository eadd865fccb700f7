package storage

import (
	"context"
	"errors"
	"fmt"
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
	// Password is an argon2id hash in PHC string form, and empty for a person without a password.
	Password string `json:"password"`
	// SessionEpoch counts the events that end all sessions of the person, such as a change of the
	// password. Sessions of an earlier count have ended. It was named for that change at first.
	SessionEpoch int `json:"password_changes,omitempty"`

	// FullName and Email are what resources may be told about the person. A provider states them
	// at each sign-in; Email is empty unless the provider vouches for it. Both end when an account at a
	// provider is disconnected.
	FullName string `json:"full_name,omitempty"`
	Email    string `json:"email,omitempty"`
	// Groups are the person's groups of this server.
	Groups []Membership `json:"groups,omitempty"`
	// Identities are the accounts at providers, Passkeys the passkeys with which the person can
	// sign in. Each has an [Alias].
	Identities []Identity `json:"identities,omitempty"`
	Passkeys   []Passkey  `json:"passkeys,omitempty"`
	// SecondFactor is required after the password; nil for none.
	SecondFactor *SecondFactor `json:"second_factor,omitempty"`
	// Invitation lets the person choose how to sign in, without signing in before; nil for none.
	Invitation *Invitation `json:"invitation,omitempty"`

	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled,omitempty"`

	version Version
}

// Identity is the account of a person at a provider.
type Identity struct {
	// Provider is the provider's id in the configuration. Issuer and Subject name the account
	// there, for good.
	Provider string `json:"provider"`
	Issuer   string `json:"issuer"`
	Subject  string `json:"sub"`
	// Handle is by what people recognise the account, such as an e-mail address.
	Handle string `json:"handle,omitempty"`
	// Groups are the person's groups as the provider named them last.
	Groups []string `json:"groups,omitempty"`
	// Linked is when the account was connected, Used when the person last signed in with it.
	Linked time.Time `json:"linked"`
	Used   time.Time `json:"used,omitzero"`
}

// Passkey is a public key with which a person can sign in (Web Authentication Level 2).
type Passkey struct {
	// ID is the credential id, PublicKey the key in COSE form.
	ID        []byte `json:"id"`
	PublicKey []byte `json:"public_key"`
	// Name is what the person calls it.
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`
	// SignCount is that of the last signature, zero if the authenticator does not count.
	SignCount  uint32   `json:"sign_count,omitempty"`
	Transports []string `json:"transports,omitempty"`
	// BackupEligible and BackedUp are flags of the authenticator: whether the key can be, and is,
	// on several devices.
	BackupEligible bool `json:"backup_eligible,omitempty"`
	BackedUp       bool `json:"backed_up,omitempty"`
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
	if u.version == (Version{}) {
		return fmt.Errorf("storage: update user: the person was not read: %w", ErrConflict)
	}
	_, err := s.write(ctx, record{kind: kindUser, id: u.Name, value: u}, Unchanged(u.version))
	return err
}

// DeleteUser removes a person (sub) with all that leads to them, their sessions and their remembered
// consents. Their grants are revoked by [Store.RevokeUser]. It is not an error if the person is gone;
// another one who has the name since stays.
func (s *Store) DeleteUser(ctx context.Context, name, subject string) error {
	for range changeAttempts {
		u, err := s.User(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound): // a removal that failed in the middle may have left the entry
			return s.unlistName(ctx, userIndex, kindUser, name)
		case err == nil && u.Subject != subject:
			return nil
		case err == nil:
			err = s.deleteUser(ctx, u)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: delete user: %w: the person kept changing", ErrUnavailable)
}

// deleteUser removes a person who was read. [ErrConflict] means that the person changed meanwhile, so
// that something else may lead to them.
func (s *Store) deleteUser(ctx context.Context, u User) error {
	err := errors.Join(s.deleteAliases(ctx, u), s.deleteActivity(ctx, u.Subject),
		s.endAllListed(ctx, userSessions(u.Subject), s.EndSession), s.endAllListed(ctx, userConsents(u.Subject), s.deleteConsent))
	if err != nil {
		return err
	}
	// Deleting has no condition, so the record first gets an end that has come. While it is there
	// nobody gets the name, so that what follows is not about them.
	gone := User{Name: u.Name, Subject: u.Subject, Disabled: true}
	if _, err := s.write(ctx, record{kind: kindUser, id: u.Name, value: gone, expires: s.now()}, Unchanged(u.version)); err != nil {
		return err
	}
	if err := s.indexRemove(ctx, userIndex, u.Name); err != nil {
		return err
	}
	deleting, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(deleting, key(kindUser, u.Name)); err != nil {
		return unavailable("delete user", err)
	}
	return nil
}

// endAllListed ends what a list of a person who is being removed names, and empties the list, young
// entries too: nobody reads or tidies it any more.
func (s *Store) endAllListed(ctx context.Context, index string, end func(ctx context.Context, id string) error) error {
	for entry, err := range s.indexed(ctx, index) {
		if err == nil {
			err = end(ctx, entry[min(entryTimeLen, len(entry)):])
		}
		if err == nil {
			err = s.indexRemove(ctx, index, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlistName removes the entry of a record that is gone from a list of names, which have no time. One
// of that name that was created meanwhile is listed again.
func (s *Store) unlistName(ctx context.Context, index, kind, name string) error {
	if err := s.indexRemove(ctx, index, name); err != nil {
		return err
	}
	_, err := s.read(ctx, kind, name, &struct{}{})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil && !errors.Is(err, ErrRecord): // an unreadable record is somebody too
		return err
	}
	adding, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.IndexAdd(adding, index, name); err != nil {
		return unavailable("list "+kind, err)
	}
	return nil
}
