package storagetest

import (
	"errors"
	"maps"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// giveUp is when a write without an answer must have ended: long after its own time, and long
// before the time of the other writes, so that the speed of the machine does not matter.
const giveUp = patience

// testLostReply: a write whose reply is lost has happened once, and succeeds. The retry is not
// taken for a second write.
func testLostReply(t *testing.T, f *fixture) {
	for _, lost := range []int{1, 3} {
		f.lossy(t, func(n int) { f.faults.LoseReplies(n) }, lost)
	}
	// A conflict whose reply is lost is still a conflict.
	g, _ := f.grant(t, true)
	_, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem", err, nil)
	f.faults.LoseReplies(1)
	_, err = f.Redeem(t.Context(), g, f.life())
	wantError(t, "a replay with a lost reply", err, storage.ErrConflict)
	f.faults.LoseReplies(1)
	wantError(t, "CreateUser with a lost reply", f.CreateUser(t.Context(), storage.User{Name: "taken"}), nil)
}

// testLostRequest: a write that did not arrive is sent again.
func testLostRequest(t *testing.T, f *fixture) {
	for _, lost := range []int{1, 3} {
		f.lossy(t, func(n int) { f.faults.LoseRequests(n) }, lost)
	}
}

// lossy changes a grant in all ways and loses a message of each write.
func (f *fixture) lossy(t *testing.T, lose func(int), n int) {
	t.Helper()
	g, _ := f.grant(t, true)
	lose(n)
	redeemed, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem", err, nil)
	_, err = f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem again", err, storage.ErrConflict)
	lose(n)
	rotated, err := f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate", err, nil)
	wantSame(t, "Rotate", rotated, f.read(t, g.ID))
	if rotated.Generation != 1 {
		t.Errorf("the grant has generation %d; want 1", rotated.Generation)
	}
	_, err = f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate again", err, storage.ErrConflict)
	rotated, err = f.Rotate(t.Context(), rotated, f.life())
	wantError(t, "Rotate of what Rotate returned", err, nil)
	lose(n)
	wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "test"), nil)
	f.wantRevoked(t, rotated)

	transaction := f.transaction(t)
	lose(n)
	wantError(t, "TakeTransaction", f.TakeTransaction(t.Context(), transaction), nil)
	wantError(t, "TakeTransaction again", f.TakeTransaction(t.Context(), transaction), storage.ErrNotFound)

	lose(n)
	id := unique("client")
	wantError(t, "CreateClient", f.CreateClient(t.Context(), storage.Client{ID: id}), nil)
	wantError(t, "CreateClient again", f.CreateClient(t.Context(), storage.Client{ID: id}), storage.ErrConflict)
}

// testLostForGood: without an answer a write ends with ErrUnavailable, in time, and its outcome
// is consistent.
func testLostForGood(t *testing.T, f *fixture) {
	g, hasty := f.active(t), f.storeWithin(t, 100*time.Millisecond, issuer, f.keys...)
	for what, lose := range map[string]func(int){"requests": f.faults.LoseRequests, "replies": f.faults.LoseReplies} {
		lose(1 << 30)
		start := time.Now()
		_, err := hasty.Rotate(t.Context(), f.read(t, g.ID), f.life())
		wantUnavailable(t, "Rotate with lost "+what, err)
		if took := time.Since(start); took > giveUp {
			t.Errorf("Rotate with lost %s took %v", what, took)
		}
		lose(0)
	}
	if got := f.read(t, g.ID); got.Generation != 1 {
		t.Errorf("after one lost request and one lost reply the grant has generation %d; want 1", got.Generation)
	}
	f.faults.LoseReplies(1 << 30)
	ctx, cancel := f.untilLost(t)
	defer cancel()
	start := time.Now()
	wantUnavailable(t, "Revoke with lost replies", f.Revoke(ctx, g.ID, "test"))
	if took := time.Since(start); took > giveUp/2 {
		t.Errorf("Revoke outlived its context by %v", took)
	}
	f.faults.LoseReplies(0)
	wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "test"), nil)
	f.wantRevoked(t, g)
}

