package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const tooManyUnused = "too many others like it were registered after it, and nobody had used it"

// Bound says how many clients may be kept that end unless somebody uses them.
type Bound struct {
	// Software and Network say which ones: those of one software, or those that came from
	// one network ([Store.NetworkName]); all of them if both are empty.
	Software, Network string
	// Most is how many of them.
	Most int
	// Spare keeps those that were made or asked for ([Store.AskForClient]) at that time or
	// later, however many they are; zero: nobody.
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

// spares reports whether a client, or the one that an entry names, is too young to go.
func (b Bound) spares(at time.Time) bool { return !b.Spare.IsZero() && !at.Before(b.Spare) }

// Unused returns how many clients a bound is about, some of which may have ended.
func (s *Store) Unused(ctx context.Context, b Bound) (int, error) { return s.indexLen(ctx, b.index()) }

// BoundUnused removes clients that end unless somebody uses them, the oldest first, until
// at most so many are left; of one software, those go first that came from the network
// from which most came. It returns how many it removed, and whether there are still too
// many because they are spared. However many do that at once, the newest ones stay. One
// that cannot be read stays and does not count, which the error tells when all others are
// removed. Called once for each client that is created, it also keeps the list short when
// there are few.
func (s *Store) BoundUnused(ctx context.Context, b Bound) (removed int, full bool, err error) {
	page, err := s.indexPage(ctx, b.index(), "", pageSize)
	if err != nil {
		return 0, false, err
	}
	n, err := s.indexLen(ctx, b.index())
	if err != nil {
		return 0, false, err
	}
	if n <= b.Most {
		return 0, false, s.tidyUnused(ctx, b.index(), page)
	}
	return s.removeUntil(ctx, b)
}

// removeUntil removes clients until at most so many are left.
func (s *Store) removeUntil(ctx context.Context, b Bound) (removed int, full bool, err error) {
	var done tally
	for after := ""; ; {
		candidates, err := s.candidates(ctx, b, after)
		if err != nil {
			return done.removed, false, err
		}
		// The candidates are read before the length: what others remove in between makes it
		// fewer to remove, never more.
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

// tally is what became of the candidates so far.
type tally struct {
	removed, unreadable, spared int
	problem                     error // why some cannot be read
}

// candidates returns entries of a list in the order in which they go: all of one software,
// of the others a page.
func (s *Store) candidates(ctx context.Context, b Bound, after string) ([]string, error) {
	if b.Software == "" {
		return s.indexPage(ctx, b.index(), after, pageSize)
	}
	return s.fullestFirst(ctx, b)
}

// removeOver removes so many of the candidates, and reports whether those that are left are
// spared although they are too many.
func (s *Store) removeOver(ctx context.Context, b Bound, over int, candidates []string, done *tally) (full bool, err error) {
	for _, entry := range candidates {
		if over <= 0 {
			return false, nil
		}
		if b.spares(timeOf(entry)) {
			return true, nil // and so are all that follow
		}
		fate, err := s.removeUnused(ctx, b, entry)
		switch {
		case errors.Is(err, ErrRecord):
			done.problem = err
		case err != nil:
			return false, err
		}
		done.removed, done.unreadable = done.removed+fate.removed, done.unreadable+fate.unreadable
		if fate == (fateOf{}) {
			done.spared++
		}
		over -= fate.removed + fate.stale + fate.unreadable
	}
	return over > 0 && done.spared > 0 && b.Software != "", nil
}

// fullestFirst returns the entries of a list in the order in which they go: always the
// oldest one of the network of which most are left. Those that are spared come last.
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

// fullest is the network that has most, and among equals the one with the oldest.
func fullest(byNetwork map[string][]string, size map[string]int) (network string) {
	first := true
	for name, entries := range byNetwork {
		if first || size[name] > size[network] || size[name] == size[network] && entries[0] < byNetwork[network][0] {
			network, first = name, false
		}
	}
	return network
}

// tidyUnused removes the oldest entries of a list of unused clients if they have ended,
// up to the first one that has not.
func (s *Store) tidyUnused(ctx context.Context, index string, page []string) error {
	for _, entry := range page[:min(tidyLength, len(page))] {
		c, err := s.Client(ctx, clientOf(entry))
		if !stale(c, err, index, entry) {
			return nil // it may be one that cannot be read
		}
		if forgotten, err := s.forgetClient(ctx, index, entry, err); err != nil || !forgotten {
			return err
		}
	}
	return nil
}

// fateOf counts what became of an entry: its client was removed, it was stale, or its client
// stays and does not count. One that was spared is none of them.
type fateOf struct{ removed, stale, unreadable int }

// removeUnused removes a client that a list of unused ones names, or its stale entry.
func (s *Store) removeUnused(ctx context.Context, b Bound, entry string) (fateOf, error) {
	for range changeAttempts {
		c, err := s.Client(ctx, clientOf(entry))
		if stale(c, err, b.index(), entry) {
			forgotten, err := s.forgetClient(ctx, b.index(), entry, err)
			if forgotten {
				return fateOf{stale: 1}, err
			}
			return fateOf{unreadable: 1}, err
		}
		if err == nil && b.spares(c.Asked) {
			return fateOf{}, nil
		}
		if err == nil {
			err = s.RemoveClient(ctx, c, tooManyUnused)
		}
		switch {
		case err == nil:
			return fateOf{removed: 1}, nil
		case !errors.Is(err, ErrConflict):
			return fateOf{unreadable: 1}, err
		}
	}
	return fateOf{unreadable: 1}, fmt.Errorf("storage: remove client: %w: the client kept changing", ErrUnavailable)
}
