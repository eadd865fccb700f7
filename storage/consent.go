package storage

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

const kindConsent = "consent"

func userConsents(subject string) string    { return key("user-consents", subject) }
func clientConsents(clientID string) string { return key("client-consents", clientID) }

// Consent is what a person decided to be asked no more about one client.
type Consent struct {
	Subject  string `json:"sub"`
	ClientID string `json:"client"`
	// ClientName is the name of the client as the person saw it last, as in [Grant]. Records from
	// before it have none.
	ClientName string `json:"client_name,omitempty"`
	// Given are the decisions, one for each destination of the answer and state of the client.
	Given []Remembered `json:"given"`
	// Listed is the time in the entries of the record. What is forgotten and given again leaves entries
	// of another time, which do not count. Records of the release before have none, and each of their
	// entries counts.
	Listed time.Time `json:"listed,omitzero"`

	version Version
}

// listedBy reports whether an entry of a list is that of the record.
func (c Consent) listedBy(entry string) bool {
	return c.Listed.IsZero() || timeOf(entry).Equal(c.Listed.Truncate(time.Second))
}

// Remembered is one decision. It holds for requests that ask for no more, from a client that
// states the same about itself, with an answer to the same host.
type Remembered struct {
	// RedirectHost is the destination as pages show it, ClientDigest that of the client.
	RedirectHost string `json:"redirect_host"`
	ClientDigest string `json:"client_digest"`
	Access       Access `json:"access"`
	// At is when the person decided; Until the end, zero for none.
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"`
}

// Covers reports whether the decision holds at a time for a request.
func (r Remembered) Covers(now time.Time, redirectHost, clientDigest string, asked Access) bool {
	return r.RedirectHost == redirectHost && r.ClientDigest == clientDigest && (r.Until.IsZero() || now.Before(r.Until)) &&
		len(asked) > 0 && r.Access.Contains(asked)
}

// Contains reports whether everything in b is in a. A resource with scopes does not contain the
// same resource without any: a token without scopes is good for other operations.
func (a Access) Contains(b Access) bool {
	for _, p := range b {
		here, ok := a.At(p.Resource)
		if !ok || (len(p.Scopes) == 0) != (len(here.Scopes) == 0) {
			return false
		}
		for _, scope := range p.Scopes {
			if !slices.Contains(here.Scopes, scope) {
				return false
			}
		}
	}
	return true
}

func consentID(subject, clientID string) string { return string(aliasID("consent", subject, clientID)) }

// Consent returns what a person decided about a client, or [ErrNotFound]. With that error too the result is
// what [Store.PutConsent] needs: what is left of one that has ended may be there for a minute.
func (s *Store) Consent(ctx context.Context, subject, clientID string) (Consent, error) {
	return s.consent(ctx, consentID(subject, clientID))
}

func (s *Store) consent(ctx context.Context, id string) (Consent, error) {
	var c Consent
	version, err := s.read(ctx, kindConsent, id, &c)
	if err != nil {
		return Consent{version: version}, err
	}
	c.version = version
	return c, nil
}

// PutConsent stores a new consent, or replaces the one that was read before as c. [ErrConflict]
// means that another one is there. It ends with the last of its decisions.
func (s *Store) PutConsent(ctx context.Context, c Consent) error {
	r := record{kind: kindConsent, id: consentID(c.Subject, c.ClientID)}
	if c.Listed.IsZero() {
		c.Listed = s.now().UTC().Truncate(time.Second)
		entry := entryOf(c.Listed, r.id)
		r.listed = []Listing{{userConsents(c.Subject), entry}, {clientConsents(c.ClientID), entry}}
	}
	r.value = c
	if !slices.ContainsFunc(c.Given, func(g Remembered) bool { return g.Until.IsZero() }) {
		for _, g := range c.Given {
			if g.Until.After(r.expires) {
				r.expires = g.Until
			}
		}
	}
	if len(c.Given) == 0 {
		return s.DeleteConsent(ctx, c.Subject, c.ClientID)
	}
	_, err := s.write(ctx, r, Unchanged(c.version))
	return err
}

// DeleteConsent forgets what a person decided about a client. The person is asked again.
func (s *Store) DeleteConsent(ctx context.Context, subject, clientID string) error {
	id := consentID(subject, clientID)
	c, unread := s.consent(ctx, id)
	if err := s.deleteConsent(ctx, id); err != nil {
		return err
	}
	if unread == nil && !c.Listed.IsZero() { // others are removed when the list is read or tidied
		s.forgetEntry(ctx, userConsents(subject), entryOf(c.Listed, id))
		s.forgetEntry(ctx, clientConsents(clientID), entryOf(c.Listed, id))
	}
	return nil
}

func (s *Store) deleteConsent(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindConsent, id)); err != nil {
		return unavailable("delete consent", err)
	}
	return nil
}

// Consents lists what a person decided to be asked no more about, the oldest first. A record that
// cannot be read is an error in its place; the iteration may go on after it.
func (s *Store) Consents(ctx context.Context, subject string) iter.Seq2[Consent, error] {
	index, seen := userConsents(subject), map[string]bool{}
	return func(yield func(Consent, error) bool) {
		for entry, err := range s.indexed(ctx, index) {
			var c Consent
			id := ""
			if err == nil {
				id = entry[min(entryTimeLen, len(entry)):]
				c, err = s.consent(ctx, id)
			}
			if errors.Is(err, ErrNotFound) {
				err = s.removeGone(ctx, index, entry, key(kindConsent, id))
				if err == nil {
					continue
				}
			}
			if err == nil && !c.listedBy(entry) {
				s.forgetEntry(ctx, index, entry)
				continue
			}
			if seen[id] && err == nil {
				continue // forgotten and given again
			}
			seen[id] = true
			if !yield(c, err) || ends(err) {
				return
			}
		}
	}
}
