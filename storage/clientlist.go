package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Clients that end unless somebody uses them are listed by their creation, and once more
// with those of the same software. The others are listed by their last use, or by their
// creation if nobody has used them.
var (
	clientsByUse  = key("clients", "by-use")
	clientsUnused = key("clients", "unused")
)

func softwareUnused(software string) string { return key("software-unused", software) }

// softwareMark stands between the id and the software in an entry of clientsUnused. No
// client id has one.
const softwareMark = "\x00"

// listed are the entries of a client. The entry in the list of all names the software, so
// that whoever removes it finds the entry in the list of the software when the client is
// gone. Therefore it is added first and removed last.
func (c Client) listed() []Listing {
	switch {
	case c.Removed != nil:
		return nil
	case c.Expires.IsZero() && c.LastUsed.IsZero():
		return []Listing{{clientsByUse, entryOf(c.Created, c.ID)}}
	case c.Expires.IsZero():
		return []Listing{{clientsByUse, entryOf(c.LastUsed, c.ID)}}
	}
	return unusedEntries(entryOf(c.Created, c.ID), c.Software)
}

func unusedEntries(entry, software string) []Listing {
	if software == "" {
		return []Listing{{clientsUnused, entry}}
	}
	return []Listing{{clientsUnused, entry + softwareMark + software}, {softwareUnused(software), entry}}
}

// entriesWith are the entries that go with one in a list of clients.
func entriesWith(index, entry string) []Listing {
	if index != clientsUnused {
		return []Listing{{index, entry}}
	}
	entry, software, _ := strings.Cut(entry, softwareMark)
	return unusedEntries(entry, software)
}

// clientOf returns the id of the client that an entry names.
func clientOf(entry string) string {
	id, _, _ := strings.Cut(entry[min(entryTimeLen, len(entry)):], softwareMark)
	return id
}

// unlist removes entries, the last one first, except those that stay.
func (s *Store) unlist(ctx context.Context, listed, except []Listing) error {
	for _, l := range slices.Backward(listed) {
		if slices.Contains(except, l) {
			continue
		}
		if err := s.indexRemove(ctx, l.Index, l.Entry); err != nil {
			return err
		}
	}
	return nil
}

// Clients lists the clients on record: first those that end unless somebody uses them, by
// their creation, then the others as [Store.UsedClients] does. One that is used
// meanwhile may come twice. A record that cannot be read is an error in its place; whoever
// goes on gets the rest.
func (s *Store) Clients(ctx context.Context) iter.Seq2[Client, error] {
	return func(yield func(Client, error) bool) {
		for _, index := range []string{clientsUnused, clientsByUse} {
			for c, err := range s.clients(ctx, index) {
				if !yield(c, err) || ends(err) {
					return
				}
			}
		}
	}
}

// UsedClients lists the clients that do not end by themselves, the longest unused first,
// like [Store.Clients]. Those that were made without an end are among them: their
// LastUsed may be zero, and their creation counts instead.
func (s *Store) UsedClients(ctx context.Context) iter.Seq2[Client, error] {
	return s.clients(ctx, clientsByUse)
}

// clients walks a list of clients and removes the entries of those that are not in it any
// more.
func (s *Store) clients(ctx context.Context, index string) iter.Seq2[Client, error] {
	return func(yield func(Client, error) bool) {
		for entry, err := range s.indexed(ctx, index) {
			var c Client
			if err == nil {
				c, err = s.Client(ctx, clientOf(entry))
			}
			if stale(c, err, index, entry) {
				if _, err = s.forgetClient(ctx, index, entry, err); err == nil {
					continue
				}
			}
			if !yield(c, err) || ends(err) {
				return
			}
		}
	}
}

// stale reports whether an entry names no client, or not what its record says. The client
// and the error are what reading it returned.
func stale(c Client, err error, index, entry string) bool {
	return errors.Is(err, ErrNotFound) || err == nil && !slices.Contains(c.listed(), Listing{index, entry})
}

// forgetClient removes a stale entry, with those that go with it; found is the error of
// reading the client. A young one stays if the write that it belongs to may be under way,
// and one whose client has expired stays as long as the item is there: our clock may be
// wrong.
func (s *Store) forgetClient(ctx context.Context, index, entry string, found error) (forgotten bool, err error) {
	var removed *RemovedError
	switch {
	case errors.As(found, &removed), found == nil && index != clientsByUse:
		// What is removed or used never becomes unused again.
	case s.now().Sub(timeOf(entry)) < forestallTime:
		return false, nil
	case found != nil:
		if there, err := s.exists(ctx, key(kindClient, clientOf(entry))); there || err != nil {
			return false, err
		}
	}
	return true, s.unlist(ctx, entriesWith(index, entry), nil)
}

const tooManyUnused = "too many others like it were registered after it, and nobody had used it"

// BoundUnused removes the oldest clients that end unless somebody uses them, until at most
// so many are left: of one software, or of all if that is empty. It returns how many it
// removed. However many do that at once, the newest ones stay. One that cannot be read
// stays and does not count, which the error tells when all others are removed. Called
// once for each client that is created, it also keeps the list short when there are few.
func (s *Store) BoundUnused(ctx context.Context, software string, limit int) (removed int, err error) {
	index := clientsUnused
	if software != "" {
		index = softwareUnused(software)
	}
	var unreadable error
	kept, after := 0, ""
	for {
		over, page, err := s.tooMany(ctx, index, after, limit+kept)
		if err == nil && over == 0 {
			err = s.tidyUnused(ctx, index, page)
		}
		if err != nil {
			return removed, err
		}
		if over == 0 {
			return removed, unreadable
		}
		for _, entry := range page[:over] {
			fate, err := s.removeUnused(ctx, index, entry)
			switch {
			case errors.Is(err, ErrRecord):
				unreadable = err
			case err != nil:
				return removed, err
			}
			removed, kept = removed+fate.removed, kept+fate.kept
			after = entry
		}
	}
}

// tooMany returns a page of a list, and how many of its entries are to go so that so many
// are left. The page is read before the length: what others remove in between makes it
// fewer, never more.
func (s *Store) tooMany(ctx context.Context, index, after string, limit int) (over int, page []string, err error) {
	page, err = s.indexPage(ctx, index, after, pageSize)
	if err != nil {
		return 0, nil, err
	}
	n, err := s.indexLen(ctx, index)
	return max(0, min(n-limit, len(page))), page, err
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

// fate counts what became of an entry: its client was removed, or it is still there. An
// entry that was stale is neither.
type fate struct{ removed, kept int }

// removeUnused removes a client that a list of unused ones names, or its stale entry.
func (s *Store) removeUnused(ctx context.Context, index, entry string) (fate, error) {
	for range changeAttempts {
		c, err := s.Client(ctx, clientOf(entry))
		if stale(c, err, index, entry) {
			forgotten, err := s.forgetClient(ctx, index, entry, err)
			if forgotten {
				return fate{}, err
			}
			return fate{kept: 1}, err
		}
		if err == nil {
			err = s.RemoveClient(ctx, c, tooManyUnused)
		}
		switch {
		case err == nil:
			return fate{removed: 1}, nil
		case !errors.Is(err, ErrConflict):
			return fate{kept: 1}, err
		}
	}
	return fate{kept: 1}, fmt.Errorf("storage: remove client: %w: the client kept changing", ErrUnavailable)
}
