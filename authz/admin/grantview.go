package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// Grant is the view of a grant, without its seed and the hash of its code.
type Grant struct {
	ID         string   `json:"id"`
	State      string   `json:"state"`
	User       string   `json:"user"`
	Subject    string   `json:"subject"`
	ClientID   string   `json:"client_id"`
	ClientName string   `json:"client_name,omitempty"`
	Resources  []string `json:"resources"`
	Scopes     []string `json:"scopes"`
	// Access lists which scopes count at which resource. Grants stored by versions without
	// pairs of resource and scope have none: each of their scopes counts at each resource
	// that defines it.
	Access storage.Access `json:"access,omitempty"`

	Created       time.Time `json:"created"`
	LastRefreshed time.Time `json:"last_refreshed,omitzero"`
	// Ends is the time at which the grant ends unless it is refreshed or revoked before.
	Ends           time.Time `json:"ends,omitzero"`
	RevokedBecause string    `json:"revoked_because,omitempty"`
}

// GrantOf returns the view of a grant at the time now. clientName is the name of its client; if it
// is empty, as for a client without a record, the name that the person saw stands in.
func GrantOf(g storage.Grant, clientName string, now time.Time) Grant {
	r := Grant{
		ID: g.ID, State: stateOf(g, now), User: g.UserName, Subject: g.Subject, ClientID: g.ClientID, ClientName: cmp.Or(clientName, g.ClientName),
		Resources: append([]string{}, g.Resources...), Scopes: append([]string{}, scopesOf(g)...), Access: g.Access,
		Created: g.Created.UTC(), Ends: endOf(g).UTC(), RevokedBecause: g.RevokedBecause,
	}
	if g.Generation > 0 {
		r.LastRefreshed = g.Rotated.UTC()
	}
	return r
}

// scopesOf returns the scopes of a grant at all its resources.
func scopesOf(g storage.Grant) []string {
	if len(g.Access) > 0 {
		return g.Access.Scopes()
	}
	return g.Scopes
}

// expired is the state of a grant that cannot be refreshed any more. The record remains while
// one of its access tokens may be valid.
const expired = "expired"

func stateOf(g storage.Grant, now time.Time) string {
	if g.State == storage.GrantActive && !now.Before(endOf(g)) {
		return expired
	}
	return string(g.State)
}

// endOf returns the time at which a grant ends by itself, and zero if it is revoked. A grant
// with refresh tokens ends when they end, another one with its access tokens.
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

// ClientNames finds the names of clients for lists of grants, and caches some of them. It is
// not safe for concurrent use.
type ClientNames struct {
	store *storage.Store
	names map[string]string // by id
}

// NewClientNames returns a ClientNames with an empty cache.
func NewClientNames(store *storage.Store) *ClientNames {
	return &ClientNames{store: store, names: map[string]string{}}
}

// maxNames is the greatest number of cached names.
const maxNames = 1024

// Of returns the name of a client, or "" if it has no readable record.
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
	n.names[clientID] = strings.Clone(client.Metadata.ClientName) // without the rest of the record
	return n.names[clientID], nil
}
