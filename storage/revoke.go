package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// revokeAttempts bounds how often a revocation that keeps losing against rotations is repeated
// before the store counts as unavailable.
const revokeAttempts = 64

// Revoke ends the family for good. It returns nil when the record is revoked or gone, and an
// error that wraps [ErrUnavailable] when that is not confirmed.
func (s *Store) Revoke(ctx context.Context, id, because string) error {
	if err := s.revoke(ctx, id, because); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// revoke is Revoke, but returns [ErrNotFound] when there is no grant.
func (s *Store) revoke(ctx context.Context, id, because string) error {
	return s.settle(ctx, id, func(g Grant) Grant { return g.revoked(because) })
}

// EndResource removes a resource from a grant for good: no token of the grant is for it any more.
// The end of the last one ends the family. It returns nil when that is on record or the grant is
// gone, and an error that wraps [ErrUnavailable] when it is not confirmed.
func (s *Store) EndResource(ctx context.Context, id, resource, because string) error {
	err := s.settle(ctx, id, func(g Grant) Grant { return g.withoutResource(resource, because) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// settle swaps a grant for the result of end, however often the grant changes meanwhile. It
// returns nil when that is on record, [ErrNotFound] when there is no grant, and [ErrUnavailable]
// when neither is certain. A grant that end does not change is confirmed.
func (s *Store) settle(ctx context.Context, id string, end func(Grant) Grant) error {
	g, err := s.Grant(ctx, id)
	for range revokeAttempts {
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
		next := end(g)
		if next.State == g.State && len(next.Resources) == len(g.Resources) {
			g, err = s.Confirm(ctx, g)
		} else {
			g, err = s.swapAnywhere(ctx, g, next)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("storage: revoke: %w: the grant kept changing", ErrUnavailable)
}

// revoked returns g after its end. A grant that has ended keeps its reason.
func (g Grant) revoked(because string) Grant {
	if g.State != GrantRevoked {
		g.State, g.RevokedBecause = GrantRevoked, because
	}
	return g
}

// withoutResource returns g after the end of a resource.
func (g Grant) withoutResource(resource, because string) Grant {
	switch {
	case g.State == GrantRevoked || !slices.Contains(g.Resources, resource):
		return g
	case len(g.Resources) == 1:
		return g.revoked(because)
	}
	g.Resources = slices.DeleteFunc(slices.Clone(g.Resources), func(uri string) bool { return uri == resource })
	if len(g.Access) > 0 {
		g.Access = g.Access.without(resource)
		left := g.Access.Scopes()
		g.Scopes = slices.DeleteFunc(slices.Clone(g.Scopes), func(scope string) bool { return !slices.Contains(left, scope) })
	}
	if g.State == GrantActive && len(g.Audience) == 0 {
		g.Audience = []string{resource} // otherwise a refresh that names nothing would get another resource
	}
	return g
}

// Confirm makes sure that no failover loses g: the process that wrote it may have failed to get a
// replica's confirmation. Call it before answering from a read record as if it had just been
// written. It sends the write that made the record again, which changes nothing. Without replicas
// it costs nothing. On [ErrConflict] the copy of the database that answers now has lost the
// write, and the grant that is there is returned.
func (s *Store) Confirm(ctx context.Context, g Grant) (Grant, error) {
	item, err := s.put(ctx, Put{Key: key(kindGrant, g.ID), If: Unchanged(g.version), Operation: g.version, Confirmation: true})
	switch {
	case err == nil:
		return g, nil
	case errors.Is(err, ErrConflict):
		return s.instead(g.ID, item)
	}
	return Grant{}, unavailable("confirm", err)
}

// instead returns the grant that was found in place of the expected one, and [ErrConflict]; if
// there is none any more, [ErrNotFound].
func (s *Store) instead(id string, item Item) (Grant, error) {
	if item.Version == (Version{}) {
		return Grant{}, ErrNotFound
	}
	var g Grant
	if err := s.decode(kindGrant, id, item, &g); err != nil {
		return Grant{}, err
	}
	g.version = item.Version
	return g, ErrConflict
}

// RevokeUser revokes every grant of a person, and forgets what the person decided to be asked no
// more about. A grant whose record cannot be read is left alone; the error reports it when all
// others are revoked.
func (s *Store) RevokeUser(ctx context.Context, subject, because string) error {
	return s.forgetting(ctx, userConsents(subject), func() error { return s.revokeAll(ctx, userGrants(subject), because) })
}

// RevokeClient revokes every grant of a client, like [Store.RevokeUser].
func (s *Store) RevokeClient(ctx context.Context, clientID, because string) error {
	return s.forgetting(ctx, clientConsents(clientID), func() error { return s.revokeAll(ctx, clientGrants(clientID), because) })
}

// revokeAll revokes the grants in an index and empties the index.
func (s *Store) revokeAll(ctx context.Context, index, because string) error {
	var left error
	for entry, err := range s.indexed(ctx, index) {
		if err != nil {
			return err
		}
		err = s.revokeListed(ctx, idOf(entry), because)
		if errors.Is(err, ErrRecord) {
			left = err
			continue
		}
		if err != nil {
			return err
		}
		if err := s.indexRemove(ctx, index, entry); err != nil {
			return err
		}
	}
	return left
}

// forestallTime is longer than CreateGrant can take.
const forestallTime = time.Minute

// revokeListed revokes a grant that an index lists. If there is none, it may be about to be
// created: a revoked record in its place prevents that.
func (s *Store) revokeListed(ctx context.Context, id, because string) error {
	err := s.revoke(ctx, id, because)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	now := s.now()
	none := Grant{
		ID: id, State: GrantRevoked, Created: now, RevokedBecause: because,
		Lifetime: Lifetime{Expires: now.Add(forestallTime)},
	}
	_, err = s.write(ctx, none.record(""), Absent)
	if errors.Is(err, ErrConflict) { // created meanwhile, or expired and still there
		return s.Revoke(ctx, id, because)
	}
	return err
}
