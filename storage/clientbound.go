package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const tooManyUnused = "too many others like it were registered after it, and it had not been used"

// Bound is the largest number of some clients that end unless they are used.
type Bound struct {
	// Software and Network select the clients: those of one software, or those from one network
	// ([Store.NetworkName]); all of them if both are empty.
	Software, Network string
	// Most is the largest number of them.
	Most int
	// Spare keeps those that were created or asked for ([Store.AskForClient]) at that time or
	// later, however many they are; zero spares none.
	Spare time.Time
}

func (b Bound) index() string {
	switch {
	case b.Software != "":
		return softwareUnused(b.Software)
	case b.Network != "":
		return networkUnused(b.Network)
	}
	return clientsUnused
}

// spares reports whether a client or entry of that time is too young to be removed.
func (b Bound) spares(at time.Time) bool { return !b.Spare.IsZero() && !at.Before(b.Spare) }

// Unused returns the number of clients that a bound selects; some of them may have ended.
func (s *Store) Unused(ctx context.Context, b Bound) (int, error) { return s.indexLen(ctx, b.index()) }

// BoundUnused removes unused clients, the oldest first, until at most b.Most are left. Of one
// software, those from the network with most of them go first. It returns how many it removed,
// and whether there are still too many because the rest is spared. However many processes do that
// at once, the newest clients stay. A client that cannot be read stays and does not count; the
// error reports it when all others are removed. Called once for each client that is created,
// BoundUnused also keeps the list short when there are few.
func (s *Store) BoundUnused(ctx context.Context, b Bound) (removed int, full bool, err error) {
	page, err := s.indexPage(ctx, b.index(), "", tidyLength)
	if err != nil {
		return 0, false, err
	}
	n, err := s.indexLen(ctx, b.index())
	if err != nil {
		return 0, false, err
	}
	switch {
	case n <= b.Most:
		return 0, false, s.tidyUnused(ctx, b.index(), page)
	case len(page) > 0 && b.spares(timeOf(page[0])):
		return 0, true, nil // and so are all that follow: nothing else is read while many register
	}
	return s.removeUntil(ctx, b)
}

// removeUntil removes clients until at most b.Most are left.
func (s *Store) removeUntil(ctx context.Context, b Bound) (removed int, full bool, err error) {
	var done tally
	for after := ""; ; {
		candidates, err := s.candidates(ctx, b, after)
		if err != nil {
			return done.removed, false, err
		}
		// The candidates are read before the length: what others remove in between makes it fewer
		// to remove, never more.
		n, err := s.indexLen(ctx, b.index())
		if err != nil {
			return done.removed, false, err
		}
		over := n - b.Most - done.unreadable
		if over <= 0 || len(candidates) == 0 {
			return done.removed, over > 0 && done.spared > 0, done.problem
		}
		if full, err = s.removeOver(ctx, b, over, candidates, &done); full || err != nil || b.Software != "" {
			return done.removed, full, cmp.Or(err, done.problem)
		}
		after = candidates[len(candidates)-1]
	}
}

// tally counts the candidates so far by their outcome.
type tally struct {
	removed, unreadable, spared int
	problem                     error // why some cannot be read
}

// candidates returns entries of a list in the order of their removal: all of one software, of the
// others a page.
func (s *Store) candidates(ctx context.Context, b Bound, after string) ([]string, error) {
	if b.Software == "" {
		return s.indexPage(ctx, b.index(), after, pageSize)
	}
	return s.fullestFirst(ctx, b)
}

// removeOver removes that many of the candidates, and reports whether the rest is spared although
// there are too many.
func (s *Store) removeOver(ctx context.Context, b Bound, over int, candidates []string, done *tally) (full bool, err error) {
	for _, entry := range candidates {
		if over <= 0 {
			return false, nil
		}
		if b.spares(timeOf(entry)) {
			return true, nil // and so are all that follow
		}
		got, err := s.removeUnused(ctx, b, entry)
		switch {
		case errors.Is(err, ErrRecord):
			done.problem = err
		case err != nil:
			return false, err
		}
		done.removed, done.unreadable = done.removed+got.removed, done.unreadable+got.unreadable
		if got == (outcome{}) {
			done.spared++
		}
		over -= got.removed + got.stale + got.unreadable
	}
	return over > 0 && done.spared > 0 && b.Software != "", nil
}

// fullestFirst returns the entries of a list in the order of their removal: always the oldest one
// of the network with most entries left. Those that are spared come last.
func (s *Store) fullestFirst(ctx context.Context, b Bound) ([]string, error) {
	byNetwork, size := map[string][]string{}, map[string]int{}
	var ordered, spared []string
	for entry, err := range s.indexed(ctx, b.index()) {
		if err != nil {
			return nil, err
		}
		_, network, _ := strings.Cut(entry, groupMark)
		size[network]++
		if b.spares(timeOf(entry)) {
			spared = append(spared, entry)
			continue
		}
		byNetwork[network] = append(byNetwork[network], entry)
	}
	for len(byNetwork) > 0 {
		next := fullest(byNetwork, size)
		ordered = append(ordered, byNetwork[next][0])
		if byNetwork[next] = byNetwork[next][1:]; len(byNetwork[next]) == 0 {
			delete(byNetwork, next)
		}
		size[next]--
	}
	return append(ordered, spared...), nil
}

// fullest returns the network with most entries, and among equals the one with the oldest.
func fullest(byNetwork map[string][]string, size map[string]int) (network string) {
	first := true
	for name, entries := range byNetwork {
		if first || size[name] > size[network] || size[name] == size[network] && entries[0] < byNetwork[network][0] {
			network, first = name, false
		}
	}
	return network
}

// tidyUnused removes the oldest entries of a list of unused clients whose clients have ended, up
// to the first that has not.
func (s *Store) tidyUnused(ctx context.Context, index string, page []string) error {
	for _, entry := range page[:min(tidyLength, len(page))] {
		c, err := s.Client(ctx, clientOf(entry))
		if !stale(c, err, index, entry) {
			return nil // it may be one that cannot be read
		}
		if removed, err := s.removeStale(ctx, index, entry, err); err != nil || !removed {
			return err
		}
	}
	return nil
}

// outcome counts what happened to an entry: its client was removed, it was stale, or its client
// could not be read, so that it stays and does not count. For a spared one it is zero.
type outcome struct{ removed, stale, unreadable int }

// removeUnused removes an unused client by its entry, or the entry if it is stale.
func (s *Store) removeUnused(ctx context.Context, b Bound, entry string) (outcome, error) {
	for range changeAttempts {
		c, err := s.Client(ctx, clientOf(entry))
		if stale(c, err, b.index(), entry) {
			removed, err := s.removeStale(ctx, b.index(), entry, err)
			if removed {
				return outcome{stale: 1}, err
			}
			return outcome{unreadable: 1}, err
		}
		if err == nil && b.spares(c.Asked) {
			return outcome{}, nil
		}
		if err == nil {
			err = s.RemoveClient(ctx, c, tooManyUnused)
		}
		switch {
		case err == nil:
			return outcome{removed: 1}, nil
		case !errors.Is(err, ErrConflict):
			return outcome{unreadable: 1}, err
		}
	}
	return outcome{unreadable: 1}, fmt.Errorf("storage: remove client: %w: the client kept changing", ErrUnavailable)
}
