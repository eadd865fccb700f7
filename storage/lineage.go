package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gatehouse.example/internal/limited"
)

// lineageAttempts bounds how often a write is repeated because another lineage answers.
const lineageAttempts = 3

// onLineage calls write with a lineage. If it is empty, or another one answers, onLineage asks
// for the present one and calls write again.
func (s *Store) onLineage(ctx context.Context, lineage Lineage, write func(Lineage) error) error {
	for range lineageAttempts {
		if lineage == "" {
			var err error
			if lineage, err = s.lineage(ctx); err != nil {
				return err
			}
		}
		if err := write(lineage); !errors.Is(err, ErrLineage) {
			return err
		}
		lineage = ""
	}
	return fmt.Errorf("storage: %w: one copy of the database after the other takes over", ErrUnavailable)
}

func (s *Store) lineage(ctx context.Context) (Lineage, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	l, err := s.backend.Lineage(attempt)
	if err != nil {
		return "", unavailable("lineage", err)
	}
	return l, nil
}

// restored begins every lineage that began with a backup.
const restored = "backup "

// RestoredLineage draws the lineage of a database that goes on from a backup. The backup may be of
// any age, so [Store.Remember] believes in more lost rotations there than after a failover.
func RestoredLineage(random io.Reader) (Lineage, error) {
	id := make([]byte, 16)
	if _, err := io.ReadFull(random, id); err != nil {
		return "", fmt.Errorf("storage: random: %w", err)
	}
	return Lineage(restored + hex.EncodeToString(id)), nil
}

// EndedByRestoring returns what the keys of the items begin with that must be removed when a
// database goes on from a backup: what a person did in a browser after it, such as signing out, is
// not known. Codes end with the lineage.
func EndedByRestoring() []string { return []string{key(kindSession, ""), key(kindTransaction, "")} }

// maxLost is how many rotations of one grant a failover may have lost for its refresh token still
// to be accepted. A client that rotates once in some minutes does not get further while a replica
// lags.
const maxLost = 8

// Remember returns g as it was before a failover lost its last rotations, for a genuine refresh
// token of a later generation than that of g: the token proves that they happened. It returns
// false when the record was written in the lineage that answers, which has lost nothing, or when
// more is missing than a failover explains. A backup explains one rotation for each second since the
// last one on record. Nothing is written before [Store.Rotate].
func (s *Store) Remember(ctx context.Context, g Grant, generation uint32) (Grant, bool, error) {
	if g.State != GrantActive || g.Lineage == "" || generation <= g.Generation {
		return Grant{}, false, nil
	}
	now, err := s.lineage(ctx)
	if err != nil || now == "" || now == g.Lineage || int64(generation-g.Generation) > s.mayLose(g, now) {
		return Grant{}, false, err
	}
	g.Generation, g.Lineage = generation, now
	return g, true, nil
}

// mayLose returns how many rotations of g may be missing in a lineage that g was not written in.
func (s *Store) mayLose(g Grant, now Lineage) int64 {
	if !strings.HasPrefix(string(now), restored) {
		return maxLost
	}
	return max(maxLost, int64(s.now().Sub(g.Rotated)/time.Second))
}
