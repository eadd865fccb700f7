package dcr

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
)

// Resolve returns the client with a client_id: a configured client, one from the store, or
// the client that the metadata document at this address describes. A pinned document is not
// fetched. The error is [storage.ErrNotFound] for an unknown id, a [DocumentError] for a
// document that cannot be used, and [ErrUnreachable] for one that cannot be read now. A
// malformed id is refused without a read of the store. Resolve also returns disabled clients.
// The caller must not change the slices of the client, which other goroutines may read.
//
// A change that another process made takes effect after at most 5 seconds. A document is
// cached for as long as its host allows, but at least a minute and at most a day.
func (cs *Clients) Resolve(ctx context.Context, id string) (storage.Client, error) {
	return cs.ResolveWith(ctx, id, func(*storage.Reading) {})
}

// ResolveWith is [Clients.Resolve] for a client after which other records are needed: if it has to be
// read from the store, ask is called once, and what it asks for is read in the same round trip.
func (cs *Clients) ResolveWith(ctx context.Context, id string, ask func(*storage.Reading)) (storage.Client, error) {
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
	if client, ok := cs.cache.get(id, cs.now()); ok {
		return client, nil
	}
	read := cs.store.Reading()
	client := cs.CurrentWith(read, id)
	ask(read)
	if err := read.Read(ctx); err != nil {
		return storage.Client{}, fmt.Errorf("dcr: client: %w", err)
	}
	return client(ctx)
}

// maxIDLength bounds a client_id in bytes. The ids of registered clients have 22.
const maxIDLength = 128

// validID reports whether id can be a client_id in the store: unreserved characters only
// (RFC 3986 section 2.3), which are the same raw and percent-encoded.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDLength && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", c)
	})
}

const (
	// cacheTime is the greatest age of a cached client.
	cacheTime = 5 * time.Second
	// cacheSize and cacheBytes bound the number of clients in one generation of the cache
	// and their size.
	cacheSize  = 1024
	cacheBytes = 8 << 20
)

// cache holds clients that were found, for a short time. Unknown ids are never cached,
// because requests choose them.
type cache struct{ kept *generations[*cached] }

type cached struct {
	client  storage.Client
	fetched atomic.Int64 // in nanoseconds since 1970
}

func newCache() cache { return cache{newGenerations[*cached](cacheSize, cacheBytes)} }

func (c cache) get(id string, now time.Time) (storage.Client, bool) {
	entry, ok := c.kept.get(id)
	if !ok {
		return storage.Client{}, false
	}
	age := now.Sub(time.Unix(0, entry.fetched.Load()))
	// If the clock was set back, the age is negative and the entry is not used.
	return entry.client, age >= 0 && age < cacheTime
}

// keep keeps a client that was read, and returns it. If it is there already and was not changed, that
// one is returned, and counts as read now.
func (c cache) keep(client *storage.Client, now time.Time) storage.Client {
	entry, ok := c.kept.get(client.ID)
	if ok && client.Same(&entry.client) {
		entry.fetched.Store(now.UnixNano())
		return entry.client
	}
	entry = &cached{client: detached(*client)}
	entry.fetched.Store(now.UnixNano())
	c.kept.put(client.ID, entry, int(weigh(*client)))
	return entry.client
}

// What is not text in the record of a client takes some weighsEmpty bytes, and each text
// weighsText bytes beside itself.
const (
	weighsEmpty = 230
	weighsText  = 6
)

// weigh returns the approximate size of a client in bytes, in the store and in memory.
func weigh(c storage.Client) int64 {
	m, n := c.Metadata, weighsEmpty+len(c.Metadata.JWKS)
	for _, text := range [...]string{
		c.ID, c.SoftwareStatement, c.Software, c.Network, c.Vouched, m.TokenEndpointAuthMethod, m.TokenEndpointAuthSigningAlg, m.ClientName,
		m.ClientURI, m.LogoURI, m.Scope, m.TOSURI, m.PolicyURI, m.JWKSURI, m.SoftwareID, m.SoftwareVersion, m.ApplicationType,
	} {
		n += len(text)
	}
	for _, list := range [...][]string{c.AuthMethods, m.RedirectURIs, m.GrantTypes, m.ResponseTypes, m.Contacts} {
		for _, text := range list {
			n += len(text) + weighsText
		}
	}
	for name, text := range c.Localized {
		n += len(name) + len(text) + weighsText
	}
	return int64(n)
}

// drop removes a client that this process changed or removed. A concurrent request that read
// the client before the change may still put it back, until the entry expires.
func (c cache) drop(id string) { c.kept.drop(id) }
