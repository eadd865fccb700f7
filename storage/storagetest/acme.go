package storagetest

import (
	"bytes"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// testACME: of two writers that read one record the later one is refused, also when the reply to the
// first was lost; nothing can be read without the keys; and resealing leaves a record to the new key
// alone.
func testACME(t *testing.T, f *fixture) {
	s, ctx := f.sealed(t), t.Context()
	const id = "certificates/ca.example.com-directory/auth.example.com"
	_, err := f.ACMERecord(ctx, id)
	wantError(t, "ACMERecord before the first", err, storage.ErrNotFound)
	f.faults.LoseReplies(1)
	first, err := f.SwapACMERecord(ctx, id, storage.ACMERecord{Content: []byte("a private key")})
	wantError(t, "SwapACMERecord with a lost reply", err, nil)
	read, err := f.ACMERecord(ctx, id)
	wantError(t, "ACMERecord", err, nil)
	if read.Version() != first.Version() || string(read.Content) != "a private key" {
		t.Errorf("read %q of %x, written %x", read.Content, read.Version(), first.Version())
	}
	read.Content = []byte("another private key")
	_, err = f.SwapACMERecord(ctx, id, read)
	wantError(t, "SwapACMERecord", err, nil)
	_, err = f.SwapACMERecord(ctx, id, first)
	wantError(t, "SwapACMERecord of a late writer", err, storage.ErrConflict)
	for _, written := range f.backend.writes() {
		if bytes.Contains(written.Data, []byte("private key")) {
			t.Errorf("%q can be read without the keys", written.Data)
		}
	}
	s.reseal(t)
	there, err := s.fresh.ACMERecord(ctx, id)
	if err != nil || string(there.Content) != "another private key" {
		t.Errorf("with the new key alone: %q, %v", there.Content, err)
	}
	_, err = f.SwapACMERecord(ctx, "challenge", storage.ACMERecord{Content: []byte("x"), Expires: f.clock.Now().Add(time.Minute)})
	wantError(t, "SwapACMERecord with an end", err, nil)
	f.clock.advance(time.Minute)
	_, err = f.ACMERecord(ctx, "challenge")
	wantError(t, "ACMERecord after its end", err, storage.ErrNotFound)
}
