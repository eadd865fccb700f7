package storagetest

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// testAssertion: an id is taken once for each client, until it has expired.
func testAssertion(t *testing.T, f *fixture) {
	take := func(client, jti string) error {
		return f.TakeAssertion(t.Context(), client, jti, f.clock.Now().Add(time.Minute))
	}
	f.faults.LoseReplies(1)
	wantError(t, "TakeAssertion with a lost reply", take("c", "jti"), nil)
	written := f.backend.last(t)
	if written.TTL < time.Minute || written.TTL > time.Hour || written.Forgettable {
		t.Errorf("an id that ends in a minute is kept for %v; may a failover forget it: %t", written.TTL, written.Forgettable)
	}
	f.faults.LoseReplies(1)
	wantError(t, "TakeAssertion again", take("c", "jti"), storage.ErrConflict)
	f.faults.LoseRequests(1)
	wantError(t, "TakeAssertion of another client", take("d", "jti"), nil)
	wantError(t, "TakeAssertion of another id", take("c", "jtI"), nil)
	wantError(t, "TakeAssertion of an id cut elsewhere", take("cj", "ti"), nil)
	wantError(t, "TakeAssertion of an odd id", take("c", "j\x00ti\n"), nil)
	f.clock.advance(time.Minute)
	wantError(t, "TakeAssertion while its key is there", take("c", "jti"), storage.ErrConflict)
	f.backend.remove(t, written.Key)
	wantError(t, "TakeAssertion when it has expired", take("c", "jti"), nil)
}

// raceAssertion: of many calls that take one id exactly one wins.
func raceAssertion(t *testing.T, f *fixture) {
	jti := unique("jti")
	errs := together(runners, func(int) error { return f.TakeAssertion(t.Context(), "c", jti, f.clock.later()) })
	wantOneWinner(t, errs, storage.ErrConflict)
}

// minted stores an initial access token for that many clients.
func (f *fixture) minted(t *testing.T, left int) (token string) {
	t.Helper()
	token = unique("initial token")
	made := storage.InitialToken{Token: storage.HashSecret(token), Created: f.clock.Now(), Expires: f.clock.later(), Left: left}
	wantError(t, "CreateInitialToken", f.CreateInitialToken(t.Context(), made), nil)
	return token
}

func (f *fixture) initialToken(t *testing.T, token string) storage.InitialToken {
	t.Helper()
	read, err := f.InitialToken(t.Context(), token)
	if err != nil {
		t.Fatalf("InitialToken: %v", err)
	}
	return read
}

// wantUsedUp checks that a token is used up.
func (f *fixture) wantUsedUp(t *testing.T, token string) {
	t.Helper()
	_, err := f.InitialToken(t.Context(), token)
	wantError(t, "InitialToken of nothing", err, storage.ErrNotFound)
}

func testInitialToken(t *testing.T, f *fixture) {
	f.wantUsedUp(t, "never minted")
	token := f.minted(t, 2)
	first := f.initialToken(t, token)
	wantSame(t, "InitialToken", first, storage.InitialToken{Token: storage.HashSecret(token), Created: f.clock.Now(), Expires: f.clock.later(), Left: 2})
	wantError(t, "CreateInitialToken again", f.CreateInitialToken(t.Context(), first), storage.ErrConflict)
	wantError(t, "UseInitialToken", f.UseInitialToken(t.Context(), first), nil)
	if left := f.initialToken(t, token).Left; left != 1 {
		t.Errorf("after one use %d are left; want 1", left)
	}
	wantError(t, "UseInitialToken of what was read before", f.UseInitialToken(t.Context(), first), nil)
	wantError(t, "UseInitialToken of one that is used up", f.UseInitialToken(t.Context(), first), storage.ErrNotFound)
	f.wantUsedUp(t, token)
	wantError(t, "CreateInitialToken in its place", f.CreateInitialToken(t.Context(), first), storage.ErrConflict)
	f.wantWrites(t, "using what was not read", 0, func() {
		unread := storage.InitialToken{Token: storage.HashSecret("unread"), Expires: f.clock.later(), Left: 1}
		wantError(t, "UseInitialToken of what was not read", f.UseInitialToken(t.Context(), unread), storage.ErrNotFound)
	})

	token = f.minted(t, 5)
	read := f.initialToken(t, token)
	if ttl := f.backend.last(t).TTL; ttl < time.Hour || ttl > 2*time.Hour {
		t.Errorf("the key of a token that ends in an hour lives for %v", ttl)
	}
	other := f.initialToken(t, token)
	wantError(t, "UseInitialToken", f.UseInitialToken(t.Context(), other), nil)
	f.clock.advance(time.Hour)
	f.wantUsedUp(t, token)
	wantError(t, "UseInitialToken of one that has expired", f.UseInitialToken(t.Context(), read), storage.ErrNotFound)
	f.backend.remove(t, f.backend.last(t).Key)
	wantError(t, "UseInitialToken of one that is gone", f.UseInitialToken(t.Context(), read), storage.ErrNotFound)
}

// testInitialTokenLost: a use counts once, whatever request or reply is lost.
func testInitialTokenLost(t *testing.T, f *fixture) {
	token := f.minted(t, 10)
	want := 10
	for _, lose := range []func(int){f.faults.LoseReplies, f.faults.LoseRequests} {
		lose(3)
		wantError(t, "UseInitialToken", f.UseInitialToken(t.Context(), f.initialToken(t, token)), nil)
		if want--; f.initialToken(t, token).Left != want {
			t.Errorf("%d are left; want %d", f.initialToken(t, token).Left, want)
		}
	}
	stale := f.initialToken(t, token)
	wantError(t, "UseInitialToken", f.UseInitialToken(t.Context(), f.initialToken(t, token)), nil)
	f.faults.LoseReplies(1) // that of the conflict
	wantError(t, "UseInitialToken of what was read before", f.UseInitialToken(t.Context(), stale), nil)
	if left := f.initialToken(t, token).Left; left != want-2 {
		t.Errorf("%d are left; want %d", left, want-2)
	}
	ctx, cancel := f.untilLost(t)
	defer cancel()
	f.faults.LoseReplies(1 << 30)
	wantUnavailable(t, "UseInitialToken with lost replies", f.UseInitialToken(ctx, f.initialToken(t, token)))
	f.faults.LoseReplies(0)
	if left := f.initialToken(t, token).Left; left != want-3 {
		t.Errorf("%d are left; want %d: no more clients than it allows", left, want-3)
	}
}

// raceInitialToken: a token is valid for its number of clients, however many requests use it.
func raceInitialToken(t *testing.T, f *fixture) {
	const left = 11
	token := f.minted(t, left)
	read := f.initialToken(t, token)
	errs := together(runners, func(int) error { return f.UseInitialToken(t.Context(), read) })
	used := 0
	for _, err := range errs {
		if err == nil {
			used++
		} else if !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("UseInitialToken returned error %v; want %v", err, storage.ErrNotFound)
		}
	}
	if used != left {
		t.Errorf("a token for %d clients was used %d times", left, used)
	}
	f.wantUsedUp(t, token)
}
