package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const kindGrant = "grant"

// GrantState is where a grant is in its life.
type GrantState string

const (
	// GrantCode: an authorization code is out and not redeemed.
	GrantCode GrantState = "code"
	// GrantActive: the code was redeemed; access and refresh tokens live.
	GrantActive GrantState = "active"
	// GrantRevoked: nothing of the family is valid, and nothing ever will be.
	GrantRevoked GrantState = "revoked"
)

// Grant is what a person allowed a client to do, from the authorization code to the
// last refresh token: the whole family in one record. A Grant value is a private copy;
// it changes in the store through [Store.Redeem], [Store.Rotate], [Store.EndResource] and
// [Store.Revoke] only, each of which swaps the record it was read from.
type Grant struct {
	ID       string     `json:"id"`
	State    GrantState `json:"state"`
	ClientID string     `json:"client"`
	// Subject is the person, UserName what they signed in as.
	Subject  string `json:"sub"`
	UserName string `json:"user,omitempty"`
	// Access is what was consented, without what has ended since. Tokens carry a part of it.
	// Records from before there were pairs have none: read it with [Grant.Allowed].
	Access Access `json:"access,omitempty"`
	// Resources are those of Access. Scopes are what a program of the release before reads
	// in place of Access: each counts under each of Resources that defines it, so a scope
	// that was consented for one of them only is not there.
	Resources []string `json:"resources"`
	Scopes    []string `json:"scopes,omitempty"`
	// Audience is the resources of the first access token. A refresh that names none gets
	// the same; it is empty for what a program of the release before redeemed.
	Audience []string `json:"audience,omitempty"`
	// AuthTime is when the person proved who they are.
	AuthTime time.Time `json:"auth_time"`
	Created  time.Time `json:"created"`

	// The code: bound to client, redirect URI and PKCE challenge. It stays on record
	// after it is spent, so that a replay is recognised.
	Code        SecretHash `json:"code"`
	CodeExpires time.Time  `json:"code_expires"`
	RedirectURI string     `json:"redirect_uri"`
	Challenge   string     `json:"challenge"` // S256, 43 characters

	// Refreshable grants have refresh tokens. Generation is that of the current one;
	// it was made current at Rotated.
	Refreshable bool      `json:"refreshable,omitempty"`
	Generation  uint32    `json:"generation,omitempty"`
	Rotated     time.Time `json:"rotated,omitzero"`
	Seed        Sealed    `json:"seed"`

	Lifetime

	// Unanswered says that whoever redeemed the code was told that nothing is certain (503),
	// although the code was spent. Nobody has tokens of the grant.
	Unanswered bool `json:"unanswered,omitempty"`

	// RevokedBecause says why, for the log.
	RevokedBecause string `json:"revoked_because,omitempty"`

	// Lineage is the history of the database in which the code was issued or the refresh
	// token rotated last. On another one, later writes may have been forgotten. It is
	// empty where there were no replicas.
	Lineage Lineage `json:"lineage,omitempty"`

	version Version
}

// Lifetime is how long a redeemed grant lives.
type Lifetime struct {
	// Expires is absolute: no token of the family outlives it.
	Expires time.Time `json:"expires"`
	// IdleExpires ends refreshing; it moves with every rotation.
	IdleExpires time.Time `json:"idle_expires,omitzero"`
	// AccessUntil is when the last access token that may be out has expired; until
	// then the record answers introspection.
	AccessUntil time.Time `json:"access_until,omitzero"`
}

// NewGrant is what [Store.CreateGrant] needs to know.
type NewGrant struct {
	ClientID string
	Subject  string
	UserName string
	// Access, Resources and Scopes are those of [Grant].
	Access      Access
	Resources   []string
	Scopes      []string
	AuthTime    time.Time
	RedirectURI string
	Challenge   string
	Refreshable bool
	CodeTTL     time.Duration
}

// PrepareGrant draws the id, the seed and the authorization code of a new grant
// without storing anything.
func (s *Store) PrepareGrant(n NewGrant) (g Grant, code string, err error) {
	now := s.now()
	g = Grant{
		State: GrantCode, ClientID: n.ClientID, Subject: n.Subject, UserName: n.UserName,
		Access: slices.Clone(n.Access), Resources: slices.Clone(n.Resources), Scopes: slices.Clone(n.Scopes),
		AuthTime: n.AuthTime, Created: now,
		CodeExpires: now.Add(n.CodeTTL), RedirectURI: n.RedirectURI, Challenge: n.Challenge,
		Refreshable: n.Refreshable, Lifetime: Lifetime{Expires: now.Add(n.CodeTTL)},
	}
	if g.ID, err = s.NewID(); err != nil {
		return Grant{}, "", err
	}
	if code, err = s.newCode(g.ID); err != nil {
		return Grant{}, "", err
	}
	g.Code = HashSecret(code)
	seed := make([]byte, 32)
	if _, err := io.ReadFull(s.rand, seed); err != nil {
		return Grant{}, "", fmt.Errorf("storage: random: %w", err)
	}
	if g.Seed, err = s.Seal(kindGrant, g.ID, seed); err != nil {
		return Grant{}, "", err
	}
	return g, code, nil
}

