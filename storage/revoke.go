package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// revokeAttempts bounds how often a revocation that keeps losing against rotations is
// repeated before the store is called unavailable.
const revokeAttempts = 64

// Revoke ends the family for good. It returns nil when the record says revoked or is
// gone, and an error that wraps [ErrUnavailable] when that is not confirmed.
func (s *Store) Revoke(ctx context.Context, id, because string) error {
	if err := s.revoke(ctx, id, because); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// revoke is Revoke, except that it tells when there is no grant.
func (s *Store) revoke(ctx context.Context, id, because string) error {
	g, err := s.Grant(ctx, id)
	for range revokeAttempts {
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
		if g.State == GrantRevoked {
			return s.confirm(ctx, g)
		}
		next := g
		next.State = GrantRevoked
		next.RevokedBecause = because
		if g, err = s.swapAnywhere(ctx, g, next); err == nil {
			return nil
		}
	}
	return fmt.Errorf("storage: revoke: %w: the grant kept changing", ErrUnavailable)
}

// confirm makes sure that what g says will not be forgotten: whoever wrote it may have
// been told that no replica has it yet. Sending the write that made the record again
// changes nothing, and its answer is that of the first one.
func (s *Store) confirm(ctx context.Context, g Grant) error {
	_, err := s.put(ctx, Put{Key: key(kindGrant, g.ID), If: Unchanged(g.version), Operation: g.version})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConflict): // nothing changes a revoked grant: it has ended
		return ErrNotFound
	}
	return unavailable("confirm", err)
}

// RevokeUser revokes every grant of a person.
func (s *Store) RevokeUser(ctx context.Context, subject, because string) error {
	return s.revokeAll(ctx, userGrants(subject), because)
}

// RevokeClient revokes every grant of a client.
func (s *Store) RevokeClient(ctx context.Context, clientID, because string) error {
	return s.revokeAll(ctx, clientGrants(clientID), because)
}

func (s *Store) revokeAll(ctx context.Context, index, because string) error {
	for entry, err := range s.indexed(ctx, index) {
		if err != nil {
			return err
		}
		if err := s.revokeListed(ctx, idOf(entry), because); err != nil {
			return err
		}
		if err := s.indexRemove(ctx, index, entry); err != nil {
			return err
		}
	}
	return nil
}

// forestallTime is longer than CreateGrant can take.
const forestallTime = time.Minute

// revokeListed revokes a grant that an index lists. If there is none, it may be about
// to be created: a revoked record in its place forestalls that.
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
	if errors.Is(err, ErrConflict) { // created meanwhile, or expired and still in the way
		return s.Revoke(ctx, id, because)
	}
	return err
}
