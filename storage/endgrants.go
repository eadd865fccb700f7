package storage

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// endAtOnce is how many grants are ended at the same time.
const endAtOnce = 8

// EndGrants revokes the grants of a person: those of one client, or all if clientID is empty. It
// returns how many it ended, also with an error: then some may be left, and calling it again goes
// on. A grant whose record cannot be read is left alone; the error reports it when all others are
// revoked.
func (s *Store) EndGrants(ctx context.Context, subject, clientID, because string) (ended int, err error) {
	index := userGrants(subject)
	var left error
	after := ""
	for {
		entries, err := s.indexPage(ctx, index, after, pageSize)
		if err != nil {
			return ended, err
		}
		n, err := s.endListed(ctx, index, entries, clientID, because)
		ended += n
		switch {
		case errors.Is(err, ErrRecord) && !errors.Is(err, ErrUnavailable):
			left = err
		case err != nil:
			return ended, err
		}
		if len(entries) < pageSize {
			return ended, left
		}
		after = entries[len(entries)-1]
	}
}

// endListed ends those grants of some entries that are of a client, and removes their entries.
func (s *Store) endListed(ctx context.Context, index string, entries []string, clientID, because string) (ended int, err error) {
	keys := make([]string, len(entries))
	for i, entry := range entries {
		keys[i] = key(kindGrant, idOf(entry))
	}
	items, err := s.getMany(ctx, keys)
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	turn := make(chan struct{}, endAtOnce)
	for i, entry := range entries {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			one, problem := s.endEntry(ctx, index, entry, items[i], clientID, because)
			mu.Lock()
			defer mu.Unlock()
			ended += one
			err = errors.Join(err, problem)
		})
	}
	all.Wait()
	return ended, err
}

// endEntry ends the grant of an entry if it is of a client, and returns 1 if it was alive.
func (s *Store) endEntry(ctx context.Context, index, entry string, item Item, clientID, because string) (int, error) {
	if item.Version == (Version{}) {
		return 0, s.forestall(ctx, index, entry, clientID, because)
	}
	err := s.mayBePlain(ctx, kindGrant, item)
	var g Grant
	if err == nil {
		g, err = s.grantIn(idOf(entry), item)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil // it has expired
	case err != nil:
		return 0, err
	case clientID != "" && g.ClientID != clientID:
		return 0, nil
	}
	alive := 0
	if g.State != GrantRevoked {
		alive = 1
	}
	if err := s.Revoke(ctx, g.ID, because); err != nil {
		return 0, err
	}
	return alive, s.indexRemove(ctx, index, entry)
}

// forestall prevents the creation of a grant that is listed and not there, if it is of a client.
func (s *Store) forestall(ctx context.Context, index, entry, clientID, because string) error {
	if len(entry) <= grantIDLen || s.now().Sub(timeOf(entry)) >= forestallTime {
		return s.indexRemove(ctx, index, entry)
	}
	if clientID != "" {
		page, err := s.indexPage(ctx, clientGrants(clientID), entry[:len(entry)-1], 2)
		if err != nil || !slices.Contains(page, entry) {
			return err
		}
	}
	if err := s.revokeListed(ctx, idOf(entry), because); err != nil {
		return err
	}
	return s.indexRemove(ctx, index, entry)
}
