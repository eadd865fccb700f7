package storage

import (
	"bytes"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"
)

// known are the values of the sealed records that were decoded last. The store is asked each time: a
// value is used again only if what it answers now, version and bytes, is what the value was decoded
// from under that kind and id, so nothing in it can be out of date, and its seal was checked. Every
// caller gets a copy of its own.
//
// What it takes is bounded: a record has one place, and one that wants the place of another gets it.
type known struct {
	seed   maphash.Seed
	places [knownPlaces]atomic.Pointer[knownRecord]
}

// knownRecord is a record and its value, which nobody changes.
type knownRecord struct {
	kind, id string
	item     Item
	value    any // a pointer
}

const (
	knownPlaces = 2048
	// knownBytes is the size of the largest record whose value is kept. The pages of one person take
	// four records of some hundred bytes.
	knownBytes = 4 << 10
)

func newKnown() *known { return &known{seed: maphash.MakeSeed()} }

func (k *known) place(kind, id string) *atomic.Pointer[knownRecord] {
	return &k.places[(maphash.String(k.seed, id)^uint64(len(kind)))%knownPlaces]
}

// of returns the value of an item, nil if it is not known.
func (k *known) of(kind, id string, item Item) any {
	r := k.place(kind, id).Load()
	if r != nil && r.id == id && r.kind == kind && r.item.Version == item.Version && bytes.Equal(r.item.Data, item.Data) {
		return r.value
	}
	return nil
}

// learn keeps a copy of the value of an item that was verified and decoded.
func (k *known) learn(kind, id string, item Item, v any) {
	if item.Data[0] != sealedForm || len(item.Data) > knownBytes {
		return // whether a record without a seal is accepted depends on the time
	}
	if value := copyOf(v); value != nil {
		k.place(kind, id).Store(&knownRecord{kind, id, item, value})
	}
}

// knownType is a pointer to a value that is kept.
type knownType[T any] interface {
	*T
	clone() T
}

// copyOf returns a pointer to a copy of what v points to, nil if such values are not kept.
func copyOf(v any) any {
	switch v := v.(type) {
	case *User:
		return cloned(v)
	case *Session:
		return cloned(v)
	case *Client:
		return cloned(v)
	case *Consent:
		return cloned(v)
	}
	return nil
}

func cloned[T any, P knownType[T]](v P) P {
	c := v.clone()
	return &c
}

// copyTo sets what to points to to a copy of what copyOf returned, and reports whether they are of one
// type.
func copyTo(to, value any) bool {
	switch to := to.(type) {
	case *User:
		return setTo(to, value)
	case *Session:
		return setTo(to, value)
	case *Client:
		return setTo(to, value)
	case *Consent:
		return setTo(to, value)
	}
	return false
}

func setTo[T any, P knownType[T]](to P, value any) bool {
	from, ok := value.(P)
	if ok {
		*to = from.clone()
	}
	return ok
}

// clone returns a copy that shares nothing that can be changed.
func (u *User) clone() User {
	c := *u
	c.Groups, c.Identities, c.Passkeys = slices.Clone(u.Groups), slices.Clone(u.Identities), slices.Clone(u.Passkeys)
	for i := range c.Identities {
		c.Identities[i].Groups = slices.Clone(c.Identities[i].Groups)
	}
	for i := range c.Passkeys {
		p := &c.Passkeys[i]
		p.ID, p.PublicKey, p.Transports = bytes.Clone(p.ID), bytes.Clone(p.PublicKey), slices.Clone(p.Transports)
	}
	if u.SecondFactor != nil {
		f := *u.SecondFactor
		f.Secret, f.Recovery = bytes.Clone(f.Secret), slices.Clone(f.Recovery)
		for i := range f.Recovery {
			f.Recovery[i] = bytes.Clone(f.Recovery[i])
		}
		c.SecondFactor = &f
	}
	if u.Invitation != nil {
		invitation := *u.Invitation
		invitation.Token = bytes.Clone(invitation.Token)
		c.Invitation = &invitation
	}
	return c
}

// clone is [User.clone] for a session, in which nothing can be changed.
func (session *Session) clone() Session { return *session }

// clone is [User.clone] for a client.
func (c *Client) clone() Client {
	out := *c
	m := &out.Metadata
	for _, list := range [...]*[]string{&m.RedirectURIs, &m.GrantTypes, &m.ResponseTypes, &m.Contacts, &out.AuthMethods} {
		*list = slices.Clone(*list)
	}
	for _, hash := range [...]*SecretHash{&out.Secret, &out.RegistrationToken, &out.PreviousToken} {
		*hash = bytes.Clone(*hash)
	}
	m.JWKS, out.Localized = bytes.Clone(m.JWKS), maps.Clone(out.Localized)
	if c.Removed != nil {
		removed := *c.Removed
		out.Removed = &removed
	}
	return out
}

// clone is [User.clone] for a consent.
func (c *Consent) clone() Consent {
	out := *c
	out.Given = slices.Clone(c.Given)
	for i := range out.Given {
		out.Given[i].Access = out.Given[i].Access.clone()
	}
	return out
}

// clone is [User.clone] for pairs.
func (a Access) clone() Access {
	out := slices.Clone(a)
	for i := range out {
		out[i].Scopes = slices.Clone(out[i].Scopes)
	}
	return out
}
