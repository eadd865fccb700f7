package dcr

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// Resolve returns the client with a client_id: a configured one, one from the store, or
// the one that a metadata document at that address describes, which is not fetched if it is pinned. An unknown id is
// [storage.ErrNotFound], and an id that cannot be one costs no trip to the store. A
// document that cannot be used is a [DocumentError], and one that cannot be read just now
// is [ErrUnreachable]. The caller decides what a disabled client may do, and changes
// nothing in the slices of the client, which others may be reading.
//
// A client that was changed or removed elsewhere is seen as it was for up to 5 seconds. A
// document is seen as it was for as long as its host said, between a minute and a day.
func (cs *Clients) Resolve(ctx context.Context, id string) (storage.Client, error) {
	if client, ok := cs.static[id]; ok {
		return client, nil
	}
	if client, ok := cs.pinned[id]; ok {
		return client, nil
	}
	if cs.SupportsDocuments() && isDocument(id) {
		return cs.document(ctx, id)
	}
	if !validID(id) {
		return storage.Client{}, fmt.Errorf("dcr: %w: the client_id is not one", storage.ErrNotFound)
	}
	now := cs.now()
	if client, ok := cs.cache.get(id, now); ok {
		return client, nil
	}
	client, err := cs.store.Client(ctx, id)
	if err != nil {
		return storage.Client{}, fmt.Errorf("dcr: client: %w", err)
	}
	client = detached(client)
	cs.cache.put(client, now)
	return client, nil
}

// maxIDLength bounds a client_id. Those we draw have 22 characters.
const maxIDLength = 128

// validID says whether a string can be a client_id in the store: unreserved characters
// (RFC 3986 section 2.3), which mean the same raw and percent-encoded.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDLength && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", c)
	})
}

const (
	// cacheTime is how old a cached client may be.
	cacheTime = 5 * time.Second
	// cacheSize and cacheBytes are how many clients one generation of the cache holds, and
	// what they weigh.
	cacheSize  = 1024
	cacheBytes = 8 << 20
)

// cache holds clients that were found, for a short time. Clients that do not exist are
// never cached: strangers choose ids.
type cache struct{ kept *generations[cached] }

type cached struct {
	client  storage.Client
	fetched time.Time
}

func newCache() cache { return cache{newGenerations[cached](cacheSize, cacheBytes)} }

func (c cache) get(id string, now time.Time) (storage.Client, bool) {
	entry, ok := c.kept.get(id)
	age := now.Sub(entry.fetched)
	// An age below zero means that the clock was set back: the entry says nothing.
	return entry.client, ok && age >= 0 && age < cacheTime
}

func (c cache) put(client storage.Client, now time.Time) {
	c.kept.put(client.ID, cached{client, now}, int(weigh(client)))
}

// weigh is about how many bytes a client takes, in the store and in memory.
func weigh(c storage.Client) int64 {
	body, err := json.Marshal(c)
	if err != nil {
		return maxBody // it was read from JSON, so this does not happen
	}
	return int64(len(body))
}

// drop forgets a client that was changed or removed here. Who is reading it from the store
// at this moment may still put it back, for as long as an entry lives.
func (c cache) drop(id string) { c.kept.drop(id) }