// testUnanswered: a code that was spent by a redemption with an uncertain outcome is marked. One
// that was not spent stays valid, and the mark ends with the first rotation.
func testUnanswered(t *testing.T, f *fixture) {
	hasty := f.storeWithin(t, time.Second, issuer, f.keys...) // the mark has a twentieth of it
	for what, spent := range map[string]bool{"requests": false, "replies": true} {
		g, _ := f.grant(t, true)
		lose := f.faults.LoseRequests
		if spent {
			lose = f.faults.LoseReplies
		}
		lose(1 << 30)
		_, err := hasty.Redeem(t.Context(), g, f.life())
		wantUnavailable(t, "Redeem with lost "+what, err)
		lose(0)
		got := f.read(t, g.ID)
		if got.Unanswered != spent || (got.State == storage.GrantActive) != spent {
			t.Errorf("after lost %s the grant is %s, unanswered: %t", what, got.State, got.Unanswered)
		}
		if !spent {
			continue
		}
		_, err = f.Redeem(t.Context(), got, f.life())
		wantError(t, "Redeem again", err, storage.ErrConflict)
		rotated, err := f.Rotate(t.Context(), got, f.life())
		wantError(t, "Rotate", err, nil)
		if rotated.Unanswered || f.read(t, g.ID).Unanswered {
			t.Error("the mark outlives a rotation")
		}
	}
	g, _ := f.grant(t, true)
	f.faults.LoseReplies(1)
	if got, err := f.Redeem(t.Context(), g, f.life()); err != nil || got.Unanswered || f.read(t, g.ID).Unanswered {
		t.Errorf("after one lost reply: unanswered %t, %v", got.Unanswered, err)
	}
}

// testConfirm: a write is sent again where a copy could take over, and only there. Confirm
// reports no more than the store confirms.
func testConfirm(t *testing.T, f *fixture) {
	g := f.active(t)
	puts := f.faults.Puts()
	f.faults.LoseReplies(1 << 30)
	_, err := f.Confirm(t.Context(), g)
	wantError(t, "Confirm where nobody takes over", err, nil)
	if f.faults.Puts() != puts {
		t.Error("Confirm wrote where nobody takes over")
	}
	f.faults.SetLineage("one")
	_, err = f.storeWithin(t, 100*time.Millisecond, issuer, f.keys...).Confirm(t.Context(), g)
	wantUnavailable(t, "Confirm without an answer", err)
	f.faults.LoseReplies(0)
	_, err = f.Confirm(t.Context(), g)
	wantError(t, "Confirm", err, nil)
	rotated, err := f.Rotate(t.Context(), g, f.life())
	wantError(t, "Rotate", err, nil)
	got, err := f.Confirm(t.Context(), g)
	wantError(t, "Confirm of what has changed", err, storage.ErrConflict)
	if got.Generation != rotated.Generation {
		t.Errorf("Confirm returned generation %d, want the one that is there, %d", got.Generation, rotated.Generation)
	}
}

// testDown: while the backend is down every call is ErrUnavailable, not ErrNotFound and not
// ErrConflict. Afterwards the records are as before.
func testDown(t *testing.T, f *fixture) {
	ctx := t.Context()
	g := f.active(t)
	code, _ := f.grant(t, true)
	fresh, _ := f.prepare(t, true)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann"}), nil)
	ann, err := f.User(ctx, "ann")
	wantError(t, "User", err, nil)
	deciding := f.transaction(t)
	f.unused(t, "s", "c1", "c2")
	client, initial := f.client(t, "c1"), f.initialToken(t, f.minted(t, 1))
	calls := map[string]func() error{
		"Ping":              func() error { return f.Ping(ctx) },
		"User":              func() error { _, err := f.User(ctx, "ann"); return err },
		"Users":             func() error { _, err := userNames(f.Users(ctx)); return err },
		"CreateUser":        func() error { return f.CreateUser(ctx, storage.User{Name: "writer"}) },
		"UpdateUser":        func() error { return f.UpdateUser(ctx, ann) },
		"DeleteUser":        func() error { return f.DeleteUser(ctx, "ann", ann.Subject) },
		"Session":           func() error { _, err := f.Session(ctx, "s"); return err },
		"CreateSession":     func() error { return f.CreateSession(ctx, "s", storage.Session{Expires: f.clock.later()}) },
		"DeleteSession":     func() error { return f.DeleteSession(ctx, "s") },
		"Transaction":       func() error { _, err := f.Transaction(ctx, "t"); return err },
		"TakeTransaction":   func() error { return f.TakeTransaction(ctx, deciding) },
		"CreateTransaction": func() error { return f.CreateTransaction(ctx, storage.Transaction{ID: "t", Expires: f.clock.later()}) },
		"KeySet":            func() error { _, err := f.KeySet(ctx); return err },
		"SwapKeySet":        func() error { return f.SwapKeySet(ctx, storage.KeySet{}) },
	}
	maps.Copy(calls, f.clientCalls(t, client, initial))
	maps.Copy(calls, f.grantCalls(t, g, code, fresh))
	f.faults.SetDown(true)
	before := f.faults.Puts()
	for what, call := range calls {
		err := call()
		wantUnavailable(t, what, err)
		if !errors.Is(err, ErrDown) {
			t.Errorf("%s returned error %v; it hides the cause", what, err)
		}
	}
	if sent := f.faults.Puts() - before; sent > len(calls) {
		t.Errorf("%d writes were sent for %d calls: a certain failure was repeated", sent, len(calls))
	}
	f.faults.SetDown(false)
	wantError(t, "Ping", f.Ping(ctx), nil)
	wantSame(t, "the grant", f.read(t, g.ID), g)
	f.wantClients(t, "the clients", "c1", "c2")
	wantError(t, "TakeAssertion", f.TakeAssertion(ctx, "c", "jti", f.clock.later()), nil)
	wantError(t, "UseInitialToken", f.UseInitialToken(ctx, initial), nil)
	_, err = f.Rotate(ctx, g, f.life())
	wantError(t, "Rotate", err, nil)
	_, err = f.Redeem(ctx, code, f.life())
	wantError(t, "Redeem", err, nil)
}

