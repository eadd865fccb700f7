package admin

import (
	"context"
	"errors"
	"time"

	"gatehouse.example/storage"
)

// Grant is a grant as it is shown: without its seed, and without the hash of its
// code.
type Grant struct {
	ID         string   `json:"id"`
	State      string   `json:"state"`
	User       string   `json:"user"`
	Subject    string   `json:"subject"`
	ClientID   string   `json:"client_id"`
	ClientName string   `json:"client_name,omitempty"`
	Resources  []string `json:"resources"`
	Scopes     []string `json:"scopes"`
	// Access says which scopes count at which resource. Grants from before there were pairs
	// have none: there each scope counts at each resource that defines it.
	Access storage.Access `json:"access,omitempty"`

	Created       time.Time `json:"created"`
	LastRefreshed time.Time `json:"last_refreshed,omitzero"`
	// Ends is when the grant is over if nobody refreshes or revokes it.
	Ends           time.Time `json:"ends,omitzero"`
	RevokedBecause string    `json:"revoked_because,omitempty"`
}

// GrantOf returns what is shown of a grant to a client of that name, as it is now.
func GrantOf(g storage.Grant, clientName string, now time.Time) Grant {
	r := Grant{
		ID: g.ID, State: stateOf(g, now), User: g.UserName, Subject: g.Subject, ClientID: g.ClientID, ClientName: clientName,
		Resources: append([]string{}, g.Resources...), Scopes: append([]string{}, scopesOf(g)...), Access: g.Access,
		Created: g.Created.UTC(), Ends: endOf(g).UTC(), RevokedBecause: g.RevokedBecause,
	}
	if g.Generation > 0 {
		r.LastRefreshed = g.Rotated.UTC()
	}
	return r
}

// scopesOf are the scopes of a grant, at whichever of its resources.
func scopesOf(g storage.Grant) []string {
	if len(g.Access) > 0 {
		return g.Access.Scopes()
	}
	return g.Scopes
}

// expired is the state of a grant that can be refreshed no more. It is on record as long
// as one of its access tokens may live.
const expired = "expired"

func stateOf(g storage.Grant, now time.Time) string {
	if g.State == storage.GrantActive && !now.Before(endOf(g)) {
		return expired
	}
	return string(g.State)
}

// endOf is when a grant is over by itself; zero if it is revoked. A grant that has
// refresh tokens is over when they are, another one with its access tokens.
func endOf(g storage.Grant) time.Time {
	end := g.AccessUntil
	switch {
	case g.State == storage.GrantRevoked:
		return time.Time{}
	case g.State == storage.GrantCode:
		return g.CodeExpires
	case g.Refreshable:
		end = g.IdleExpires
	}
	if end.After(g.Expires) {
		return g.Expires
	}
	return end
}

// ClientNames finds what clients call themselves, for lists of grants. It remembers some of
// them, and is for one goroutine.
type ClientNames struct {
	store *storage.Store
	names map[string]string // by id
}

// NewClientNames returns one that remembers nothing yet.
func NewClientNames(store *storage.Store) *ClientNames {
	return &ClientNames{store: store, names: map[string]string{}}
}

// maxNames bounds how many names of clients are remembered.
const maxNames = 1024

// Of returns what a client calls itself, or nothing if it has no record, or none that can be
// read.
func (n *ClientNames) Of(ctx context.Context, clientID string) (string, error) {
	if name, ok := n.names[clientID]; ok {
		return name, nil
	}
	client, err := n.store.Client(ctx, clientID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrRecord) {
		return "", err
	}
	if len(n.names) >= maxNames {
		clear(n.names)
	}
	n.names[clientID] = client.Metadata.ClientName
	return client.Metadata.ClientName, nil
}
