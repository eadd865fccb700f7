package storage

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
)

// Clients that end unless somebody uses them are listed by their creation, once more with
// those of the same software, and once more with those that came from the same network.
// The others are listed by their last use, or by their creation if nobody has used them.
var (
	clientsByUse  = key("clients", "by-use")
	clientsUnused = key("clients", "unused")
)

func softwareUnused(software string) string { return key("software-unused", software) }
func networkUnused(network string) string   { return key("network-unused", network) }

// groupMark stands between the id, the software and the network in an entry of a list of
// unused clients. No client id has one.
const groupMark = "\x00"

// listed are the entries of a client. The entry in the list of all names the software and
// the network, so that whoever removes it finds the entries in their lists when the client
// is gone. Therefore it is added first and removed last.
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
	inSoftware := inGroup(entry, network)
	listed := []Listing{{clientsUnused, entry}}
	if software != "" || network != "" {
		listed[0].Entry = inGroup(entry+groupMark+software, network)
	}
	if software != "" {
		listed = append(listed, Listing{softwareUnused(software), inSoftware})
	}
	if network != "" {
		listed = append(listed, Listing{networkUnused(network), entry})
	}
	return listed
}

// inGroup names a group at the end of an entry, if there is one.
func inGroup(entry, group string) string {
	if group == "" {
		return entry
	}
	return entry + groupMark + group
}

// entriesWith are the entries that go with one in a list of clients.
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
