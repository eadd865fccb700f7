package admin

import (
	"context"
	"time"

	"gatehouse.example/storage"
)

// Profile is the view of a person with the ways in which they sign in and what they have here. It
// holds no password, key, secret or code, and no hash of one.
type Profile struct {
	User
	// FullName and Email are what a provider stated last.
	FullName string `json:"full_name,omitempty"`
	Email    string `json:"email,omitempty"`
	// Password says that the person has one; LinkExpires is until when a one-time link works.
	Password     bool          `json:"password"`
	LinkExpires  time.Time     `json:"link_expires,omitzero"`
	SecondFactor *SecondFactor `json:"second_factor,omitempty"`
	Passkeys     []Passkey     `json:"passkeys"`
	// Sessions and Grants are the newest that have not ended, the newest first; MoreSessions and
	// MoreGrants say that there are older ones.
	Sessions     []Session   `json:"sessions"`
	MoreSessions bool        `json:"more_sessions,omitempty"`
	Grants       []HeldGrant `json:"grants"`
	MoreGrants   bool        `json:"more_grants,omitempty"`
	// Unreadable is the number of records of sessions and grants that are left out because they
	// cannot be read.
	Unreadable int `json:"unreadable,omitempty"`
}

// SecondFactor is the view of a second factor: since when, and how many recovery codes are left.
type SecondFactor struct {
	Created       time.Time `json:"created"`
	RecoveryCodes int       `json:"recovery_codes"`
}

// Passkey is the view of a passkey. Name is what the person calls it.
type Passkey struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`
}

// HeldGrant is the view of a grant with its use: LastUsed is when the client last got a token, From
// the network of the person who decided.
type HeldGrant struct {
	Grant
	LastUsed time.Time `json:"last_used,omitzero"`
	From     string    `json:"from,omitempty"`
}

// Session is the view of a person who is signed in with one browser.
type Session struct {
	Since time.Time `json:"since"`
	// Used is the last use, up to some minutes; Ends is the end if there is no further one.
	Used time.Time `json:"used,omitzero"`
	Ends time.Time `json:"ends"`
	// Method is password, passkey or provider, and Provider the id of the provider.
	Method   string `json:"method,omitempty"`
	Provider string `json:"provider,omitempty"`
	// Browser describes the browser, From is its network.
	Browser string `json:"browser,omitempty"`
	From    string `json:"from,omitempty"`
}

// ProfileOf returns the profile of the person with a name, as in [FindUser], with at most limit
// sessions and grants; 0 is all. The error wraps [storage.ErrNotFound] for an unknown name.
func ProfileOf(ctx context.Context, store *storage.Store, name string, limit int) (Profile, error) {
	u, err := FindUser(ctx, store, name)
	if err != nil {
		return Profile{}, err
	}
	ids, err := groupIDs(ctx, store)
	if err != nil {
		return Profile{}, err
	}
	p := Profile{User: userIn(u, ids), FullName: u.FullName, Email: u.Email, Password: u.Password != "", Passkeys: []Passkey{}, Sessions: []Session{}, Grants: []HeldGrant{}}
	if f := u.SecondFactor; f != nil {
		p.SecondFactor = &SecondFactor{Created: f.Created.UTC(), RecoveryCodes: len(f.Recovery)}
	}
	if u.Invitation != nil && store.Now().Before(u.Invitation.Expires) {
		p.LinkExpires = u.Invitation.Expires.UTC()
	}
	for _, k := range u.Passkeys {
		p.Passkeys = append(p.Passkeys, Passkey{Name: k.Name, Created: k.Created.UTC(), Used: k.Used.UTC()})
	}
	if u.Disabled {
		return p, nil // their sessions and grants have ended
	}
	if err := p.addSessions(ctx, store, u, limit); err != nil {
		return Profile{}, err
	}
	return p, p.addGrants(ctx, store, u, limit)
}

func (p *Profile) addSessions(ctx context.Context, store *storage.Store, u storage.User, limit int) error {
	sessions, more, err := newest(p, limit, func(before string) (storage.Page[storage.Session], error) {
		return store.RecentSessions(ctx, u.Subject, u.SessionEpoch, before, pageLength)
	})
	p.MoreSessions = more
	for _, s := range sessions {
		ends := s.Expires
		if !s.IdleExpires.IsZero() && s.IdleExpires.Before(ends) {
			ends = s.IdleExpires
		}
		p.Sessions = append(p.Sessions, Session{
			Since: s.AuthTime.UTC(), Used: s.Seen.UTC(), Ends: ends.UTC(), Method: s.Method, Provider: s.Provider, Browser: s.Browser, From: s.From,
		})
	}
	return err
}

func (p *Profile) addGrants(ctx context.Context, store *storage.Store, u storage.User, limit int) error {
	grants, more, err := newest(p, limit, func(before string) (storage.Page[storage.Grant], error) {
		return store.RecentGrants(ctx, u.Subject, before, pageLength)
	})
	if err != nil {
		return err
	}
	p.MoreGrants = more
	names := NewClientNames(store)
	for _, g := range grants {
		name, err := names.Of(ctx, g.ClientID)
		if err != nil {
			return err
		}
		p.Grants = append(p.Grants, HeldGrant{GrantOf(g, name, store.Now()), g.Rotated.UTC(), g.From})
	}
	return nil
}

// pageLength is how many records are read at a time.
const pageLength = 50

// newest reads the newest records of a list, at most limit or, with 0, all, and reports whether
// there are more.
func newest[T any](p *Profile, limit int, read func(before string) (storage.Page[T], error)) (list []T, more bool, err error) {
	before := ""
	for {
		page, err := read(before)
		if err != nil {
			return nil, false, err
		}
		list, before = append(list, page.Items...), page.Next
		p.Unreadable += page.Unreadable
		if limit > 0 && len(list) > limit {
			return list[:limit], true, nil
		}
		if before == "" {
			return list, false, nil
		}
	}
}
