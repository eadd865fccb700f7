package storage

import (
	"context"
	"errors"
	"fmt"
)

const kindPin = "pin"

// Pin is what the first arrival of a person from a provider fixed for good: that a rule of the
// configuration which names a single person, such as an e-mail address, means this account there.
// Another account that has the address later is somebody else. There are at most two records for
// each person whom the configuration names.
type Pin struct {
	// Entry is the entry of the configuration, Subject the account at the provider.
	Entry   string `json:"entry"`
	Subject string `json:"sub"`
}

func pinOfEntry(provider, issuer, entry string) string {
	return string(aliasID("pinned entry", provider, issuer, entry))
}

func pinOfSubject(provider, issuer, subject string) string {
	return string(aliasID("pinned subject", provider, issuer, subject))
}

// TakePin fixes an entry to an account at a provider if it is still free. [ErrConflict] means that
// it belongs to another account.
func (s *Store) TakePin(ctx context.Context, provider, issuer string, p Pin) error {
	id := pinOfEntry(provider, issuer, p.Entry)
	_, err := s.write(ctx, record{kind: kindPin, id: id, value: p}, Absent)
	if errors.Is(err, ErrConflict) {
		var there Pin
		if _, err = s.read(ctx, kindPin, id, &there); err == nil && there.Subject != p.Subject {
			return fmt.Errorf("storage: pin: %w: it belongs to another account", ErrConflict)
		}
	}
	if err != nil {
		return err
	}
	// Written after the first one, and again at each use, so that a failure in between is mended.
	_, err = s.write(ctx, record{kind: kindPin, id: pinOfSubject(provider, issuer, p.Subject), value: p}, Absent)
	if errors.Is(err, ErrConflict) {
		return nil // by this entry or by another one
	}
	return err
}

// PinOf returns the entry that an account at a provider was fixed to, or [ErrNotFound].
func (s *Store) PinOf(ctx context.Context, provider, issuer, subject string) (Pin, error) {
	var p Pin
	_, err := s.read(ctx, kindPin, pinOfSubject(provider, issuer, subject), &p)
	return p, err
}
