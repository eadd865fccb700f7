package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const kindGrant = "grant"

// GrantState is the state of a grant.
type GrantState string

const (
	// GrantCode means that the authorization code was issued and not redeemed.
	GrantCode GrantState = "code"
	// GrantActive means that the code was redeemed; access and refresh tokens are valid.
	GrantActive GrantState = "active"
	// GrantRevoked means that no code or token of the family is valid any more, for good.
	GrantRevoked GrantState = "revoked"
)

// Grant is the record of what a person allowed a client to do, from the authorization code to the
// last refresh token: the whole family in one record. A Grant value is a private copy; only
// [Store.Redeem], [Store.Rotate], [Store.EndResource] and [Store.Revoke] change the stored one,
// each by swapping the record that was read.
type Grant struct {
	ID       string     `json:"id"`
	State    GrantState `json:"state"`
	ClientID string     `json:"client"`
	// Subject is the id of the person, UserName the name at the sign-in.
	Subject  string `json:"sub"`
	UserName string `json:"user,omitempty"`
	// Access is what was consented, without what has ended since. Tokens carry a part of it.
	// Records from before there were pairs have none: use [Grant.Allowed].
	Access Access `json:"access,omitempty"`
	// Resources are those of Access. Scopes are read by a program of the release before in place
	// of Access: each counts under each of Resources that defines it, so a scope that was
	// consented for one of them only is left out.
	Resources []string `json:"resources"`
	Scopes    []string `json:"scopes,omitempty"`
	// Audience is the resources of the first access token. A refresh that names none gets the
	// same. It is empty if a program of the release before redeemed the code.
	Audience []string `json:"audience,omitempty"`
	// AuthTime is when the person authenticated.
	AuthTime time.Time `json:"auth_time"`
	Created  time.Time `json:"created"`
	// ClientName is the name of the client as the person saw it, From the network of the person's
	// browser. Records of the release before have neither.
	ClientName string `json:"client_name,omitempty"`
	From       string `json:"from,omitempty"`

	// The code: bound to client, redirect URI and PKCE challenge. It stays on record
	// after it is spent, so that a replay is recognised: use [Grant.ProvedBy].
	Code        SecretHash `json:"code"`
	CodeExpires time.Time  `json:"code_expires"`
	RedirectURI string     `json:"redirect_uri"`
	Challenge   string     `json:"challenge"` // S256, 43 characters; empty where Code stands for both

	// Refreshable grants have refresh tokens. Generation is that of the current one;
	// it was made current at Rotated.
	Refreshable bool      `json:"refreshable,omitempty"`
	Generation  uint32    `json:"generation,omitempty"`
	Rotated     time.Time `json:"rotated,omitzero"`
	Seed        Sealed    `json:"seed"`

	Lifetime

	// Unanswered means that the redemption of the code was answered with 503, because its outcome
	// was uncertain, although the code was spent. No client has tokens of the grant.
	Unanswered bool `json:"unanswered,omitempty"`

	// RevokedBecause is the reason, for the log.
	RevokedBecause string `json:"revoked_because,omitempty"`

	// Lineage is the history of the database in which the code was issued or the refresh token
	// rotated last. On another one, later writes may have been lost. It is empty where there were
	// no replicas.
	Lineage Lineage `json:"lineage,omitempty"`

	version Version
}

// Lifetime is how long a redeemed grant lives.
type Lifetime struct {
	// Expires is absolute: no token of the family is valid for longer.
	Expires time.Time `json:"expires"`
	// IdleExpires is the end of refreshing; it moves with every rotation.
	IdleExpires time.Time `json:"idle_expires,omitzero"`
	// AccessUntil is when the last access token has expired; until then the record answers
	// introspection.
	AccessUntil time.Time `json:"access_until,omitzero"`
}

// NewGrant is the input of [Store.PrepareGrant].
type NewGrant struct {
	ClientID string
	Subject  string
	UserName string
	// Access, Resources, Scopes, ClientName and From are those of [Grant]. Of the two texts no more
	// than 200 bytes are kept.
	Access      Access
	Resources   []string
	Scopes      []string
	AuthTime    time.Time
	ClientName  string
	From        string
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
		AuthTime: n.AuthTime, Created: now, ClientName: cutText(n.ClientName), From: cutText(n.From),
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
	if g.Seed, err = s.newSeed(g.ID); err != nil {
		return Grant{}, "", err
	}
	return g.inMilliseconds(), code, nil
}

// CreateGrant stores a prepared grant. It is listed under its person and its client before it
// exists, so that a revocation of all grants of a person or client finds it: [ErrConflict] means
// that such a revocation came first.
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

// record returns the record of g, to be written if lineage on answers; empty is any.
func (g Grant) record(on Lineage) record {
	return record{kind: kindGrant, id: g.ID, value: g, expires: g.recordExpiry(), on: on}
}

// recordExpiry is when the record ends for its readers.
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

// swap replaces g by next if g is unchanged and lineage on answers. On [ErrConflict] it returns
// the grant that is there now; if there is none any more, [ErrNotFound]. A new seal alone is not
// a change.
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
	next = next.inMilliseconds()
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

// onlyResealed reports whether g differs from a later record in its seals only.
func (g Grant) onlyResealed(later Grant) bool {
	g.Seed, later.Seed = nil, nil
	a, errA := g.appendCompact(nil)
	b, errB := later.appendCompact(nil)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// swapAnywhere is swap on any lineage, which it sets in next.
func (s *Store) swapAnywhere(ctx context.Context, g, next Grant) (current Grant, err error) {
	err = s.onLineage(ctx, g.Lineage, func(l Lineage) error {
		next.Lineage = l
		current, err = s.swap(ctx, g, next, l)
		return err
	})
	return current, err
}

// Redeem spends the code of g: code → active. The caller has checked the code, the client, the
// redirect URI, PKCE and the resources before; those of the access token are kept as
// [Grant.Audience]. Of any number of redeemers exactly one gets nil; the others get [ErrConflict]
// and must not revoke anything. When the record has ended since it was read, the error is
// [ErrNotFound]. A copy of the database that has taken over since the code was issued may not
// have its redemption: there the error is [ErrLineage].
func (s *Store) Redeem(ctx context.Context, g Grant, life Lifetime, audience ...string) (Grant, error) {
	if g.State != GrantCode {
		return g, ErrConflict
	}
	next := g
	next.State = GrantActive
	if g.Seed.isPadded() { // so no program of the release before reads it
		next.spend()
	}
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

// markUnanswered records on a grant that its redemption is answered with 503. It tries once, also
// after the client has disconnected: without the mark, sending the code again would revoke the
// family, although no client has a token of it.
func (s *Store) markUnanswered(ctx context.Context, g Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTime/20) // the 503 waits for it
	defer cancel()
	next := g
	next.Unanswered = true
	r := next.record("")
	r.forgettable = true
	_, _ = s.write(ctx, r, Unchanged(g.version))
}

// Rotate makes the next refresh token of g current. On [ErrConflict] it returns the grant that is
// there now. When the record has ended since it was read, the error is [ErrNotFound]. When a copy
// of the database has taken over since that lacks rotations, the error is [ErrUnavailable]: the
// caller may read again and use [Store.Remember].
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
		return Grant{}, fmt.Errorf("storage: rotate: %w: a copy of the database has taken over that lacks rotations", ErrUnavailable)
	}
	return current, err
}