// clientCalls returns all calls about clients and their registration.
func (f *fixture) clientCalls(t *testing.T, client storage.Client, initial storage.InitialToken) map[string]func() error {
	ctx := t.Context()
	return map[string]func() error{
		"Client":                      func() error { _, err := f.Client(ctx, "c"); return err },
		"CreateClient":                func() error { return f.CreateClient(ctx, storage.Client{ID: "c"}) },
		"UpdateClient":                func() error { return f.UpdateClient(ctx, client) },
		"RemoveClient":                func() error { return f.RemoveClient(ctx, client, "test") },
		"UsedClients":                 func() error { _, err := clientIDs(f.UsedClients(ctx)); return err },
		"BoundUnused":                 func() error { _, _, err := f.BoundUnused(ctx, storage.Bound{Most: 0}); return err },
		"BoundUnused of one software": func() error { _, _, err := f.BoundUnused(ctx, storage.Bound{Software: "s", Most: 0}); return err },
		"TakeAssertion":               func() error { return f.TakeAssertion(ctx, "c", "jti", f.clock.later()) },
		"InitialToken":                func() error { _, err := f.InitialToken(ctx, "token"); return err },
		"CreateInitialToken":          func() error { return f.CreateInitialToken(ctx, initial) },
		"UseInitialToken":             func() error { return f.UseInitialToken(ctx, initial) },
		"Clients":                     func() error { _, err := clientIDs(f.Clients(ctx)); return err },
		"UseClient":                   func() error { return f.UseClient(ctx, "c", f.clock.Now()) },
		"BeginUse":                    func() error { _, err := f.BeginUse(ctx, client, f.clock.Now()); return err },
	}
}

// grantCalls returns all calls about grants: an active one, a code, and one that is not stored.
func (f *fixture) grantCalls(t *testing.T, g, code, fresh storage.Grant) map[string]func() error {
	ctx := t.Context()
	return map[string]func() error{
		"Grant":        func() error { _, err := f.Grant(ctx, g.ID); return err },
		"CreateGrant":  func() error { return f.CreateGrant(ctx, fresh) },
		"Redeem":       func() error { _, err := f.Redeem(ctx, code, f.life()); return err },
		"Rotate":       func() error { _, err := f.Rotate(ctx, g, f.life()); return err },
		"Revoke":       func() error { return f.Revoke(ctx, g.ID, "test") },
		"EndResource":  func() error { return f.EndResource(ctx, g.ID, g.Resources[0], "test") },
		"RevokeUser":   func() error { return f.RevokeUser(ctx, g.Subject, "test") },
		"RevokeClient": func() error { return f.RevokeClient(ctx, g.ClientID, "test") },
		"UserGrants":   func() error { _, err := grantIDs(f.UserGrants(ctx, g.Subject)); return err },
		"ClientGrants": func() error { _, err := grantIDs(f.ClientGrants(ctx, g.ClientID)); return err },
		"TidyGrants":   func() error { return f.TidyGrants(ctx, g.Subject, g.ClientID) },
		"Reseal":       func() error { _, err := f.Reseal(ctx, nil); return err },
	}
}
