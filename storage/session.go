package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"time"
)

const kindSession = "session"

// Session is a person signed in with one browser. It is stored under the SHA-256 of the cookie's
// value, so a dump of the store contains no usable cookie.
type Session struct {
	UserName string `json:"user"`
	Subject  string `json:"sub"`
	// Epoch is the person's [User.SessionEpoch] at the sign-in.
	Epoch int `json:"password_changes,omitempty"`

	// Method is how the person signed in: "password", "passkey" or "provider". Provider is the id
	// of the provider, ProviderSubject the account there, and ProviderSession the session there
	// (sid), if it named one.
	Method          string `json:"method,omitempty"`
	Provider        string `json:"provider,omitempty"`
	ProviderSubject string `json:"provider_sub,omitempty"`
	ProviderSession string `json:"provider_session,omitempty"`
	// Browser describes the browser, From its network, for the person who looks at the list.
	Browser string `json:"browser,omitempty"`
	From    string `json:"from,omitempty"`

	// AuthTime is when the person signed in: at a provider that may be long before Begun, when the
	// session began here. Begun is zero in records of an earlier release.
	AuthTime time.Time `json:"auth_time"`
	Begun    time.Time `json:"begun,omitzero"`
	// Seen is the last use, up to a step. IdleExpires is the end if there is no further one.
	Seen        time.Time `json:"seen,omitzero"`
	IdleExpires time.Time `json:"idle_expires,omitzero"`
	Expires     time.Time `json:"expires"`

	id      string
	version Version
}

// ID returns the id of a session that was read. It does not sign anybody in.
func (s Session) ID() string { return s.id }

// SessionID returns the id of the session whose cookie has this value (see [Session.ID]).
func SessionID(secret string) string {
	sum := hashOf(secret)
	return string(hex.AppendEncode(make([]byte, 0, 2*len(sum)), sum[:]))
}

func userSessions(subject string) string { return key("user-sessions", subject) }

// end is when the session ends if it is not used again.
func (s Session) end() time.Time {
	if s.IdleExpires.IsZero() || s.Expires.Before(s.IdleExpires) {
		return s.Expires
	}
	return s.IdleExpires
}

// CreateSession stores a session under a secret that the caller has drawn. A failover may lose
// it: then the person signs in again.
func (s *Store) CreateSession(ctx context.Context, secret string, session Session) error {
	id := SessionID(secret)
	_, err := s.write(ctx, record{
		kind: kindSession, id: id, value: session, expires: session.end(), forgettable: true,
		listed: []Listing{{userSessions(session.Subject), entryOf(session.AuthTime, id)}},
	}, Absent)
	return err
}

// UpdateSession replaces a session that was read before. [ErrConflict] means that it was changed
// or has ended since.
func (s *Store) UpdateSession(ctx context.Context, session Session) error {
	if session.version == (Version{}) {
		return ErrConflict
	}
	_, err := s.write(ctx, record{
		kind: kindSession, id: session.id, value: session, expires: session.end(), forgettable: true,
	}, Unchanged(session.version))
	return err
}

// Session returns the session of a cookie's value, or [ErrNotFound].
func (s *Store) Session(ctx context.Context, secret string) (Session, error) {
	return s.session(ctx, SessionID(secret))
}

func (s *Store) session(ctx context.Context, id string) (Session, error) {
	var session Session
	version, err := s.read(ctx, kindSession, id, &session)
	return session.read(id, version, err)
}

// read returns a decoded session with its id and version, or the error of a read.
func (session Session) read(id string, version Version, err error) (Session, error) {
	if err != nil {
		return Session{}, err
	}
	session.id, session.version = id, version
	return session, nil
}

// Sessions lists the sessions of a person, the oldest first, those included that have ended
// because of [User.SessionEpoch]. A record that cannot be read is an error in its place; the
// iteration may go on after it.
func (s *Store) Sessions(ctx context.Context, subject string) iter.Seq2[Session, error] {
	index := userSessions(subject)
	return func(yield func(Session, error) bool) {
		for entry, err := range s.indexed(ctx, index) {
			var session Session
			id := entry[min(entryTimeLen, len(entry)):]
			if err == nil {
				session, err = s.session(ctx, id)
			}
			if errors.Is(err, ErrNotFound) {
				err = s.removeGone(ctx, index, entry, key(kindSession, id))
				if err == nil {
					continue
				}
			}
			if !yield(session, err) || ends(err) {
				return
			}
		}
	}
}

// TidySessions removes the oldest entries from the list of a person's sessions if these are gone.
// Called once for each session that is created, it keeps a list from growing that is never read.
func (s *Store) TidySessions(ctx context.Context, subject string) error {
	index := userSessions(subject)
	page, err := s.indexPage(ctx, index, "", tidyLength)
	if err != nil {
		return err
	}
	for _, entry := range page {
		if err := s.removeGone(ctx, index, entry, key(kindSession, entry[min(entryTimeLen, len(entry)):])); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSession ends the session of a cookie's value.
func (s *Store) DeleteSession(ctx context.Context, secret string) error {
	return s.EndSession(ctx, SessionID(secret))
}

// EndSession ends a session by its [Session.ID]. It is not an error if there is none.
func (s *Store) EndSession(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindSession, id)); err != nil {
		return unavailable("delete session", err)
	}
	return nil
}
