package storage

import (
	"context"
	"encoding/hex"
	"time"
)

const kindSession = "session"

// Session is a person signed in with one browser. It is stored under the SHA-256 of the cookie's
// value, so a dump of the store contains no usable cookie.
type Session struct {
	UserName string `json:"user"`
	Subject  string `json:"sub"`
	// PasswordChanges is that of the person at the sign-in.
	PasswordChanges int `json:"password_changes,omitempty"`

	AuthTime time.Time `json:"auth_time"`
	Expires  time.Time `json:"expires"`
}

// CreateSession stores a session under a secret that the caller has drawn. A failover may lose
// it: then the person signs in again.
func (s *Store) CreateSession(ctx context.Context, secret string, session Session) error {
	_, err := s.write(ctx, record{
		kind: kindSession, id: hex.EncodeToString(HashSecret(secret)), value: session, expires: session.Expires, forgettable: true,
	}, Absent)
	return err
}

// Session returns the session of a cookie's value, or [ErrNotFound].
func (s *Store) Session(ctx context.Context, secret string) (Session, error) {
	var session Session
	_, err := s.read(ctx, kindSession, hex.EncodeToString(HashSecret(secret)), &session)
	return session, err
}

// DeleteSession ends a session.
func (s *Store) DeleteSession(ctx context.Context, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindSession, hex.EncodeToString(HashSecret(secret)))); err != nil {
		return unavailable("delete session", err)
	}
	return nil
}
