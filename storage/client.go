package storage

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
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
	// Localized are the members with a language tag (RFC 7591 section 2.2) by their name,
	// such as client_name#de.
	Localized map[string]string `json:"localized,omitempty"`
	// SoftwareStatement is the statement that the client registered with, as it came (RFC
	// 7591 section 2.3).
	SoftwareStatement string `json:"software_statement,omitempty"`
	// AuthMethods are the ways in which the client may authenticate, if there are several;
	// empty means Metadata.TokenEndpointAuthMethod alone.
	AuthMethods []string `json:"auth_methods,omitempty"`
	// Software is the same for clients that are the same software; empty if nobody counts.
	// It names a list, and stands in entries of another: a digest is long enough.
	Software string `json:"software,omitempty"`
	// Network names the network that registered the client ([Store.NetworkName]) until
	// somebody uses it; empty if nobody counts.
	Network string `json:"network,omitempty"`
	// Secret is empty for public clients, RegistrationToken for clients that cannot
	// manage themselves.
	Secret            SecretHash `json:"secret,omitempty"`
	RegistrationToken SecretHash `json:"registration_token,omitempty"`
	// PreviousToken is the registration token before the present one. It works until the
	// present one is used, because its holder may never have heard of that.
	PreviousToken SecretHash `json:"previous_token,omitempty"`
	Created       time.Time  `json:"created"`
	// LastUsed is when the client was last used, to the day; zero if never.
	LastUsed time.Time `json:"last_used,omitzero"`
	// Asked is when a person was last sent here by the client while nobody had used it, to
	// a few minutes; zero if nobody was.
	Asked time.Time `json:"asked,omitzero"`
	// Expires is when a client that nobody has used ends; zero if it stays. The first use
	// makes it zero.
	Expires  time.Time `json:"expires,omitzero"`
	Disabled bool      `json:"disabled,omitempty"`
	// Removed is in what stays of a client that was removed. Nobody is given one.
	Removed *Removal `json:"removed,omitempty"`

	version Version
	stays   *Client // what an update leaves as it was when the client was read
}

// Removal says when a client was removed, and why, for whoever comes back with it.
type Removal struct {
	At      time.Time `json:"at"`
	Because string    `json:"because"`
}

// RemovedError is the [ErrNotFound] of a client that was removed not long ago.
type RemovedError struct{ Removal }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("storage: the client was removed at %s: %s", e.At.UTC().Format(time.RFC3339), e.Because)
}

// Is reports that the error is an [ErrNotFound].
func (e *RemovedError) Is(target error) bool { return target == ErrNotFound }

// CreateClient stores a new client that nobody has used. [ErrConflict] means that the id
// is taken. While room is short, one that ends by itself is [ErrFull].
func (s *Store) CreateClient(ctx context.Context, c Client) error {
	c.LastUsed, c.Removed = time.Time{}, nil
	r := c.record()
	r.yields = !c.Expires.IsZero()
	_, err := s.write(ctx, r, Absent)
	return err
}

// record is what is written of a client, with its entries in lists.
func (c Client) record() record {
	return record{kind: kindClient, id: c.ID, value: c, expires: c.Expires, listed: c.listed()}
}

// Client reads a client, or returns [ErrNotFound]: a [RemovedError] if it was removed not
// long ago.
func (s *Store) Client(ctx context.Context, id string) (Client, error) {
	var c Client
	version, err := s.read(ctx, kindClient, id, &c)
	if err != nil {
		return Client{}, err
	}
	if c.Removed != nil {
		return Client{}, &RemovedError{*c.Removed}
	}
	stays := c
	c.version, c.stays = version, &stays
	return c, nil
}

// UpdateClient replaces a client that was read before, or returns [ErrConflict]. Its id,
// its software, its network, its creation, its use and its end stay as they are.
func (s *Store) UpdateClient(ctx context.Context, c Client) error {
	if c.stays == nil {
		return fmt.Errorf("storage: update client: it was not read: %w", ErrConflict)
	}
	was := c.stays
	c.ID, c.Source, c.Software, c.Network, c.Created = was.ID, was.Source, was.Software, was.Network, was.Created
	c.LastUsed, c.Asked, c.Expires = was.LastUsed, was.Asked, was.Expires
	c.Removed = nil
	r := c.record()
	r.listed = nil // it is listed already
	_, err := s.write(ctx, r, Unchanged(c.version))
	return err
}

// UseStep is how exact [Client.LastUsed] is: a use is recorded when the last one that is
// on record is older.
const UseStep = 24 * time.Hour

