package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

const kindProviderToken = "provider-token"

// providerTokensDue lists the tokens by the time of their next check.
var providerTokensDue = key("provider-tokens", "due")

// ProviderToken is the refresh token that a provider gave at a sign-in. It is used for one thing:
// to ask the provider from time to time whether the person may still sign in. It ends with
// whatever ends the person's account at the provider, and is never given to anybody.
type ProviderToken struct {
	// Provider, Issuer and ProviderSubject name the account there, as in [Identity]. UserName and
	// Subject are the person here.
	Provider        string `json:"provider"`
	Issuer          string `json:"issuer"`
	ProviderSubject string `json:"provider_sub"`
	UserName        string `json:"user"`
	Subject         string `json:"sub"`

	// Token is the refresh token. See [Store.SealProviderToken].
	Token Sealed `json:"token"`
	// Groups says that the sign-in with which it came asked for groups, so that each question does.
	Groups bool `json:"groups,omitempty"`
	// Confirmed is when the provider said last that the person may sign in.
	Confirmed time.Time `json:"confirmed"`
	// Asked means that a question was sent with the token, and that its answer is not on record:
	// the provider may have replaced the token, so a refusal of it proves nothing.
	Asked bool `json:"asked,omitempty"`
	// Gone is why the person may not sign in any more, until the consequences are drawn.
	Gone string `json:"gone,omitempty"`
	// Failures counts the questions since Confirmed that had no answer.
	Failures int `json:"failures,omitempty"`

	// Due is the time of the next question. LeaseUntil is until when a process has the question to
	// itself; whoever takes the lease changes the record, so that all others lose theirs.
	Due        time.Time `json:"due"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`

	version Version
	listed  time.Time // the due time under which the record is listed
}

// ID returns the id of the identity whose token it is.
func (t ProviderToken) ID() AliasID { return IdentityAlias(t.Provider, t.Issuer, t.ProviderSubject) }

// SealProviderToken returns a refresh token in the form in which the record of an identity has it.
func (s *Store) SealProviderToken(id AliasID, token string) (Sealed, error) {
	return s.Seal(kindProviderToken, string(id), []byte(token))
}

// OpenProviderToken returns the refresh token in a record.
func (s *Store) OpenProviderToken(t ProviderToken) (string, error) {
	plain, err := s.Open(kindProviderToken, string(t.ID()), t.Token)
	return string(plain), err
}

// ProviderToken returns the token of an identity, or [ErrNotFound].
func (s *Store) ProviderToken(ctx context.Context, id AliasID) (ProviderToken, error) {
	var t ProviderToken
	version, err := s.read(ctx, kindProviderToken, string(id), &t)
	t.version, t.listed = version, t.Due
	return t, err
}

// PutProviderToken stores the token of an identity, or replaces the record that was read or
// written before as t, and returns it for the next write. [ErrConflict] means that it has changed
// since, and that nothing was written: another process has the lease, or the person has signed in
// again.
func (s *Store) PutProviderToken(ctx context.Context, t ProviderToken) (ProviderToken, error) {
	id := string(t.ID())
	r := record{kind: kindProviderToken, id: id, value: t}
	before, after := entryOf(t.listed, id), entryOf(t.Due, id)
	if t.version == (Version{}) || before != after {
		r.listed = []Listing{{providerTokensDue, after}}
	}
	item, err := s.write(ctx, r, Unchanged(t.version))
	if err != nil {
		return t, err
	}
	if t.version != (Version{}) && before != after {
		// An entry that stays because of an error is skipped, and removed by whoever reads it later.
		err = s.indexRemove(ctx, providerTokensDue, before)
	}
	t.version, t.listed = item.Version, t.Due
	return t, err
}

// ReplaceProviderToken stores the token of a sign-in, whatever was there before.
func (s *Store) ReplaceProviderToken(ctx context.Context, t ProviderToken) error {
	for range changeAttempts {
		there, err := s.ProviderToken(ctx, t.ID())
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		t.version, t.listed = there.version, there.listed
		if _, err = s.PutProviderToken(ctx, t); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: provider token: %w: it kept changing", ErrUnavailable)
}

// EndProviderToken forgets the token that was read or written before as t. [ErrConflict] means that
// it has changed since, and that nothing was written.
func (s *Store) EndProviderToken(ctx context.Context, t ProviderToken) error {
	id := string(t.ID())
	t.Token = nil
	// Deleting has no condition, so the record gets an end that has come.
	if _, err := s.write(ctx, record{kind: kindProviderToken, id: id, value: t, expires: s.now()}, Unchanged(t.version)); err != nil {
		return err
	}
	return s.indexRemove(ctx, providerTokensDue, entryOf(t.listed, id))
}

// DeleteProviderToken forgets the token of an identity of a person (sub). It is not an error if there is
// none, or one of another person, who has connected the identity since.
func (s *Store) DeleteProviderToken(ctx context.Context, id AliasID, subject string) error {
	for range changeAttempts {
		there, err := s.ProviderToken(ctx, id)
		switch {
		case errors.Is(err, ErrRecord):
			return s.deleteUnreadableToken(ctx, id)
		case errors.Is(err, ErrNotFound) || err == nil && there.Subject != subject:
			return nil
		case err == nil:
			err = s.EndProviderToken(ctx, there)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: delete provider token: %w: it kept changing", ErrUnavailable)
}

// deleteUnreadableToken removes a token without knowing its entry. Whoever reads that removes it.
func (s *Store) deleteUnreadableToken(ctx context.Context, id AliasID) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindProviderToken, string(id))); err != nil {
		return unavailable("delete provider token", err)
	}
	return nil
}

// DueProviderTokens lists the tokens whose next question is due and on which no process has a
// lease, the most overdue first. A record that cannot be read is an error in its place; the
// iteration may go on after it.
func (s *Store) DueProviderTokens(ctx context.Context) iter.Seq2[ProviderToken, error] {
	return func(yield func(ProviderToken, error) bool) {
		now := s.now()
		for entry, err := range s.indexed(ctx, providerTokensDue) {
			if err == nil && timeOf(entry).After(now) {
				return
			}
			t, due := ProviderToken{}, false
			if err == nil {
				t, due, err = s.dueToken(ctx, entry, now)
			}
			if (due || err != nil) && !yield(t, err) || ends(err) {
				return
			}
		}
	}
}

// dueToken returns the token of an entry, and whether its question is due by that entry. An old
// entry that is not that of its record is removed.
func (s *Store) dueToken(ctx context.Context, entry string, now time.Time) (t ProviderToken, due bool, err error) {
	id := entry[min(entryTimeLen, len(entry)):]
	t, err = s.ProviderToken(ctx, AliasID(id))
	if errors.Is(err, ErrNotFound) {
		return t, false, s.removeGone(ctx, providerTokensDue, entry, key(kindProviderToken, id))
	}
	if err != nil {
		return t, false, err
	}
	if entryOf(t.Due, id) == entry {
		return t, !now.Before(t.LeaseUntil), nil
	}
	if now.Sub(timeOf(entry)) > forestallTime { // else its record may be about to be written
		err = s.indexRemove(ctx, providerTokensDue, entry)
	}
	return t, false, err
}

func (t *ProviderToken) sealed() *Sealed { return &t.Token }
