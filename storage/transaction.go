package storage

import (
	"context"
	"time"
)

const kindTransaction = "transaction"

// Transaction is a validated authorization request whose person is still signing in
// or deciding. It belongs to one browser.
type Transaction struct {
	ID string `json:"id"`
	// Browser is the hash of the cookie of the browser that started it.
	Browser SecretHash `json:"browser"`

	ClientID    string   `json:"client"`
	RedirectURI string   `json:"redirect_uri"`
	State       string   `json:"state,omitempty"`
	Challenge   string   `json:"challenge"`
	Resources   []string `json:"resources"`
	Scopes      []string `json:"scopes,omitempty"`
	// ForceLogin is prompt=login: a session that is older than the transaction does
	// not count.
	ForceLogin bool      `json:"force_login,omitempty"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires"`
}

// CreateTransaction stores a transaction.
func (s *Store) CreateTransaction(ctx context.Context, t Transaction) error {
	_, err := s.writeUntil(ctx, kindTransaction, t.ID, t, Absent, t.Expires)
	return err
}

// Transaction reads a transaction, or returns [ErrNotFound].
func (s *Store) Transaction(ctx context.Context, id string) (Transaction, error) {
	var t Transaction
	_, err := s.read(ctx, kindTransaction, id, &t)
	return t, err
}

// TakeTransaction removes and returns a transaction: of two decisions on one consent
// page exactly one counts. The other gets [ErrNotFound].
func (s *Store) TakeTransaction(ctx context.Context, id string) (Transaction, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	item, err := s.backend.Take(ctx, key(kindTransaction, id))
	if err != nil {
		return Transaction{}, unavailable("take transaction", err)
	}
	var t Transaction
	if err := s.decode(kindTransaction, item, &t); err != nil {
		return Transaction{}, err
	}
	return t, nil
}
