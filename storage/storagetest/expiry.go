package storagetest

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// testExpiry: the record decides on its end, also while its key is still there.
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

	wantError(t, "TakeTransaction of one that has expired", f.TakeTransaction(t.Context(), storage.Transaction{ID: "t", Expires: ends}), storage.ErrNotFound)

	code, _ := f.grant(t, true)
	g, revoked := f.active(t), f.active(t)
	wantError(t, "Revoke", f.Revoke(t.Context(), revoked.ID, "test"), nil)
	f.clock.advance(365 * 24 * time.Hour)
	for _, g := range []storage.Grant{code, g, revoked} {
		before := f.backend.item(t, grantKey(g.ID))
		_, err := f.Grant(t.Context(), g.ID)
		wantError(t, "Grant whose key is still there", err, storage.ErrNotFound)
		wantGrants(t, "the grants of its person", f.UserGrants(t.Context(), g.Subject))
		wantError(t, "Revoke of an expired grant", f.Revoke(t.Context(), g.ID, "test"), nil)
		f.wantUntouched(t, "an expired grant", grantKey(g.ID), before)
	}
	wantError(t, "RevokeUser with an expired grant", f.RevokeUser(t.Context(), g.Subject, "test"), nil)
	_, err = f.Grant(t.Context(), g.ID)
	wantError(t, "Grant", err, storage.ErrNotFound)
}

// testNoEnd: no record that an unauthenticated client can create is without an end by mistake.
func testNoEnd(t *testing.T, f *fixture) {
	code, _ := f.grant(t, true)
	active := f.active(t)
	endless, _ := f.prepare(t, true)
	endless.Lifetime = storage.Lifetime{}
	before := f.faults.Puts()
	for what, call := range map[string]func() error{
		"CreateSession":      func() error { return f.CreateSession(t.Context(), "s", storage.Session{}) },
		"CreateTransaction":  func() error { return f.CreateTransaction(t.Context(), storage.Transaction{ID: "t"}) },
		"TakeAssertion":      func() error { return f.TakeAssertion(t.Context(), "c", "jti", time.Time{}) },
		"TakeOnce":           func() error { return f.TakeOnce(t.Context(), "purpose", "value", time.Time{}) },
		"CreateInitialToken": func() error { return f.CreateInitialToken(t.Context(), storage.InitialToken{Left: 1}) },
		"CreateGrant":        func() error { return f.CreateGrant(t.Context(), endless) },
		"Redeem":             func() error { _, err := f.Redeem(t.Context(), code, storage.Lifetime{}); return err },
		"Rotate":             func() error { _, err := f.Rotate(t.Context(), active, storage.Lifetime{}); return err },
		"JoinProviderSession": func() error {
			return f.JoinProviderSession(t.Context(), "example", "sid", storage.SessionID("s"), time.Time{})
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "end") {
			t.Errorf("%s without an end returned error %v; want one that says so", what, err)
		}
	}
	if after := f.faults.Puts(); after != before {
		t.Errorf("%d writes were sent", after-before)
	}
}

// testEncoding: a record that this program cannot read is an error of its own, and not the
// absence of a record.
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
		"version 3":      newer(3),
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

// testNewer: a record of a newer program is refused with an error that names the reason, and only
// a call that is meant to replace it overwrites it.
func testNewer(t *testing.T, f *fixture) {
	for kind, test := range newerRecords(t, f) {
		written := f.backend.item(t, test.key)
		f.backend.overwrite(t, test.key, append([]byte{3}, written.Data[1:]...))
		newer := f.backend.item(t, test.key)
		for what, call := range test.reads {
			err := call()
			wantError(t, what+" of a newer "+kind, err, storage.ErrRecord)
			if err == nil || !strings.Contains(err.Error(), "encoding version 3 is not known to this program") {
				t.Errorf("%s of a newer %s returned error %v; it does not say what is wrong", what, kind, err)
			}
			f.wantUntouched(t, what+" of a newer "+kind, test.key, newer)
		}
		for what, call := range test.writes {
			if err := call(); !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrRecord) {
				t.Errorf("%s over a newer %s returned error %v; want a refusal", what, kind, err)
			}
			f.wantUntouched(t, what+" over a newer "+kind, test.key, newer)
		}
	}
}