// changeAttempts bounds how often a change that keeps losing against others is repeated
// before the store is called unavailable.
const changeAttempts = 64

// UseClient records that a client was used at that time, unless it is on record that it
// was used less than [UseStep] before. A client that is gone is [ErrNotFound]. When it
// returns nil the client does not end by itself any more.
func (s *Store) UseClient(ctx context.Context, id string, at time.Time) error {
	for range changeAttempts {
		c, err := s.Client(ctx, id)
		if err != nil {
			return err
		}
		unlist, err := s.use(ctx, c, at)
		if errors.Is(err, ErrConflict) {
			continue // somebody else recorded it, or changed something
		}
		if err != nil || unlist == nil {
			return err
		}
		return unlist(ctx)
	}
	return fmt.Errorf("storage: use client: %w: the client kept changing", ErrUnavailable)
}

// BeginUse is [Store.UseClient] for a client that was read before, in one round trip. What
// is left of it, if anything, is to take entries out of lists: it may be done later, and
// who reads the lists does it if nobody else did.
func (s *Store) BeginUse(ctx context.Context, c Client, at time.Time) (rest func(context.Context) error, err error) {
	rest, err = s.use(ctx, c, at)
	if errors.Is(err, ErrConflict) {
		return nil, s.UseClient(ctx, c.ID, at)
	}
	return rest, err
}

// use writes the use of a client that was read before.
func (s *Store) use(ctx context.Context, c Client, at time.Time) (unlist func(context.Context) error, err error) {
	if !c.LastUsed.IsZero() && at.Sub(c.LastUsed) < UseStep {
		return nil, nil
	}
	used := c
	used.LastUsed, used.Expires = at, time.Time{}
	used.Network, used.Asked = "", time.Time{} // they were for clients that nobody uses
	if at.Before(c.Created) {
		used.LastUsed = c.Created // the clocks differ
	}
	if _, err := s.write(ctx, used.record(), Unchanged(c.version)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return s.unlist(ctx, c.listed(), used.listed()) }, nil
}

// AskForClient records that a person was sent here by a client that nobody has used yet, so
// that [Store.BoundUnused] may spare it. One that is gone, or was used, needs no record.
func (s *Store) AskForClient(ctx context.Context, id string, at time.Time) error {
	for range changeAttempts {
		c, err := s.Client(ctx, id)
		if errors.Is(err, ErrNotFound) || err == nil && (c.Expires.IsZero() || !c.Asked.Before(at)) {
			return nil
		}
		if err != nil {
			return err
		}
		asked := c
		asked.Asked = at
		r := asked.record()
		r.listed = nil // it is listed already
		if _, err = s.write(ctx, r, Unchanged(c.version)); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: ask for client: %w: the client kept changing", ErrUnavailable)
}

// NetworkName returns what stands for a network in records: a MAC under a key derived from
// the first master key, so that a record does not tell where somebody was. It is empty
// without a master key.
func (s *Store) NetworkName(network string) (string, error) {
	if len(s.sealer.keys) == 0 {
		return "", nil
	}
	key, err := hkdf.Key(sha256.New, s.sealer.keys[0].secret, nil, string(s.sealer.associated("gatehouse network of a client", "")), 32)
	if err != nil {
		return "", fmt.Errorf("storage: network name: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(network))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12]), nil
}

// tombstone is what is left of a removed client, in its place. It is read as a [Client].
type tombstone struct {
	ID      string  `json:"id"`
	Removed Removal `json:"removed"`
}

// How long what is left of a removed client tells so: longer if somebody has used it.
const (
	removedTime       = 30 * 24 * time.Hour
	removedUnusedTime = 5 * time.Minute
)

// RemoveClient removes a client that was read before, or returns [ErrConflict]. For a
// while it is remembered why. Its grants are revoked afterwards by [Store.RevokeClient]:
// whoever stores a grant and then still finds the client may be sure that it is among
// them.
func (s *Store) RemoveClient(ctx context.Context, c Client, because string) error {
	if c.stays == nil {
		return fmt.Errorf("storage: remove client: it was not read: %w", ErrConflict)
	}
	was, now := c.stays, s.now()
	left := tombstone{was.ID, Removal{now.UTC().Truncate(time.Second), because}}
	until := now.Add(removedTime)
	if was.LastUsed.IsZero() {
		until = now.Add(removedUnusedTime)
	}
	if _, err := s.write(ctx, record{kind: kindClient, id: was.ID, value: left, expires: until}, Unchanged(c.version)); err != nil {
		return err
	}
	return s.unlist(ctx, was.listed(), nil)
}
