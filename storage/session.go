package storage

import (
	"context"
	"encoding/hex"
	"time"
)

const kindSession = "session"

// Session is a person signed in with one browser. It is stored under the SHA-256 of
// the cookie's value, so a dump signs nobody in.
type Session struct {
	UserName string    `json:"user"`
	Subject  string    `json:"sub"`
	AuthTime time.Time `json:"auth_time"`
	Expires  time.Time `json:"expires"`
}

// CreateSession stores a session under a secret that the caller drew.
func (s *Store) CreateSession(ctx context.Context, secret string, session Session) error {
	_, err := s.writeUntil(ctx, kindSession, hex.EncodeToString(HashSecret(secret)), session, Absent, session.Expires)
	return err
}

// Session reads the session behind a cookie's value, or returns [ErrNotFound].
func (s *Store) Session(ctx context.Context, secret string) (Session, error) {
	var session Session
	_, err := s.read(ctx, kindSession, hex.EncodeToString(HashSecret(secret)), &session)
	return session, err
}

// DeleteSession ends a session.
func (s *Store) DeleteSession(ctx context.Context, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindSession, hex.EncodeToString(HashSecret(secret)))); err != nil {
		return unavailable("delete session", err)
	}
	return nil
}
