package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/storage"
)

var (
	// ErrUnknownUser says that nobody has a name.
	ErrUnknownUser = errors.New("authz: there is no person with that name")
	// ErrUnknownClient says that an id names no client on record, and that no grant on
	// record was given to one.
	ErrUnknownClient = errors.New("authz: there is no client with that id")
)

// GrantFilter says which grants are meant. A field that is empty matches every grant.
type GrantFilter struct {
	// User is the name that a person signs in with.
	User string
	// ClientID is the id of a client.
	ClientID string
	// Resource is the URI of a resource that the grant is for, compared byte for byte.
	Resource string
}

// Grants lists grants, revoked ones included as long as they are on record: those of a
// person or a client in the order in which they were made, all others person by person,
// by name. It reads while the caller works and keeps none of them. A record that cannot be
// read is an error in its place that wraps [storage.ErrRecord]; whoever goes on gets the
// rest. Every other error ends the list; it is [ErrUnknownUser] or [ErrUnknownClient] if
// the filter names nobody.
func Grants(ctx context.Context, store *storage.Store, f GrantFilter) iter.Seq2[storage.Grant, error] {
	return func(yield func(storage.Grant, error) bool) {
		candidates, err := f.candidates(ctx, store)
		if err != nil {
			yield(storage.Grant{}, err)
			return
		}
		for g, err := range candidates {
			if err == nil && !f.matches(g) {
				continue
			}
			if !yield(g, err) || err != nil && !errors.Is(err, storage.ErrRecord) {
				return
			}
		}
	}
}

// candidates is the shortest list that holds every grant that matches.
func (f GrantFilter) candidates(ctx context.Context, store *storage.Store) (iter.Seq2[storage.Grant, error], error) {
	if f.ClientID != "" {
		if err := knownClient(ctx, store, f.ClientID); err != nil {
			return nil, err
		}
	}
	switch {
	case f.User != "":
		subject, err := subjectOf(ctx, store, f.User)
		return store.UserGrants(ctx, subject), err
	case f.ClientID != "":
		return store.ClientGrants(ctx, f.ClientID), nil
	}
	return everyGrant(ctx, store), nil
}

// matches reports whether g is meant. A record without a client only keeps the place of
// a grant that was revoked before it was made.
func (f GrantFilter) matches(g storage.Grant) bool {
	return g.ClientID != "" && (f.ClientID == "" || f.ClientID == g.ClientID) &&
		(f.Resource == "" || slices.Contains(g.Resources, f.Resource))
}

func subjectOf(ctx context.Context, store *storage.Store, name string) (string, error) {
	canonical, err := account.CanonicalName(name)
	if err != nil {
		return "", err
	}
	user, err := store.User(ctx, canonical)
	if errors.Is(err, storage.ErrNotFound) {
		return "", ErrUnknownUser
	}
	return user.Subject, err
}

// knownClient returns [ErrUnknownClient] if nothing on record is about a client. Clients
// that are not kept in the store are known by their grants.
func knownClient(ctx context.Context, store *storage.Store, id string) error {
	_, err := store.Client(ctx, id)
	switch {
	case errors.Is(err, storage.ErrRecord):
		return nil
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	for _, err := range store.ClientGrants(ctx, id) {
		if errors.Is(err, storage.ErrRecord) {
			return nil
		}
		return err
	}
	return ErrUnknownClient
}

func everyGrant(ctx context.Context, store *storage.Store) iter.Seq2[storage.Grant, error] {
	return func(yield func(storage.Grant, error) bool) {
		for user, err := range store.Users(ctx) {
			if err != nil {
				if !yield(storage.Grant{}, err) {
					return
				}
				continue
			}
			for g, err := range store.UserGrants(ctx, user.Subject) {
				if !yield(g, err) || err != nil && !errors.Is(err, storage.ErrRecord) {
					return
				}
			}
		}
	}
}

// revokedByOperator is why, for whoever reads the record later.
const revokedByOperator = "revoked by an operator"

// RevokeGrant ends a grant for good: its refresh tokens and its code are refused, and
// introspection says that its access tokens are not active. It returns the grant, and
// whether it was alive before. The error wraps [storage.ErrNotFound] if there is no such
// grant, and then nothing is written. Any other error means that it may be alive.
func RevokeGrant(ctx context.Context, store *storage.Store, id string) (g storage.Grant, ended bool, err error) {
	g, err = store.Grant(ctx, id)
	if err != nil {
		return storage.Grant{}, false, fmt.Errorf("authz: grant %s: %w", id, err)
	}
	// One that is revoked already is revoked again, because whoever did may have been
	// told that this is not certain.
	if err := store.Revoke(ctx, id, revokedByOperator); err != nil {
		return storage.Grant{}, false, fmt.Errorf("authz: grant %s: %w", id, err)
	}
	if g.State == storage.GrantRevoked {
		return g, false, nil
	}
	g.State, g.RevokedBecause = storage.GrantRevoked, revokedByOperator
	return g, true, nil
}
