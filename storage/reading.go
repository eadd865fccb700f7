package storage

import (
	"context"
	"errors"
)

// Reading reads records of several kinds in one round trip. Ask for what is needed, call
// [Reading.Read] once, and then the functions: each gives its record or its own error, as the method
// of [Store] with the same name does. Each record is as it was at some time during the call of Read,
// which need not be the same for all. What depends on something that must be stored first needs a
// Reading of its own, after that.
type Reading struct{ all together }

// Reading returns a Reading of nothing.
func (s *Store) Reading() *Reading { return &Reading{all: together{store: s}} }

// Read reads what was asked for: one record, or several at once, in one round trip; nothing costs
// nothing. An error is one of the whole, such as [ErrUnavailable].
func (r *Reading) Read(ctx context.Context) error {
	switch len(r.all.wants) {
	case 0:
		return nil
	case 1:
		return r.all.oneByOne(ctx)
	}
	return r.all.run(ctx)
}

// User asks for a person.
func (r *Reading) User(name string) func() (User, error) {
	var u User
	w := r.all.add(kindUser, name, &u)
	return func() (User, error) {
		if w.err != nil {
			return User{}, w.err
		}
		u.version = w.version
		return u, nil
	}
}

// Consent asks for what a person decided about a client.
func (r *Reading) Consent(subject, clientID string) func() (Consent, error) {
	var c Consent
	w := r.all.add(kindConsent, consentID(subject, clientID), &c)
	return func() (Consent, error) {
		if w.err != nil {
			return Consent{}, w.err
		}
		c.version = w.version
		return c, nil
	}
}

// Client asks for a client.
func (r *Reading) Client(id string) func() (Client, error) {
	var c Client
	w := r.all.add(kindClient, id, &c)
	return func() (Client, error) { return c.read(w.version, w.err) }
}

// Grant asks for a grant.
func (r *Reading) Grant(id string) func() (Grant, error) {
	var g Grant
	w := r.all.add(kindGrant, id, &g)
	return func() (Grant, error) {
		if w.err != nil {
			return Grant{}, w.err
		}
		g.version = w.version
		return g, nil
	}
}

// Holder asks for a person and groups by name. An empty userName asks for groups only. A missing person
// or group is no error.
//
// Callers that remember to whom a grant belongs ask for both in one round trip. Nothing says that the
// person is the grant's, so compare [Grant.UserName] and [Grant.Subject]. No more groups than are needed
// should be named: each is one more record to read.
func (r *Reading) Holder(userName string, groups []string) func() (Holder, error) {
	return r.all.holder(userName, groups)
}

// Session asks for the session of a cookie's value.
func (r *Reading) Session(secret string) func() (Session, error) {
	var session Session
	id := SessionID(secret)
	w := r.all.add(kindSession, id, &session)
	return func() (Session, error) { return session.read(id, w.version, w.err) }
}

// Transaction asks for the transaction with an id with which a browser goes on; the arguments and
// the outcome of the function are those of [Store.ResumeTransaction]. What the browser keeps is
// returned at once, or the zero Transaction: it says what to read together with the record, and
// nothing else, because only the record tells whether the transaction was decided.
func (r *Reading) Transaction(id, browser string, sealed []byte) (kept Transaction, resume func() (Transaction, error)) {
	kept, failed := r.all.store.openTransaction(id, HashSecret(browser), sealed)
	var t Transaction
	w := r.all.add(kindTransaction, id, &t)
	return kept, func() (Transaction, error) {
		t, err := t.read(w.version, w.err)
		var absent *absentError
		switch {
		case errors.As(err, &absent):
			return kept, failed
		case err != nil:
			return Transaction{}, err
		case !t.Browser.Matches(browser):
			return Transaction{}, ErrNotFound
		}
		return t, nil
	}
}
