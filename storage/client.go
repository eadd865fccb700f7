package storage

import (
	"context"
	"errors"
	"time"

	"gatehouse.example/metadata"
)

const kindClient = "client"

// ClientSource says how a client became known.
type ClientSource string

const (
	// ClientRegistered registered itself (RFC 7591). Nobody vouches for it.
	ClientRegistered ClientSource = "registered"
	// ClientConfigured was entered by an operator.
	ClientConfigured ClientSource = "configured"
	// ClientDocument is a client ID metadata document, fetched from its URL.
	ClientDocument ClientSource = "document"
)

// Client is a client that may use the authorization server.
type Client struct {
	ID       string          `json:"id"`
	Source   ClientSource    `json:"source"`
	Metadata metadata.Client `json:"metadata"`
	// Secret is empty for public clients, RegistrationToken for clients that cannot
	// manage themselves.
	Secret            SecretHash `json:"secret,omitempty"`
	RegistrationToken SecretHash `json:"registration_token,omitempty"`
	Created           time.Time  `json:"created"`
	// LastUsed is when the client was last used, to the day.
	LastUsed time.Time `json:"last_used,omitzero"`
	Disabled bool      `json:"disabled,omitempty"`

	version Version
}

// CreateClient stores a new client, used when it was created. [ErrConflict] means that
// the id is taken.
func (s *Store) CreateClient(ctx context.Context, c Client) error {
	c.LastUsed = c.Created
	_, err := s.write(ctx, c.record(), Absent)
	return err
}

func (c Client) record() record {
	return record{kind: kindClient, id: c.ID, value: c, listed: []Listing{{clientsByUse, entryOf(c.LastUsed, c.ID)}}}
}

// Client reads a client, or returns [ErrNotFound].
func (s *Store) Client(ctx context.Context, id string) (Client, error) {
	var c Client
	version, err := s.read(ctx, kindClient, id, &c)
	if err != nil {
		return Client{}, err
	}
	c.version = version
	return c, nil
}

// UseStep is how exact [Client.LastUsed] is: a use is recorded when the last one that is
// on record is older.
const UseStep = 24 * time.Hour

// UseClient records that a client was used at that time, unless it is on record that it
// was used less than [UseStep] before. A client that is gone is none of its business.
func (s *Store) UseClient(ctx context.Context, id string, at time.Time) error {
	c, err := s.Client(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && at.Sub(c.LastUsed) < UseStep {
		return nil
	}
	if err != nil {
		return err
	}
	before := entryOf(c.LastUsed, c.ID)
	c.LastUsed = at
	if _, err = s.write(ctx, c.record(), Unchanged(c.version)); errors.Is(err, ErrConflict) {
		return nil // somebody else records it, or a later use will
	}
	if err != nil {
		return err
	}
	return s.indexRemove(ctx, clientsByUse, before)
}
