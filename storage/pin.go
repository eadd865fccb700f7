package storage

import (
	"context"
	"errors"
	"fmt"
)

const kindPin = "pin"

// Pin is what the first arrival of a person from a provider fixed for good: that an entry of the
// configuration which names a single person, such as an e-mail address, means this account there.
// Another account that has the address later is somebody else. There is at most one record for
// each entry and issuer.
type Pin struct {
	// Entry is the entry of the configuration, Subject the account at the provider.
	Entry   string `json:"entry"`
	Subject string `json:"sub"`
}

func pinID(provider, issuer, entry string) string {
	return string(aliasID("pin", provider, issuer, entry))
}

// TakePin fixes an entry to an account at a provider, if it is free or fixed to the same account.
// [ErrConflict] means that it belongs to another one.
func (s *Store) TakePin(ctx context.Context, provider, issuer string, p Pin) error {
	id := pinID(provider, issuer, p.Entry)
	_, err := s.write(ctx, record{kind: kindPin, id: id, value: p}, Absent)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	var there Pin
	if _, err := s.read(ctx, kindPin, id, &there); err != nil {
		return err
	}
	if there.Subject != p.Subject {
		return fmt.Errorf("storage: pin: %w: it belongs to another account", ErrConflict)
	}
	return nil
}

// Pins returns the accounts to which entries are fixed, by entry, without those that are free.
func (s *Store) Pins(ctx context.Context, provider, issuer string, entries []string) (map[string]string, error) {
	keys := make([]string, len(entries))
	for i, entry := range entries {
		keys[i] = key(kindPin, pinID(provider, issuer, entry))
	}
	items, err := s.getMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	subjects := map[string]string{}
	for i, item := range items {
		if item.Version == (Version{}) {
			continue
		}
		var p Pin
		err := s.mayBePlain(ctx, kindPin, item)
		if err == nil {
			err = s.decode(kindPin, pinID(provider, issuer, entries[i]), item, &p)
		}
		if err != nil {
			return nil, err
		}
		subjects[entries[i]] = p.Subject
	}
	return subjects, nil
}
