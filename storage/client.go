package storage

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"gatehouse.example/metadata"
)

const kindClient = "client"

// ClientSource is the way in which a client became known.
type ClientSource string

const (
	// ClientRegistered is a client that registered itself (RFC 7591). It is not vouched for.
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
	// Software is equal for all clients that are the same software; empty if they are not
	// counted. It names a list, and is part of entries of another: a digest is long enough.
	Software string `json:"software,omitempty"`
	// Network names the network that registered the client ([Store.NetworkName]) until its first
	// use; empty if networks are not counted.
	Network string `json:"network,omitempty"`
	// Secret is empty for public clients, RegistrationToken for clients that cannot manage
	// themselves.
	Secret            SecretHash `json:"secret,omitempty"`
	RegistrationToken SecretHash `json:"registration_token,omitempty"`
	// PreviousToken is the registration token before the present one. It works until the present
	// one is used, because the client may not have received that.
	PreviousToken SecretHash `json:"previous_token,omitempty"`
	Created       time.Time  `json:"created"`
	// LastUsed is when the client was last used, to the day; zero if never.
	LastUsed time.Time `json:"last_used,omitzero"`
	// Asked is when the client last sent a person to this server before its first use, to a few
	// minutes; zero if it has not.
	Asked time.Time `json:"asked,omitzero"`
	// Expires is when an unused client ends; zero if it stays. The first use makes it zero.
	Expires  time.Time `json:"expires,omitzero"`
	Disabled bool      `json:"disabled,omitempty"`
	// Vouched is the digest of what the operator vouches for: the client as it was then.
	Vouched string `json:"vouched,omitempty"`
	// Removed is set in the record that is left of a removed client. [Store.Client] returns no
	// such client.
	Removed *Removal `json:"removed,omitempty"`

	version Version
	kept    *keptParts // of a client that was read
}

// keptParts are what an update of a client leaves as it was read.
type keptParts struct {
	id                                string
	source                            ClientSource
	software, network                 string
	created, lastUsed, asked, expires time.Time
}

func (c *Client) parts() *keptParts {
	return &keptParts{c.ID, c.Source, c.Software, c.Network, c.Created, c.LastUsed, c.Asked, c.Expires}
}

// in sets the parts in a client.
func (k *keptParts) in(c *Client) {
	c.ID, c.Source, c.Software, c.Network, c.Created = k.id, k.source, k.software, k.network, k.created
	c.LastUsed, c.Asked, c.Expires = k.lastUsed, k.asked, k.expires
}

// Removal is when a client was removed, and why, for a client that comes back.
type Removal struct {
	At      time.Time `json:"at"`
	Because string    `json:"because"`
}

// RemovedError is the [ErrNotFound] of a client that was removed not long ago.
type RemovedError struct{ Removal }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("storage: the client was removed at %s: %s", e.At.UTC().Format(time.RFC3339), e.Because)
}

// Is reports whether target is [ErrNotFound].
func (e *RemovedError) Is(target error) bool { return target == ErrNotFound }

// CreateClient stores a new, unused client. [ErrConflict] means that the id is taken. While room
// is short, the error for a client with an end is [ErrFull].
func (s *Store) CreateClient(ctx context.Context, c Client) error {
	c.LastUsed, c.Removed = time.Time{}, nil
	r := c.record()
	r.yields = !c.Expires.IsZero()
	_, err := s.write(ctx, r, Absent)
	return err
}

// record returns the record of a client, with its entries in lists.
func (c Client) record() record {
	return record{kind: kindClient, id: c.ID, value: c, expires: c.Expires, listed: c.listed()}
}

// Client returns a client, or [ErrNotFound]: a [RemovedError] if it was removed not long ago.
func (s *Store) Client(ctx context.Context, id string) (Client, error) {
	var c Client
	version, err := s.read(ctx, kindClient, id, &c)
	return c.read(version, err)
}

// read returns a decoded client with its version, or the error of a read.
func (c Client) read(version Version, err error) (Client, error) {
	if err != nil {
		return Client{}, err
	}
	if c.Removed != nil {
		return Client{}, &RemovedError{*c.Removed}
	}
	c.version, c.kept = version, c.parts()
	return c, nil
}

