package storage

import (
	"context"
	"errors"
	"fmt"
)

// lineageAttempts bounds how often a write follows the database from one lineage to the
// next.
const lineageAttempts = 3

// onLineage calls write with the lineage that is believed to answer. When that is
// another one by now, or none is known, it asks and calls again.
func (s *Store) onLineage(ctx context.Context, believed Lineage, write func(Lineage) error) error {
	for range lineageAttempts {
		if believed == "" {
			var err error
			if believed, err = s.lineage(ctx); err != nil {
				return err
			}
		}
		if err := write(believed); !errors.Is(err, ErrLineage) {
			return err
		}
		believed = ""
	}
	return fmt.Errorf("storage: %w: one copy of the database after the other takes over", ErrUnavailable)
}

func (s *Store) lineage(ctx context.Context) (Lineage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.attemptTime)
	defer cancel()
	l, err := s.backend.Lineage(ctx)
	if err != nil {
		return "", unavailable("lineage", err)
	}
	return l, nil
}

// maxForgotten is how many rotations of one grant a failover may have forgotten for its
// refresh token still to be believed. A client that rotates once in some minutes does
// not get further while a replica lags.
const maxForgotten = 8

// Remember returns g as it was before a failover forgot its last rotations, for a
// genuine refresh token of a later generation than g knows: the token proves that they
// happened. It refuses with false when the record was written in the lineage that
// answers, which forgets nothing, or when more is missing than a failover explains.
// Nothing is written: the [Store.Rotate] that follows does.
func (s *Store) Remember(ctx context.Context, g Grant, generation uint32) (Grant, bool, error) {
	if g.State != GrantActive || g.Lineage == "" || generation <= g.Generation || generation-g.Generation > maxForgotten {
		return Grant{}, false, nil
	}
	now, err := s.lineage(ctx)
	if err != nil || now == "" || now == g.Lineage {
		return Grant{}, false, err
	}
	g.Generation, g.Lineage = generation, now
	return g, true, nil
}