// newerRecord is a record, with the calls that read it and those that would replace it.
type newerRecord struct {
	key           string
	reads, writes map[string]func() error
}

// newerRecords stores a record of each kind.
func newerRecords(t *testing.T, f *fixture) map[string]newerRecord {
	t.Helper()
	ctx := t.Context()
	records := map[string]newerRecord{}
	key := f.last(t, f.CreateUser(ctx, storage.User{Name: "ann"}))
	ann, err := f.User(ctx, "ann")
	wantError(t, "User", err, nil)
	records["user"] = newerRecord{key, map[string]func() error{
		"User":  func() error { _, err := f.User(ctx, "ann"); return err },
		"Users": func() error { _, err := userNames(f.Users(ctx)); return err },
	}, map[string]func() error{
		"CreateUser": func() error { return f.CreateUser(ctx, storage.User{Name: "ann"}) },
		"UpdateUser": func() error { return f.UpdateUser(ctx, ann) },
	}}

	session := storage.Session{Expires: f.clock.later()}
	records["session"] = newerRecord{f.last(t, f.CreateSession(ctx, "s", session)), map[string]func() error{
		"Session": func() error { _, err := f.Session(ctx, "s"); return err },
	}, map[string]func() error{"CreateSession": func() error { return f.CreateSession(ctx, "s", session) }}}

	deciding := f.transaction(t)
	records["transaction"] = newerRecord{f.backend.last(t).Key, map[string]func() error{
		"Transaction": func() error { _, err := f.Transaction(ctx, deciding.ID); return err },
	}, map[string]func() error{
		"CreateTransaction": func() error { return f.CreateTransaction(ctx, deciding) },
		"TakeTransaction":   func() error { return f.TakeTransaction(ctx, deciding) },
	}}

	first := storage.KeySet{Keys: []storage.SigningKey{f.signingKey(t, "k")}}
	key = f.last(t, f.SwapKeySet(ctx, first))
	set, err := f.KeySet(ctx)
	wantError(t, "KeySet", err, nil)
	records["key set"] = newerRecord{key, map[string]func() error{
		"KeySet": func() error { _, err := f.KeySet(ctx); return err },
		"Reseal": func() error { _, err := f.Reseal(ctx, nil); return err },
	}, map[string]func() error{
		"SwapKeySet":              func() error { return f.SwapKeySet(ctx, set) },
		"SwapKeySet of a new one": func() error { return f.SwapKeySet(ctx, storage.KeySet{}) },
	}}

	maps.Copy(records, f.newerClients(t))
	maps.Copy(records, f.newerGrants(t))
	maps.Copy(records, f.newerPeople(t))
	maps.Copy(records, f.newerResources(t))
	return records
}

// last returns the key of a record that was just stored.
func (f *fixture) last(t *testing.T, err error) string {
	t.Helper()
	wantError(t, "storing a record", err, nil)
	return f.backend.last(t).Key
}

// newerClients stores a client and the records of registration.
func (f *fixture) newerClients(t *testing.T) map[string]newerRecord {
	t.Helper()
	ctx := t.Context()
	records := map[string]newerRecord{}
	client := storage.Client{ID: "c", Created: f.clock.Now(), Expires: f.clock.later()}
	key := f.last(t, f.CreateClient(ctx, client))
	client = f.client(t, "c")
	records["client"] = newerRecord{key, map[string]func() error{
		"Client":      func() error { _, err := f.Client(ctx, "c"); return err },
		"UseClient":   func() error { return f.UseClient(ctx, "c", f.clock.Now().Add(48*time.Hour)) },
		"Clients":     func() error { _, err := clientIDs(f.Clients(ctx)); return err },
		"BoundUnused": func() error { _, _, err := f.BoundUnused(ctx, storage.Bound{Most: 0}); return err },
	}, map[string]func() error{
		"CreateClient": func() error { return f.CreateClient(ctx, client) },
		"UpdateClient": func() error { return f.UpdateClient(ctx, client) },
		"RemoveClient": func() error { return f.RemoveClient(ctx, client, "test") },
	}}

	assertion := func() error { return f.TakeAssertion(ctx, "c", "jti", f.clock.later()) }
	records["assertion"] = newerRecord{f.last(t, assertion()), nil, map[string]func() error{"TakeAssertion": assertion}}

	token := f.minted(t, 1)
	initial := f.initialToken(t, token)
	records["initial token"] = newerRecord{f.backend.last(t).Key, map[string]func() error{
		"InitialToken":    func() error { _, err := f.InitialToken(ctx, token); return err },
		"UseInitialToken": func() error { return f.UseInitialToken(ctx, initial) },
	}, map[string]func() error{"CreateInitialToken": func() error { return f.CreateInitialToken(ctx, initial) }}}
	return records
}

