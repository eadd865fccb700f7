package admin

import (
	"context"
	"errors"
	"iter"
	"slices"

	"gatehouse.example/storage"
)

// Revocation is the result of revoking one grant.
type Revocation struct {
	// Grant is the grant after the revocation. Beside an error it has only the ID, if that
	// is known.
	Grant storage.Grant
	// Ended reports whether the grant was alive before.
	Ended bool
}

// RevokeGrants revokes every grant that f matches, one whenever the caller asks for the next
// result; a caller that stops leaves the rest alive. First it forgets what people decided to be
// asked no more about what f selects, also where no grant is left: the next request asks. It skips
// a grant whose record expires meanwhile. Errors are those of [Grants] and [RevokeGrant]: one that
// wraps [storage.ErrRecord] stands for one grant, every other error ends the sequence.
func RevokeGrants(ctx context.Context, store *storage.Store, f GrantFilter) iter.Seq2[Revocation, error] {
	return func(yield func(Revocation, error) bool) {
		if err := f.forget(ctx, store); err != nil {
			yield(Revocation{}, err)
			return
		}
		for g, err := range Grants(ctx, store, f) {
			r := Revocation{Grant: g}
			if err == nil {
				r, err = revokeOne(ctx, store, g.ID)
			}
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if !yield(r, err) || err != nil && !errors.Is(err, storage.ErrRecord) {
				return
			}
		}
	}
}

// forget deletes the decisions of people that f selects.
func (f GrantFilter) forget(ctx context.Context, store *storage.Store) error {
	switch {
	case f.User != "":
		subject, err := subjectOf(ctx, store, f.User)
		if err != nil {
			return err
		}
		return f.forgetOf(ctx, store, subject)
	case f.ClientID != "" && f.Resource == "":
		return store.ForgetClient(ctx, f.ClientID)
	}
	for user, err := range store.Users(ctx) {
		if err == nil {
			err = f.forgetOf(ctx, store, user.Subject)
		}
		if err != nil && !errors.Is(err, storage.ErrRecord) {
			return err
		}
	}
	return nil
}

// forgetOf deletes the decisions of one person that f selects. One that cannot be read answers for
// nothing.
func (f GrantFilter) forgetOf(ctx context.Context, store *storage.Store, subject string) error {
	if f.ClientID == "" && f.Resource == "" {
		return store.ForgetConsents(ctx, subject)
	}
	for c, err := range store.Consents(ctx, subject) {
		if err == nil && f.remembers(c) {
			err = store.DeleteConsent(ctx, subject, c.ClientID)
		}
		if err != nil && !errors.Is(err, storage.ErrRecord) {
			return err
		}
	}
	return nil
}

// remembers reports whether f selects what a person decided about a client.
func (f GrantFilter) remembers(c storage.Consent) bool {
	return (f.ClientID == "" || f.ClientID == c.ClientID) && (f.Resource == "" || slices.ContainsFunc(c.Given, func(g storage.Remembered) bool {
		return slices.Contains(g.Access.Resources(), f.Resource)
	}))
}

// RevokeGrantsByID revokes the grants with these ids, as [RevokeGrants] does. An id without
// a grant is an error in its place that wraps [storage.ErrNotFound], and does not end the
// sequence.
func RevokeGrantsByID(ctx context.Context, store *storage.Store, ids []string) iter.Seq2[Revocation, error] {
	return func(yield func(Revocation, error) bool) {
		for _, id := range ids {
			r, err := revokeOne(ctx, store, id)
			if !yield(r, err) || err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrRecord) {
				return
			}
		}
	}
}

func revokeOne(ctx context.Context, store *storage.Store, id string) (Revocation, error) {
	g, ended, err := RevokeGrant(ctx, store, id)
	if err != nil {
		return Revocation{Grant: storage.Grant{ID: id}}, err
	}
	return Revocation{Grant: g, Ended: ended}, nil
}
