package storage

import (
	"context"
	"errors"
	"time"
)

const kindTransaction = "transaction"

// Transaction is a validated authorization request whose person is still signing in
// or deciding. It belongs to one browser.
type Transaction struct {
	ID string `json:"id"`
	// Browser is the hash of the cookie of the browser that started it.
	Browser SecretHash `json:"browser"`

	ClientID string `json:"client"`
	// ClientDigest is over what the client said about itself when it asked.
	ClientDigest string `json:"client_digest,omitempty"`
	RedirectURI  string `json:"redirect_uri"`
	State        string `json:"state,omitempty"`
	Challenge    string `json:"challenge"`
	// Access is what the client asks for. Resources and Scopes say the same to a program of
	// the release before, and records of that release have nothing else: read it with
	// [Transaction.Asked].
	Access    Access   `json:"access,omitempty"`
	Resources []string `json:"resources"`
	Scopes    []string `json:"scopes,omitempty"`
	// ForceLogin is prompt=login: a session that is older than the transaction does
	// not count.
	ForceLogin bool      `json:"force_login,omitempty"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires"`
	// Taken says that the person has decided. It stays on record until Expires, so that
	// a decision whose reply is lost is not taken for a second one.
	Taken bool `json:"taken,omitempty"`

	version Version
}

// CreateTransaction stores a transaction. A failover may forget it: the person starts
// again at the application.
func (s *Store) CreateTransaction(ctx context.Context, t Transaction) error {
	_, err := s.write(ctx, t.record(), Absent)
	return err
}

func (t Transaction) record() record {
	return record{kind: kindTransaction, id: t.ID, value: t, expires: t.Expires, forgettable: true}
}

// Transaction reads a transaction. It returns [ErrNotFound] for one that is over.
func (s *Store) Transaction(ctx context.Context, id string) (Transaction, error) {
	var t Transaction
	version, err := s.read(ctx, kindTransaction, id, &t)
	if err != nil {
		return Transaction{}, err
	}
	if t.Taken {
		return Transaction{}, ErrNotFound
	}
	t.version = version
	return t, nil
}

// TakeTransaction ends a transaction that was read before: of two decisions on one
// consent page exactly one counts. The other gets [ErrNotFound], and so does who never
// read it.
func (s *Store) TakeTransaction(ctx context.Context, t Transaction) error {
	if t.version == (Version{}) {
		return ErrNotFound
	}
	t.Taken = true
	_, err := s.write(ctx, t.record(), Unchanged(t.version))
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}
