package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

const (
	kindAssertion    = "assertion"
	kindInitialToken = "initial-token"
	kindOnce         = "once"
)

// TakeOnce takes a value that may be used once for a purpose: the second caller gets
// [ErrConflict], until the value has ended.
func (s *Store) TakeOnce(ctx context.Context, purpose, value string, expires time.Time) error {
	_, err := s.write(ctx, record{kind: kindOnce, id: string(aliasID(purpose, value)), value: struct{}{}, expires: expires}, Absent)
	return err
}

// Taken reports whether a value was taken with [Store.TakeOnce], and has not ended.
func (s *Store) Taken(ctx context.Context, purpose, value string) (bool, error) {
	var nothing struct{}
	_, err := s.read(ctx, kindOnce, string(aliasID(purpose, value)), &nothing)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// TakeAssertion takes the id (jti) of a client's assertion, once: the second caller gets
// [ErrConflict], until the assertion has expired (RFC 7523 section 3). The time is that up to
// which the assertion would be accepted.
func (s *Store) TakeAssertion(ctx context.Context, clientID, jti string, expires time.Time) error {
	sum := sha256.Sum256([]byte(clientID + "\x00" + jti)) // a client id has no NUL
	id := base64URL(sum[:])
	_, err := s.write(ctx, record{kind: kindAssertion, id: id, value: struct{}{}, expires: expires}, Absent)
	return err
}

// InitialToken is an initial access token (RFC 7591 section 3): the right to register a number of
// clients.
type InitialToken struct {
	// Token is the hash of the token, which is shown once, when it is created.
	Token   SecretHash `json:"token"`
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires"`
	// Left is how many clients may still be registered with it.
	Left int `json:"left"`

	version Version
}

func (t InitialToken) record() record {
	return record{kind: kindInitialToken, id: base64URL(t.Token), value: t, expires: t.Expires}
}

// CreateInitialToken stores a new initial access token.
func (s *Store) CreateInitialToken(ctx context.Context, t InitialToken) error {
	_, err := s.write(ctx, t.record(), Absent)
	return err
}

// InitialToken returns the record of an initial access token. It is [ErrNotFound] if the token
// was never created, has expired, or is used up.
func (s *Store) InitialToken(ctx context.Context, token string) (InitialToken, error) {
	var t InitialToken
	version, err := s.read(ctx, kindInitialToken, base64URL(HashSecret(token)), &t)
	if err != nil {
		return InitialToken{}, err
	}
	if t.Left < 1 {
		return InitialToken{}, ErrNotFound
	}
	t.version = version
	return t, nil
}

// UseInitialToken subtracts one registration from a token that was read before. It is
// [ErrNotFound] if none is left.
func (s *Store) UseInitialToken(ctx context.Context, t InitialToken) error {
	for range changeAttempts {
		if t.version == (Version{}) || t.Left < 1 {
			return ErrNotFound
		}
		t.Left--
		item, err := s.write(ctx, t.record(), Unchanged(t.version))
		if !errors.Is(err, ErrConflict) {
			return err
		}
		id := t.record().id
		t = InitialToken{}
		if item.Version == (Version{}) {
			continue // it is gone
		}
		if err := s.decode(kindInitialToken, id, item, &t); err != nil {
			return err
		}
		t.version = item.Version
	}
	return fmt.Errorf("storage: use initial token: %w: others kept using it", ErrUnavailable)
}
