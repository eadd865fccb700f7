package storagetest

import (
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// testExpiry: the record decides, also while its key is still there.
func testExpiry(t *testing.T, f *fixture) {
	ends := f.clock.later()
	wantError(t, "CreateSession", f.CreateSession(t.Context(), "s", storage.Session{Expires: ends}), nil)
	session := f.backend.last(t)
	wantError(t, "CreateTransaction", f.CreateTransaction(t.Context(), storage.Transaction{ID: "t", Expires: ends}), nil)
	transaction := f.backend.last(t)
	for _, written := range []storage.Put{session, transaction} {
		if written.TTL < time.Hour || written.TTL > 2*time.Hour {
			t.Errorf("the key of a record that ends in an hour lives for %v", written.TTL)
		}
	}
	f.clock.advance(time.Hour)
	for _, written := range []storage.Put{session, transaction} {
		if _, err := f.backend.Get(t.Context(), written.Key); err != nil {
			t.Errorf("the key is gone: %v", err)
		}
	}
	_, err := f.Session(t.Context(), "s")
	wantError(t, "Session", err, storage.ErrNotFound)
	_, err = f.Transaction(t.Context(), "t")
	wantError(t, "Transaction", err, storage.ErrNotFound)

	g := f.active(t)
	f.clock.advance(365 * 24 * time.Hour)
	wantError(t, "Revoke of an expired grant", f.Revoke(t.Context(), g.ID, "test"), nil)
	wantError(t, "RevokeUser with an expired grant", f.RevokeUser(t.Context(), g.Subject, "test"), nil)
	_, err = f.Grant(t.Context(), g.ID)
	wantError(t, "Grant", err, storage.ErrNotFound)
}

// testNoEnd: nothing that a stranger can make lives for ever by mistake.
func testNoEnd(t *testing.T, f *fixture) {
	code, _ := f.grant(t, true)
	active := f.active(t)
	endless, _ := f.prepare(t, true)
	endless.Lifetime = storage.Lifetime{}
	before := f.faults.Puts()
	for what, call := range map[string]func() error{
		"CreateSession":     func() error { return f.CreateSession(t.Context(), "s", storage.Session{}) },
		"CreateTransaction": func() error { return f.CreateTransaction(t.Context(), storage.Transaction{ID: "t"}) },
		"CreateGrant":       func() error { return f.CreateGrant(t.Context(), endless) },
		"Redeem":            func() error { _, err := f.Redeem(t.Context(), code, storage.Lifetime{}); return err },
		"Rotate":            func() error { _, err := f.Rotate(t.Context(), active, storage.Lifetime{}); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "end") {
			t.Errorf("%s without an end returned error %v; want one that says so", what, err)
		}
	}
	if after := f.faults.Puts(); after != before {
		t.Errorf("%d writes were sent", after-before)
	}
}

// testEncoding: a record that this program cannot read is an error of its own, and
// never taken for no record.
func testEncoding(t *testing.T, f *fixture) {
	wantError(t, "CreateClient", f.CreateClient(t.Context(), storage.Client{ID: "c"}), nil)
	client := f.backend.last(t)
	g := f.active(t)
	grant := f.backend.last(t)
	newer := func(version byte) func(data []byte) []byte {
		return func(data []byte) []byte { return append([]byte{version}, data[1:]...) }
	}
	for what, damage := range map[string]func(data []byte) []byte{
		"version 0":      newer(0),
		"version 2":      newer(2),
		"version 255":    newer(255),
		"nothing":        func([]byte) []byte { return nil },
		"half a header":  func(data []byte) []byte { return data[:5] },
		"only a header":  func(data []byte) []byte { return data[:9] },
		"half a body":    func(data []byte) []byte { return data[:len(data)/2] },
		"another body":   func(data []byte) []byte { return append(data[:9:9], `["x"]`...) },
		"trailing bytes": func(data []byte) []byte { return append(data[:len(data):len(data)], 'x') },
	} {
		f.backend.overwrite(t, client.Key, damage(client.Data))
		f.backend.overwrite(t, grant.Key, damage(grant.Data))
		_, err := f.Client(t.Context(), "c")
		wantError(t, what+": Client", err, storage.ErrRecord)
		_, err = f.Grant(t.Context(), g.ID)
		wantError(t, what+": Grant", err, storage.ErrRecord)
		_, err = f.Rotate(t.Context(), g, f.life())
		wantError(t, what+": Rotate", err, storage.ErrRecord)
		wantError(t, what+": Revoke", f.Revoke(t.Context(), g.ID, "test"), storage.ErrRecord)
		wantError(t, what+": RevokeUser", f.RevokeUser(t.Context(), g.Subject, "test"), storage.ErrRecord)
	}
}