// Same reports whether both were read from one record, which has not been written in between.
func (c *Client) Same(other *Client) bool {
	return c.version != Version{} && c.version == other.version && c.ID == other.ID
}

// UpdateClient replaces a client that was read before, or returns [ErrConflict]. Its id, source,
// software, network, creation, use and end stay as they are.
func (s *Store) UpdateClient(ctx context.Context, c Client) error {
	if c.kept == nil {
		return fmt.Errorf("storage: update client: it was not read: %w", ErrConflict)
	}
	c.kept.in(&c)
	c.Removed = nil
	r := c.record()
	r.listed = nil // it is listed already
	_, err := s.write(ctx, r, Unchanged(c.version))
	return err
}

// UseStep is the precision of [Client.LastUsed]: a use is recorded when the last recorded one is
// older.
const UseStep = 24 * time.Hour

// changeAttempts bounds how often a change that keeps losing against others is repeated before
// the store counts as unavailable.
const changeAttempts = 64

// UseClient records that a client was used at that time, unless a use less than [UseStep] before
// is on record. A client that is gone is [ErrNotFound]. When it returns nil the client does not
// end by itself any more.
func (s *Store) UseClient(ctx context.Context, id string, at time.Time) error {
	for range changeAttempts {
		c, err := s.Client(ctx, id)
		if err != nil {
			return err
		}
		unlist, err := s.use(ctx, c, at)
		if errors.Is(err, ErrConflict) {
			continue // another process recorded it, or changed the client
		}
		if err != nil || unlist == nil {
			return err
		}
		return unlist(ctx)
	}
	return fmt.Errorf("storage: use client: %w: the client kept changing", ErrUnavailable)
}

// BeginUse is [Store.UseClient] for a client that was read before, in one round trip. The rest,
// if not nil, removes entries from lists. It may be called later, and may be left out: reading
// the lists removes them too.
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
	used.Network, used.Asked = "", time.Time{} // they are for unused clients only
	if at.Before(c.Created) {
		used.LastUsed = c.Created // the clocks differ
	}
	if _, err := s.write(ctx, used.record(), Unchanged(c.version)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return s.unlist(ctx, c.listed(), used.listed()) }, nil
}

// AskForClient records that an unused client sent a person to this server, so that
// [Store.BoundUnused] may spare it. A client that is gone, or was used, needs no record.
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

// NetworkName returns the name of a network in records: a MAC under a key derived from the first
// master key, so that a record does not reveal the network. It is empty without a master key.
func (s *Store) NetworkName(network string) (string, error) {
	if len(s.sealer.keys) == 0 {
		return "", nil
	}
	macs, err := s.networkMACs()
	if err != nil {
		return "", fmt.Errorf("storage: network name: %w", err)
	}
	mac := macs.Get().(hash.Hash)
	defer macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(network))
	sum := mac.Sum(make([]byte, 0, 2*sha256.Size)) // with room for the name
	return string(base64.RawURLEncoding.AppendEncode(sum, sum[:12])[sha256.Size:]), nil
}

// newNetworkMACs derives the key of [Store.NetworkName], and returns MACs under it.
func (s *Store) newNetworkMACs() (*sync.Pool, error) {
	key, err := hkdf.Key(sha256.New, s.sealer.keys[0].secret, nil, string(s.sealer.associated("gatehouse network of a client", "")), 32)
	return &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}, err
}

// tombstone is the record that replaces a removed client. It is decoded as a [Client].
type tombstone struct {
	ID      string  `json:"id"`
	Removed Removal `json:"removed"`
}

// removedTime is how long a tombstone stays, removedUnusedTime that of an unused client.
const (
	removedTime       = 30 * 24 * time.Hour
	removedUnusedTime = 5 * time.Minute
)

// RemoveClient removes a client that was read before, or returns [ErrConflict]. The reason stays
// on record for a while. The caller then revokes the grants with [Store.RevokeClient]: a process
// that stores a grant and still finds the client afterwards may rely on the grant being among
// them.
func (s *Store) RemoveClient(ctx context.Context, c Client, because string) error {
	if c.kept == nil {
		return fmt.Errorf("storage: remove client: it was not read: %w", ErrConflict)
	}
	was, now := Client{}, s.now()
	c.kept.in(&was)
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
