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
	// ErrUnknownUser means that no person has the name.
	ErrUnknownUser = errors.New("authz: there is no person with that name")
	// ErrUnknownClient means that no client on record has the id, and that no grant on record
	// names it.
	ErrUnknownClient = errors.New("authz: there is no client with that id")
)

// GrantFilter selects grants. An empty field matches every grant.
type GrantFilter struct {
	// User is the name of a person.
	User string
	// ClientID is the id of a client.
	ClientID string
	// Resource is the URI of a resource that the grant is for, compared byte for byte.
	Resource string
}

// Grants lists grants, including revoked ones while they are on record. The grants of a
// person or a client come in the order in which they were made; otherwise they are listed
// person by person, ordered by name. The list is read while the caller iterates and is not
// kept. For a record that cannot be read, Grants yields an error that wraps
// [storage.ErrRecord] in its place and continues. Every other error ends the list. The error
// is [ErrUnknownUser] or [ErrUnknownClient] if the filter names an unknown user or client.
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

// candidates returns the shortest list in the store that contains every matching grant.
func (f GrantFilter) candidates(ctx context.Context, store *storage.Store) (iter.Seq2[storage.Grant, error], error) {
	if f.ClientID != "" {
		if err := checkClient(ctx, store, f.ClientID); err != nil {
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

// matches reports whether the filter selects g. A record without a client is a placeholder
// for a grant that was revoked before it was stored.
func (f GrantFilter) matches(g storage.Grant) bool {
	return g.ClientID != "" && (f.ClientID == "" || f.ClientID == g.ClientID) &&
		(f.Resource == "" || slices.Contains(g.Resources, f.Resource))
}

func subjectOf(ctx context.Context, store *storage.Store, name string) (string, error) {
	canonical, err := account.RecordName(name)
	if err != nil {
		return "", err
	}
	user, err := store.User(ctx, canonical)
	if errors.Is(err, storage.ErrNotFound) {
		return "", ErrUnknownUser
	}
	return user.Subject, err
}

// checkClient returns [ErrUnknownClient] if neither a client nor a grant on record has that
// client id. Clients that come from the configuration have no record; their grants identify
// them.
func checkClient(ctx context.Context, store *storage.Store, id string) error {
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

// revokedByOperator is the reason that the record gives for a revocation.
const revokedByOperator = "revoked by an operator"

// RevokeGrant revokes a grant permanently: its refresh tokens and its code are refused, and
// introspection reports its access tokens as inactive. What the person decided to be asked no
// more about the client is forgotten, so that the next request asks. It returns the grant, and whether it
// was live before. The error wraps [storage.ErrNotFound] if there is no such grant; then
// nothing is written. After any other error the grant may still be live.
func RevokeGrant(ctx context.Context, store *storage.Store, id string) (g storage.Grant, ended bool, err error) {
	g, err = store.Grant(ctx, id)
	if err != nil {
		return storage.Grant{}, false, fmt.Errorf("authz: grant %s: %w", id, err)
	}
	// A revoked grant is revoked again, because the first revocation may have returned an
	// error that left its success open.
	if err := revokeAndForget(ctx, store, g); err != nil {
		return storage.Grant{}, false, fmt.Errorf("authz: grant %s: %w", id, err)
	}
	if g.State == storage.GrantRevoked {
		return g, false, nil
	}
	g.State, g.RevokedBecause = storage.GrantRevoked, revokedByOperator
	return g, true, nil
}

// revokeAndForget revokes a grant. It forgets the consent before, because a request that is
// answered without a page looks for it again after its grant is stored, and after, because a
// person may have decided meanwhile.
func revokeAndForget(ctx context.Context, store *storage.Store, g storage.Grant) error {
	if err := store.DeleteConsent(ctx, g.Subject, g.ClientID); err != nil {
		return err
	}
	if err := store.Revoke(ctx, g.ID, revokedByOperator); err != nil {
		return err
	}
	return store.DeleteConsent(ctx, g.Subject, g.ClientID)
}
