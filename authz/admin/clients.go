package admin

import (
	"context"
	"iter"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Client is a client as it is shown: with all that it says about itself, and
// without hashes.
type Client struct {
	ID       string               `json:"client_id"`
	Secret   string               `json:"client_secret,omitempty"` // when it is made, once
	Source   storage.ClientSource `json:"source"`
	State    string               `json:"state"`
	Software string               `json:"software,omitempty"`
	Created  time.Time            `json:"created"`
	LastUsed time.Time            `json:"last_used,omitzero"`
	// Ends is when the client is gone if nobody uses it.
	Ends      time.Time         `json:"ends,omitzero"`
	Localized map[string]string `json:"localized,omitempty"`
	metadata.Client
}

// ClientOf returns what is shown of a client.
func ClientOf(c storage.Client) Client {
	r := Client{
		ID: c.ID, Source: c.Source, State: "unused", Software: c.Software, Created: c.Created.UTC(), LastUsed: c.LastUsed.UTC(),
		Ends: c.Expires.UTC(), Localized: c.Localized, Client: c.Metadata,
	}
	switch {
	case c.Disabled:
		r.State = "disabled"
	case !c.LastUsed.IsZero():
		r.State = "active"
	}
	return r
}

// AddClient stores a client that the operator knows, under the rules of [dcr.Add]: without an
// id it gets one, and one that authenticates with a secret gets that, which is shown this once.
// The error wraps [storage.ErrConflict] if the id is taken.
func AddClient(ctx context.Context, store *storage.Store, id string, m metadata.Client) (Client, error) {
	c, secret, err := dcr.Add(ctx, store, storage.Client{ID: id, Metadata: m})
	if err != nil {
		return Client{}, err
	}
	added := ClientOf(c)
	added.Secret = secret
	return added, nil
}

// Clients lists the clients on record, or those of one software unless that is "": first those
// that nobody has used, then by last use. It reads while the caller works. A record that cannot
// be read is an error in its place that wraps [storage.ErrRecord]; every other error ends the
// list.
func Clients(ctx context.Context, store *storage.Store, software string) iter.Seq2[Client, error] {
	return func(yield func(Client, error) bool) {
		for c, err := range shown(store.Clients(ctx), ClientOf) {
			if err == nil && software != "" && c.Software != software {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// FindClient returns one client. The error wraps [storage.ErrNotFound] if there is none, and
// is a [storage.RemovedError] for one that was removed lately.
func FindClient(ctx context.Context, store *storage.Store, id string) (Client, error) {
	c, err := store.Client(ctx, id)
	return ClientOf(c), err
}

// DisableClient locks a client out, for good, and revokes its grants: see [dcr.Disable].
func DisableClient(ctx context.Context, store *storage.Store, id string) error {
	return dcr.Disable(ctx, store, id)
}

// RemoveClient removes a client and revokes its grants: see [dcr.Remove].
func RemoveClient(ctx context.Context, store *storage.Store, id string) error {
	return dcr.Remove(ctx, store, id)
}

// MintInitialToken makes an initial access token (RFC 7591 section 3), good for so many
// registrations until it expires, and returns it this once: see [dcr.MintInitialToken].
func MintInitialToken(ctx context.Context, store *storage.Store, uses int, expires time.Time) (string, error) {
	return dcr.MintInitialToken(ctx, store, uses, expires)
}