// newerGrants stores an active grant, and a code.
func (f *fixture) newerGrants(t *testing.T) map[string]newerRecord {
	t.Helper()
	ctx := t.Context()
	records := map[string]newerRecord{}
	for kind, g := range map[string]storage.Grant{"grant": f.active(t), "code": func() storage.Grant { g, _ := f.grant(t, true); return g }()} {
		records[kind] = newerRecord{grantKey(g.ID), map[string]func() error{
			"Grant":        func() error { _, err := f.Grant(ctx, g.ID); return err },
			"Revoke":       func() error { return f.Revoke(ctx, g.ID, "test") },
			"RevokeUser":   func() error { return f.RevokeUser(ctx, g.Subject, "test") },
			"RevokeClient": func() error { return f.RevokeClient(ctx, g.ClientID, "test") },
			"UserGrants":   func() error { _, err := grantIDs(f.UserGrants(ctx, g.Subject)); return err },
			"ClientGrants": func() error { _, err := grantIDs(f.ClientGrants(ctx, g.ClientID)); return err },
		}, map[string]func() error{
			"CreateGrant": func() error { return f.CreateGrant(ctx, g) },
			"Redeem":      func() error { _, err := f.Redeem(ctx, g, f.life()); return err },
			"Rotate":      func() error { _, err := f.Rotate(ctx, g, f.life()); return err },
		}}
	}
	return records
}

// testTransactionTaken: a transaction that was taken is over for every process, and its record
// outlives the copy that a browser may have kept.
func testTransactionTaken(t *testing.T, f *fixture) {
	read := f.transaction(t)
	unread := storage.Transaction{ID: read.ID, Expires: read.Expires}
	wantError(t, "TakeTransaction of one that was not read", f.TakeTransaction(t.Context(), unread), storage.ErrNotFound)
	unread.ID = unique("nothing")
	wantError(t, "TakeTransaction of one that is not there", f.TakeTransaction(t.Context(), unread), storage.ErrNotFound)
	_, err := f.Transaction(t.Context(), unread.ID)
	wantError(t, "Transaction that never was", err, storage.ErrNotFound)
	again, err := f.Transaction(t.Context(), read.ID)
	wantError(t, "Transaction", err, nil)
	wantSame(t, "a transaction that nobody took", again, read)

	f.clock.advance(time.Minute)
	f.faults.LoseReplies(1)
	wantError(t, "TakeTransaction", f.TakeTransaction(t.Context(), read), nil)
	taken := f.backend.last(t)
	if taken.TTL < 69*time.Minute || taken.TTL > 2*time.Hour || taken.Forgettable {
		t.Errorf("that a transaction was taken, which ends in 59 minutes, is kept for %v; may a failover forget it: %t", taken.TTL, taken.Forgettable)
	}
	before := f.backend.item(t, taken.Key)
	for _, t2 := range []storage.Transaction{read, again, unread} {
		wantError(t, "TakeTransaction again", f.TakeTransaction(t.Context(), t2), storage.ErrNotFound)
	}
	_, err = f.Transaction(t.Context(), read.ID)
	wantError(t, "Transaction that was taken", err, storage.ErrNotFound)
	wantError(t, "CreateTransaction in its place", f.CreateTransaction(t.Context(), read), storage.ErrConflict)
	f.wantUntouched(t, "a transaction that was taken", taken.Key, before)

	// One that is gone when it is taken is not restored.
	read = f.transaction(t)
	f.faults.beforePut(func() { f.backend.remove(t, f.backend.last(t).Key) })
	wantError(t, "TakeTransaction of one that vanishes", f.TakeTransaction(t.Context(), read), storage.ErrNotFound)
	_, err = f.backend.Get(t.Context(), f.backend.last(t).Key)
	wantError(t, "Get afterwards", err, storage.ErrNotFound)
}
