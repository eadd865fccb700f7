package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
)

const kindAlias = "alias"

// Alias leads from something that is known outside, an identity at a provider or a passkey, to a
// person. It counts only while the person's record lists the same thing: see [Store.UserOf]. An
// alias that does not count may be replaced.
type Alias struct {
	UserName string `json:"user"`
	Subject  string `json:"sub"`

	version Version
}

// AliasID names an alias. Make one with [IdentityAlias] or [PasskeyAlias].
type AliasID string

// IdentityAlias returns the id of the alias for a person at a provider: the id of the provider
// in the configuration, its issuer, and the subject there.
func IdentityAlias(provider, issuer, subject string) AliasID {
	return aliasID("identity", provider, issuer, subject)
}

// PasskeyAlias returns the id of the alias for a passkey.
func PasskeyAlias(credential []byte) AliasID { return aliasID("passkey", string(credential)) }

// aliasID hashes the parts, none of which can be confused with another one.
func aliasID(parts ...string) AliasID {
	all := make([]byte, 0, 4*sha256.Size)
	for _, part := range parts {
		one := hashOf(part)
		all = append(all, one[:]...)
	}
	sum := sha256.Sum256(all)
	return AliasID(base64URL(sum[:]))
}

// Alias returns an alias, whether it counts or not, or [ErrNotFound]. With that error too the result is
// what [Store.PutAlias] needs: what is left of one that has ended may be there for a minute.
func (s *Store) Alias(ctx context.Context, id AliasID) (Alias, error) {
	var a Alias
	version, err := s.read(ctx, kindAlias, string(id), &a)
	a.version = version
	return a, err
}

// PutAlias stores a new alias, or replaces the one that was read before as a. [ErrConflict] means
// that another one is there.
func (s *Store) PutAlias(ctx context.Context, id AliasID, a Alias) error {
	_, err := s.write(ctx, record{kind: kindAlias, id: string(id), value: a}, Unchanged(a.version))
	return err
}

// Leading returns the alias with another person, for [Store.PutAlias].
func (a Alias) Leading(userName, subject string) Alias {
	a.UserName, a.Subject = userName, subject
	return a
}

// EndAlias ends an alias that was read before as a. [ErrConflict] means that it was changed since, and
// that it stays: somebody has taken it.
func (s *Store) EndAlias(ctx context.Context, id AliasID, a Alias) error {
	// Deleting has no condition, so the record gets an end that has come.
	_, err := s.write(ctx, record{kind: kindAlias, id: string(id), value: a, expires: s.now()}, Unchanged(a.version))
	return err
}

// UserOf returns the person to whom an alias leads. It is [ErrNotFound] if there is no alias, or
// if it does not count: the person is gone, has been added anew, or does not list it.
func (s *Store) UserOf(ctx context.Context, id AliasID) (User, error) {
	a, err := s.Alias(ctx, id)
	if err != nil {
		return User{}, err
	}
	u, err := s.User(ctx, a.UserName)
	if err != nil {
		return User{}, err
	}
	if u.Subject != a.Subject || !slices.Contains(u.Aliases(), id) {
		return User{}, ErrNotFound
	}
	return u, nil
}

// Aliases returns the ids of the aliases that the person lists.
func (u User) Aliases() []AliasID {
	var ids []AliasID
	for _, i := range u.Identities {
		ids = append(ids, IdentityAlias(i.Provider, i.Issuer, i.Subject))
	}
	for _, p := range u.Passkeys {
		ids = append(ids, PasskeyAlias(p.ID))
	}
	return ids
}

// deleteAliases removes the aliases of a person that lead to this person, and the tokens of
// providers.
func (s *Store) deleteAliases(ctx context.Context, u User) error {
	for _, id := range u.Aliases() {
		a, err := s.Alias(ctx, id)
		if err == nil && a.Subject == u.Subject {
			err = s.EndAlias(ctx, id, a)
		}
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) { // it leads to another person
			err = s.DeleteProviderToken(ctx, id, u.Subject)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
