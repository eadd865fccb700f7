package storage

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
)

// Unused clients with an end are listed by their creation in one list of all, one of the same
// software, and one of the same network. The others are listed by their last use, or by their
// creation if they are unused.
var (
	clientsByUse  = key("clients", "by-use")
	clientsUnused = key("clients", "unused")
)

func softwareUnused(software string) string { return key("software-unused", software) }
func networkUnused(network string) string   { return key("network-unused", network) }

// groupMark separates the id, the software and the network in an entry of a list of unused
// clients. No client id contains it.
const groupMark = "\x00"

// listed returns the entries of a client. The entry in the list of all names the software and the
// network, so that the entries in their lists can be found from it when the client is gone.
// Therefore it is added first and removed last.
func (c Client) listed() []Listing {
	switch {
	case c.Removed != nil:
		return nil
	case c.Expires.IsZero() && c.LastUsed.IsZero():
		return []Listing{{clientsByUse, entryOf(c.Created, c.ID)}}
	case c.Expires.IsZero():
		return []Listing{{clientsByUse, entryOf(c.LastUsed, c.ID)}}
	}
	return unusedEntries(entryOf(c.Created, c.ID), c.Software, c.Network)
}

func unusedEntries(entry, software, network string) []Listing {
	listed := append(make([]Listing, 0, 3), Listing{clientsUnused, entry})
	switch {
	case network != "":
		listed[0].Entry = entry + groupMark + software + groupMark + network
	case software != "":
		listed[0].Entry = entry + groupMark + software
	}
	if software != "" {
		listed = append(listed, Listing{softwareUnused(software), inGroup(entry, network)})
	}
	if network != "" {
		listed = append(listed, Listing{networkUnused(network), entry})
	}
	return listed
}

// inGroup appends a group to an entry, if there is one.
func inGroup(entry, group string) string {
	if group == "" {
		return entry
	}
	return entry + groupMark + group
}

// entriesWith returns the entries that belong together with one in a list of clients.
func entriesWith(index, entry string) []Listing {
	if index != clientsUnused {
		return []Listing{{index, entry}}
	}
	entry, groups, _ := strings.Cut(entry, groupMark)
	software, network, _ := strings.Cut(groups, groupMark)
	return unusedEntries(entry, software, network)
}

// clientOf returns the id of the client that an entry names.
func clientOf(entry string) string {
	id, _, _ := strings.Cut(entry[min(entryTimeLen, len(entry)):], groupMark)
	return id
}

// unlist removes entries except some, the last one first.
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

// Clients lists the clients on record: first unused clients with an end, by their creation, then
// the others as [Store.UsedClients] does. One that is used meanwhile may come twice. A record
// that cannot be read is an error in its place; the iteration may go on after it.
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

// UsedClients lists the clients without an end, the longest unused first, like [Store.Clients].
// Those that were created without an end are among them: their LastUsed may be zero, and their
// creation counts instead.
func (s *Store) UsedClients(ctx context.Context) iter.Seq2[Client, error] {
	return s.clients(ctx, clientsByUse)
}

// clients lists the clients of one list and removes stale entries from it.
func (s *Store) clients(ctx context.Context, index string) iter.Seq2[Client, error] {
	return func(yield func(Client, error) bool) {
		for entry, err := range s.indexed(ctx, index) {
			var c Client
			if err == nil {
				c, err = s.Client(ctx, clientOf(entry))
			}
			if stale(c, err, index, entry) {
				if _, err = s.removeStale(ctx, index, entry, err); err == nil {
					continue
				}
			}
			if !yield(c, err) || ends(err) {
				return
			}
		}
	}
}

// stale reports whether an entry names no client, or differs from those of its record. The client
// and the error are the result of reading it.
func stale(c Client, err error, index, entry string) bool {
	return errors.Is(err, ErrNotFound) || err == nil && !slices.Contains(c.listed(), Listing{index, entry})
}

// removeStale removes a stale entry and those that belong to it; found is the error of reading
// the client. A young entry stays, because its write may be under way, and one whose client has
// expired stays as long as the item is there, because the clock of this process may be wrong.
func (s *Store) removeStale(ctx context.Context, index, entry string, found error) (removed bool, err error) {
	var tombstone *RemovedError
	switch {
	case errors.As(found, &tombstone), found == nil && index != clientsByUse:
		// A client that is removed or used never becomes unused again.
	case s.now().Sub(timeOf(entry)) < forestallTime:
		return false, nil
	case found != nil:
		if there, err := s.exists(ctx, key(kindClient, clientOf(entry))); there || err != nil {
			return false, err
		}
	}
	return true, s.unlist(ctx, entriesWith(index, entry), nil)
}