// CreateGrant stores a prepared grant. It is listed under its person and its client
// before it exists, so that whoever revokes all grants of a person or client finds it:
// [ErrConflict] means that this happened before the grant was there.
func (s *Store) CreateGrant(ctx context.Context, g Grant) error {
	r := g.record("")
	entry := entryOf(g.Created, g.ID)
	r.listed = []Listing{{userGrants(g.Subject), entry}, {clientGrants(g.ClientID), entry}}
	return s.onLineage(ctx, "", func(l Lineage) error {
		g.Lineage, r.on = l, l
		r.value = g
		_, err := s.write(ctx, r, Absent)
		return err
	})
}

// record is g as it is written if lineage on answers; empty is any.
func (g Grant) record(on Lineage) record {
	return record{kind: kindGrant, id: g.ID, value: g, expires: g.recordExpiry(), on: on}
}

// recordExpiry is when the record stops to exist for its readers.
func (g Grant) recordExpiry() time.Time {
	if g.State != GrantActive {
		return g.Expires
	}
	until := g.AccessUntil
	if g.Refreshable && g.IdleExpires.After(until) {
		until = g.IdleExpires
	}
	if until.After(g.Expires) {
		return g.Expires
	}
	return until
}

// Grant reads a grant. It returns [ErrNotFound] for an unknown or expired one.
func (s *Store) Grant(ctx context.Context, id string) (Grant, error) {
	var g Grant
	version, err := s.read(ctx, kindGrant, id, &g)
	if err != nil {
		return Grant{}, err
	}
	g.version = version
	return g, nil
}

// swap replaces g by next if nothing changed since g was read and lineage on answers.
// On [ErrConflict] it returns the grant that is there now; if there is none any more,
// [ErrNotFound]. Who only sealed it anew meanwhile is not in the way.
func (s *Store) swap(ctx context.Context, g, next Grant, on Lineage) (current Grant, err error) {
	for range resealAttempts {
		current, err = s.swapOnce(ctx, g, next, on)
		if !errors.Is(err, ErrConflict) || g.version == (Version{}) || !g.onlyResealed(current) {
			return current, err
		}
		g.version, g.Seed, next.Seed = current.version, current.Seed, current.Seed
	}
	return current, err
}

func (s *Store) swapOnce(ctx context.Context, g, next Grant, on Lineage) (Grant, error) {
	item, err := s.write(ctx, next.record(on), Unchanged(g.version))
	switch {
	case err == nil:
		next.version = item.Version
		return next, nil
	case errors.Is(err, ErrConflict):
		return s.instead(g.ID, item)
	case errors.Is(err, ErrUncertain):
		next.version = item.Version
		return next, err
	}
	return Grant{}, err
}

// onlyResealed reports whether nothing but seals tells g from a later record.
func (g Grant) onlyResealed(later Grant) bool {
	g.Seed, later.Seed = nil, nil
	a, errA := json.Marshal(g)
	b, errB := json.Marshal(later)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// swapAnywhere is swap on whatever lineage answers, which next then carries.
func (s *Store) swapAnywhere(ctx context.Context, g, next Grant) (current Grant, err error) {
	err = s.onLineage(ctx, g.Lineage, func(l Lineage) error {
		next.Lineage = l
		current, err = s.swap(ctx, g, next, l)
		return err
	})
	return current, err
}

// Redeem spends the code of g: code → active. The caller has checked the code, the
// client, the redirect URI, PKCE and the resources before; those of the access token are
// kept as [Grant.Audience]. Of many redeemers exactly
// one gets nil; the others get [ErrConflict] and must not revoke anything. When the
// record has ended since it was read, the error is [ErrNotFound]. A copy of the database
// that has taken over since the code was issued may have forgotten that it was redeemed:
// there the error is [ErrLineage].
func (s *Store) Redeem(ctx context.Context, g Grant, life Lifetime, audience ...string) (Grant, error) {
	if g.State != GrantCode {
		return g, ErrConflict
	}
	next := g
	next.State = GrantActive
	next.Audience = slices.Clone(audience)
	next.Lifetime = life
	next.Rotated = s.now()
	redeemed, err := s.swap(ctx, g, next, g.Lineage)
	if errors.Is(err, ErrUncertain) {
		s.markUnanswered(ctx, redeemed)
		return Grant{}, err
	}
	return redeemed, err
}

// markUnanswered notes on a grant whose redemption is uncertain that nobody hears of it. It
// tries once, also for a client that has gone: without the note, whoever sends the code again
// has its family revoked, of which nobody has a token.
func (s *Store) markUnanswered(ctx context.Context, g Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTime/20) // somebody waits for the 503
	defer cancel()
	next := g
	next.Unanswered = true
	r := next.record("")
	r.forgettable = true
	_, _ = s.write(ctx, r, Unchanged(g.version))
}

// Rotate makes the next refresh token of g current. On [ErrConflict] it returns the
// grant that is there now. When the record has ended since it was read, the error is
// [ErrNotFound]. When a copy of the database has taken over since that has forgotten
// rotations, the error is [ErrUnavailable]: whoever reads again can [Store.Remember].
func (s *Store) Rotate(ctx context.Context, g Grant, life Lifetime) (Grant, error) {
	if g.State != GrantActive {
		return g, ErrConflict
	}
	next := g
	next.Generation++
	next.Rotated, next.Unanswered = s.now(), false
	next.Lifetime = life
	current, err := s.swapAnywhere(ctx, g, next)
	if errors.Is(err, ErrConflict) && current.State == GrantActive && current.Generation < g.Generation {
		return Grant{}, fmt.Errorf("storage: rotate: %w: a copy of the database has taken over that has forgotten rotations", ErrUnavailable)
	}
	return current, err
}
