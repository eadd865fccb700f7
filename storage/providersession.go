package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const kindProviderSession = "provider-session"

// providerSession is what this server knows of a session at a provider (sid): the sessions here
// that began with it. It ends with the last of them, so that there is no list that grows. An account
// that was signed out everywhere has one too, with EndedAt alone.
type providerSession struct {
	// Sessions are ids of sessions, the newest last.
	Sessions []string `json:"sessions,omitempty"`
	// Until is the end of the record.
	Until time.Time `json:"until"`
	// Ended means that the provider has ended it: no session here begins with it any more.
	Ended bool `json:"ended,omitempty"`
	// EndedAt is when the provider signed the account out everywhere, zero for a session.
	EndedAt time.Time `json:"ended_at,omitzero"`

	version Version
}

// maxProviderSessions is the greatest number of sessions here that are remembered for one session
// at a provider. The oldest are forgotten, and end by their own limits.
const maxProviderSessions = 32

// endedTime is how long the end of a session at a provider is remembered: longer than a sign-in
// that is under way takes.
const endedTime = 20 * time.Minute

func providerSessionID(provider, sid string) string {
	return string(aliasID("provider session", provider, sid))
}

// JoinProviderSession records that a session here, which exists until a time, began with a
// session at a provider (sid). [ErrNotFound] means that the provider has ended that one.
func (s *Store) JoinProviderSession(ctx context.Context, provider, sid, session string, until time.Time) error {
	_, err := s.changeProviderSession(ctx, providerSessionID(provider, sid), func(p *providerSession) error {
		if p.Ended {
			return ErrNotFound
		}
		p.Sessions = append(p.Sessions, session)
		p.Sessions = p.Sessions[max(len(p.Sessions)-maxProviderSessions, 0):]
		if until.After(p.Until) {
			p.Until = until
		}
		return nil
	})
	return err
}

// EndProviderSession ends the sessions that began with a session at a provider, and lets none
// begin any more. It returns them as they were, without those that cannot be read, which end too.
func (s *Store) EndProviderSession(ctx context.Context, provider, sid string) ([]Session, error) {
	p, err := s.changeProviderSession(ctx, providerSessionID(provider, sid), func(p *providerSession) error {
		p.Ended = true
		if least := s.now().Add(endedTime); p.Until.Before(least) {
			p.Until = least
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var ended []Session
	for _, id := range p.Sessions {
		session, err := s.session(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err == nil:
			ended = append(ended, session)
		case !errors.Is(err, ErrRecord):
			return ended, err
		}
		if err := s.EndSession(ctx, id); err != nil {
			return ended, err
		}
	}
	return ended, nil
}

func providerAccountID(provider, subject string) string {
	return string(aliasID("provider account", provider, subject))
}

// EndProviderAccount records that a provider has signed an account there (sub) out everywhere. Call it
// before the sessions here are ended: a sign-in that goes on is told by [Store.CheckProviderAccount].
func (s *Store) EndProviderAccount(ctx context.Context, provider, subject string) error {
	_, err := s.changeProviderSession(ctx, providerAccountID(provider, subject), func(p *providerSession) error {
		p.EndedAt = s.now()
		p.Until = p.EndedAt.Add(endedTime)
		return nil
	})
	return err
}

// CheckProviderAccount returns [ErrNotFound] if the provider has signed the account out since a sign-in
// with it began. Call it after the session is stored.
func (s *Store) CheckProviderAccount(ctx context.Context, provider, subject string, began time.Time) error {
	p, err := s.providerSession(ctx, providerAccountID(provider, subject))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err == nil && !p.EndedAt.Before(began):
		return ErrNotFound
	}
	return err
}

// changeProviderSession swaps the record, from an empty one if there is none.
func (s *Store) changeProviderSession(ctx context.Context, id string, change func(*providerSession) error) (providerSession, error) {
	for range changeAttempts {
		p, err := s.providerSession(ctx, id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return p, err
		}
		p.Sessions = slices.Clone(p.Sessions)
		if err := change(&p); err != nil {
			return p, err
		}
		_, err = s.write(ctx, record{kind: kindProviderSession, id: id, value: p, expires: p.Until}, Unchanged(p.version))
		if !errors.Is(err, ErrConflict) {
			return p, err
		}
	}
	return providerSession{}, fmt.Errorf("storage: provider session: %w: it kept changing", ErrUnavailable)
}

func (s *Store) providerSession(ctx context.Context, id string) (providerSession, error) {
	var p providerSession
	version, err := s.read(ctx, kindProviderSession, id, &p)
	p.version = version
	return p, err
}
