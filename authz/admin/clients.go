package admin

import (
	"context"
	"iter"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Client is the view of a client: its metadata, without hashes.
type Client struct {
	ID       string               `json:"client_id"`
	Secret   string               `json:"client_secret,omitempty"` // only in the result of AddClient
	Source   storage.ClientSource `json:"source"`
	State    string               `json:"state"`
	Software string               `json:"software,omitempty"`
	Created  time.Time            `json:"created"`
	LastUsed time.Time            `json:"last_used,omitzero"`
	// Vouched means that the operator vouches for the client, and it has not changed since.
	Vouched bool `json:"vouched,omitempty"`
	// Ends is the time at which the client is removed if it is not used.
	Ends      time.Time         `json:"ends,omitzero"`
	Localized map[string]string `json:"localized,omitempty"`
	metadata.Client
}

// ClientOf returns the view of a client.
func ClientOf(c storage.Client) Client {
	r := Client{
		ID: c.ID, Source: c.Source, State: "unused", Software: c.Software, Created: c.Created.UTC(), LastUsed: c.LastUsed.UTC(),
		Ends: c.Expires.UTC(), Localized: c.Localized, Client: c.Metadata, Vouched: c.Vouched != "" && c.Vouched == dcr.Digest(c),
	}
	switch {
	case c.Disabled:
		r.State = "disabled"
	case !c.LastUsed.IsZero():
		r.State = "active"
	}
	return r
}

// AddClient stores a client for the operator, under the rules of [dcr.Add]. An empty id is
// replaced by a generated one. A client that authenticates with a secret gets a generated
// secret, which is returned only here. The error wraps [storage.ErrConflict] if the id is
// taken.
func AddClient(ctx context.Context, store *storage.Store, id string, m metadata.Client) (Client, error) {
	c, secret, err := dcr.Add(ctx, store, storage.Client{ID: id, Metadata: m})
	if err != nil {
		return Client{}, err
	}
	added := ClientOf(c)
	added.Secret = secret
	return added, nil
}

// Clients lists the clients on record, or only those of one software if software is not "".
// Clients that were never used come first, then the others by last use. The list is read
// while the caller iterates. For a record that cannot be read, Clients yields an error that
// wraps [storage.ErrRecord] in its place; every other error ends the list.
func Clients(ctx context.Context, store *storage.Store, software string) iter.Seq2[Client, error] {
	return func(yield func(Client, error) bool) {
		for c, err := range views(store.Clients(ctx), ClientOf) {
			if err == nil && software != "" && c.Software != software {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// FindClient returns the client with that id. The error wraps [storage.ErrNotFound] if there
// is none, and is a [storage.RemovedError] for a client that was removed recently.
func FindClient(ctx context.Context, store *storage.Store, id string) (Client, error) {
	c, err := store.Client(ctx, id)
	return ClientOf(c), err
}

// VouchForClient vouches for a registered client as it is now, or takes that back: see [dcr.Vouch].
func VouchForClient(ctx context.Context, store *storage.Store, id string, vouched bool) error {
	return dcr.Vouch(ctx, store, id, vouched)
}

// DisableClient locks a client out permanently and revokes its grants: see [dcr.Disable].
func DisableClient(ctx context.Context, store *storage.Store, id string) error {
	return dcr.Disable(ctx, store, id)
}

// RemoveClient removes a client and revokes its grants: see [dcr.Remove].
func RemoveClient(ctx context.Context, store *storage.Store, id string) error {
	return dcr.Remove(ctx, store, id)
}

// MintInitialToken returns a new initial access token (RFC 7591 section 3) that is valid for
// uses registrations until expires. It cannot be read again: see [dcr.MintInitialToken].
func MintInitialToken(ctx context.Context, store *storage.Store, uses int, expires time.Time) (string, error) {
	return dcr.MintInitialToken(ctx, store, uses, expires)
}
