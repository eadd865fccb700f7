package storage

import (
	"context"
	"errors"
	"time"
)

const kindTransaction = "transaction"

// Transaction is a validated authorization request whose person is still signing in or deciding.
// Its browser keeps it, sealed ([Store.SealTransaction]); one that is too large for that is a
// record ([Store.CreateTransaction]). The decision is on record in both cases.
type Transaction struct {
	ID string `json:"id"`
	// Browser is the hash of the cookie of the browser in which it began.
	Browser SecretHash `json:"browser"`

	ClientID string `json:"client"`
	// ClientDigest is over what the client stated about itself when it asked.
	ClientDigest string `json:"client_digest,omitempty"`
	RedirectURI  string `json:"redirect_uri"`
	State        string `json:"state,omitempty"`
	Challenge    string `json:"challenge"`
	// Access is what the client asks for. Resources and Scopes are the same for a program of the
	// release before, whose records have nothing else: use [Transaction.Asked].
	Access    Access   `json:"access,omitempty"`
	Resources []string `json:"resources"`
	Scopes    []string `json:"scopes,omitempty"`
	// ForceLogin is prompt=login: a session from before the transaction does not count.
	ForceLogin bool `json:"force_login,omitempty"`
	// ForceConsent is prompt=consent: a remembered consent does not count.
	ForceConsent bool `json:"force_consent,omitempty"`
	// MaxAge is the greatest age of the sign-in in seconds at the time of the request (max_age);
	// nil for any.
	MaxAge *int64 `json:"max_age,omitempty"`
	// LoginHint is the person whom the client expects (login_hint).
	LoginHint string `json:"login_hint,omitempty"`

	// Return is the path of this server, below the issuer, to which a sign-in without a client
	// leads. Then there is no ClientID.
	Return string `json:"return,omitempty"`
	// Pending is a sign-in that needs another step; nil for none.
	Pending *PendingSignIn `json:"pending,omitempty"`
	// Upstream is the sign-in at a provider that is under way; nil for none.
	Upstream *UpstreamAttempt `json:"upstream,omitempty"`

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Taken means that the person has decided. No function of a Store returns such a transaction.
	Taken bool `json:"taken,omitempty"`

	version Version // of its record; zero if it has none
	known   bool    // it was read or opened
}

// PendingSignIn is a person whose password was right and whose second factor is not yet known.
type PendingSignIn struct {
	UserName string `json:"user"`
	Subject  string `json:"sub"`
	// Epoch is the person's [User.SessionEpoch] at the first step: a later one voids it.
	Epoch int       `json:"epoch,omitempty"`
	At    time.Time `json:"at"`
}

// UpstreamAttempt is a sign-in at a provider that this browser was sent to.
type UpstreamAttempt struct {
	Provider string `json:"provider"`
	// State is the hash of the random part of the state parameter.
	State SecretHash `json:"state"`
	// Nonce and Verifier are those of the request (OpenID Connect Core section 3.1.2.1, RFC 7636).
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Session is the hash of the cookie of the session to whose person the account at the
	// provider is to be connected; empty for a sign-in.
	Session SecretHash `json:"session,omitempty"`
	At      time.Time  `json:"at"`
	// Groups says that the provider is asked for groups, because resources depend on them.
	Groups bool `json:"groups,omitempty"`
}

// takenTime is how much longer than a transaction its decision is on record: the clock of another
// process, which may still accept the copy in a browser, may be that slow.
const takenTime = 10 * time.Minute

// takenTransaction is the record that replaces a decided transaction. It is decoded as a
// [Transaction].
type takenTransaction struct {
	ID    string `json:"id"`
	Taken bool   `json:"taken"`
}

// CreateTransaction stores a transaction that its browser cannot keep. A failover may lose it:
// then the person starts again at the application. While room is short the error is [ErrFull].
func (s *Store) CreateTransaction(ctx context.Context, t Transaction) error {
	_, err := s.write(ctx, record{
		kind: kindTransaction, id: t.ID, value: t, expires: t.Expires, forgettable: true, yields: true,
	}, Absent)
	return err
}

// Stored reports whether the transaction is a record, and not only in its browser.
func (t Transaction) Stored() bool { return t.version != (Version{}) }

// UpdateTransaction replaces a stored transaction that was read before. [ErrNotFound] means that
// it was decided, changed in another window, or has ended.
func (s *Store) UpdateTransaction(ctx context.Context, t Transaction) error {
	if !t.Stored() {
		return ErrNotFound
	}
	_, err := s.write(ctx, record{
		kind: kindTransaction, id: t.ID, value: t, expires: t.Expires, forgettable: true,
	}, Unchanged(t.version))
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}

// ResumeTransaction returns the transaction with an id with which a browser goes on: the one that
// the browser sends sealed, or the one that is on record. The argument browser is its cookie. It
// returns [ErrNotFound] for one that has ended, was decided, or belongs to another browser.
func (s *Store) ResumeTransaction(ctx context.Context, id, browser string, sealed []byte) (Transaction, error) {
	read := s.Reading()
	_, resume := read.Transaction(id, browser, sealed)
	if err := read.Read(ctx); err != nil {
		return Transaction{}, err
	}
	return resume()
}

// absentError is the [ErrNotFound] of a transaction without a record, which may be in a browser.
type absentError struct{ error }

// Unwrap returns the error itself.
func (e absentError) Unwrap() error { return e.error }

// Transaction returns a transaction that is on record. It returns [ErrNotFound] for one that has
// ended or was decided.
func (s *Store) Transaction(ctx context.Context, id string) (Transaction, error) {
	var t Transaction
	version, err := s.read(ctx, kindTransaction, id, &t)
	return t.read(version, err)
}

// read returns a decoded transaction with its version, or the error of a read.
func (t Transaction) read(version Version, err error) (Transaction, error) {
	switch {
	case errors.Is(err, ErrNotFound):
		return Transaction{}, &absentError{err}
	case err != nil:
		return Transaction{}, err
	case t.Taken:
		return Transaction{}, ErrNotFound
	}
	t.version, t.known = version, true
	return t, nil
}

// TakeTransaction ends a transaction that was resumed before: of two decisions on one consent
// page exactly one counts, whichever processes receive them. The other gets [ErrNotFound], and so
// does a transaction that was not resumed. The decision is on record for longer than the copy in
// the browser is valid, and no failover may lose it, so that the copy is not used twice.
func (s *Store) TakeTransaction(ctx context.Context, t Transaction) error {
	if !t.known {
		return ErrNotFound
	}
	_, err := s.write(ctx, record{
		kind: kindTransaction, id: t.ID, value: takenTransaction{t.ID, true}, expires: t.Expires.Add(takenTime),
	}, Unchanged(t.version))
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}
