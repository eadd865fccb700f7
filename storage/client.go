package storage

import (
	"context"
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
	Disabled          bool       `json:"disabled,omitempty"`

	version Version
}

// CreateClient stores a new client. [ErrConflict] means that the id is taken.
func (s *Store) CreateClient(ctx context.Context, c Client) error {
	_, err := s.write(ctx, kindClient, c.ID, c, Absent, time.Time{})
	return err
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
