package storage

import (
	"context"
	"time"
)

const kindACME = "acme"

// ACMERecord is what the processes of a server share about certificates from a certificate
// authority (RFC 8555): a certificate with its private key, the account, a lock, or the answer to
// a challenge. Package internal/acme decides what is in one. All of it is sealed.
type ACMERecord struct {
	Content []byte `json:"content"`
	// Expires is the end of the record, zero for none.
	Expires time.Time `json:"expires,omitzero"`

	version Version
}

// Version is the version that was read or written, zero for a record that is not there.
func (r ACMERecord) Version() Version { return r.version }

// storedACME is an [ACMERecord] as it is stored.
type storedACME struct {
	Content Sealed `json:"content"`
}

func (r *storedACME) sealed() *Sealed { return &r.Content }

// ACMERecord returns the record under an id, or [ErrNotFound].
func (s *Store) ACMERecord(ctx context.Context, id string) (ACMERecord, error) {
	var stored storedACME
	version, err := s.read(ctx, kindACME, id, &stored)
	if err != nil {
		return ACMERecord{}, err
	}
	content, err := s.Open(kindACME, id, stored.Content)
	return ACMERecord{Content: content, version: version}, err
}

// SwapACMERecord replaces the record that was read or written before as r, or creates the first one
// if r was not read, and returns it for the next write. [ErrConflict] means that another process
// was first, and that nothing was written.
func (s *Store) SwapACMERecord(ctx context.Context, id string, r ACMERecord) (ACMERecord, error) {
	sealed, err := s.Seal(kindACME, id, r.Content)
	if err != nil {
		return r, err
	}
	item, err := s.write(ctx, record{kind: kindACME, id: id, value: storedACME{sealed}, expires: r.Expires}, Unchanged(r.version))
	if err == nil {
		r.version = item.Version
	}
	return r, err
}
