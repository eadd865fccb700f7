package storage

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"time"

	"gatehouse.example/internal/limited"
)

// Count is one count of a rate (GCRA), and what one operation does to it. A count owes a time: that
// after which nothing of what was spent is left of it. It sinks by itself, and is never more than
// Per.
type Count struct {
	// Area is 0 to [CountAreas] less one. Counts of different areas never share room.
	Area int
	// Name is that of the count, of any length.
	Name string
	// Per is the most that the count may owe, at most [CountMost]. The same count may be given with another Per.
	Per time.Duration
	// Need must fit: the operation happens if what the count owes and Need are at most Per together,
	// or if it owes nothing.
	Need time.Duration
	// Spend is added to what the count owes, up to Per; if it is negative, so much is given back.
	Spend time.Duration
}

const (
	// CountAreas is the number of areas of a pool.
	CountAreas = 4
	// CountMost is the greatest Per of a count. What owes more was counted before the clock of the
	// backend was set back, and is forgotten.
	CountMost = time.Hour
)

// Counting is one operation on counts of a pool: all happen or none. A pool takes constant memory,
// so counts may share room with others of their area, and then owe what those owe: never less than
// what was spent on them. A pool may be forgotten, by a restart or when another copy takes over.
// Time is that of the backend, so the clocks of processes do not matter.
type Counting struct {
	// Pool is the name of the pool. There are few of them: nobody outside chooses it.
	Pool   string
	Counts []Count
}

// Counted is the outcome of a [Counting].
type Counted struct {
	// Done says whether everything that was needed fitted. Otherwise nothing was changed.
	Done bool
	// Owed is what each count owes after the operation, in the order of the counts.
	Owed []time.Duration
}

// Count applies one operation to the counts of a pool, for all processes that use the store, in one
// round trip. What it does is forgotten rather than waited for when another copy of the database
// takes over. Names do not appear in the database: there they are MACs under the first master key.
// An error wraps [ErrUnavailable]; then it may or may not have been applied.
func (s *Store) Count(ctx context.Context, c Counting) (Counted, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	named, err := s.countNames(c.Counts)
	if err != nil {
		return Counted{}, err
	}
	done, err := s.backend.Count(attempt, Counting{Pool: c.Pool, Counts: named})
	if err != nil {
		return Counted{}, unavailable("count", err)
	}
	return done, nil
}

// countNames returns counts with the names that they have in the database.
func (s *Store) countNames(counts []Count) ([]Count, error) {
	if len(s.sealer.keys) == 0 {
		return counts, nil
	}
	key, err := hkdf.Key(sha256.New, s.sealer.keys[0].secret, nil, string(s.sealer.associated("gatehouse name of a count", "")), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("storage: name of a count: %w", err)
	}
	mac, named := hmac.New(sha256.New, key), make([]Count, len(counts))
	for i, c := range counts {
		mac.Reset()
		mac.Write([]byte(c.Name))
		named[i] = c
		named[i].Name = string(mac.Sum(nil)[:16])
	}
	return named, nil
}
