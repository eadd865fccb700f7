package admin

import (
	"context"
	"errors"
	"iter"

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
// result; a caller that stops leaves the rest alive. It skips a grant whose record expires
// meanwhile. Errors are those of [Grants] and [RevokeGrant]: one that wraps
// [storage.ErrRecord] stands for one grant, every other error ends the sequence.
func RevokeGrants(ctx context.Context, store *storage.Store, f GrantFilter) iter.Seq2[Revocation, error] {
	return func(yield func(Revocation, error) bool) {
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
