package storagetest

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"gatehouse.example/storage"
)

// Each race has this number of rounds and runners. A runner that repeats an operation until it
// succeeds gives up after so many attempts.
const (
	rounds  = 8
	runners = 32
	enough  = 500
)

// TestConcurrency checks that races have exactly one winner, on the backend and on the
// [storage.Store] above it.
func TestConcurrency(t *testing.T, open Open) {
	tests := map[string]func(*testing.T, storage.Backend){
		"PutAbsent":     racePutAbsent,
		"Swap":          raceSwap,
		"SwapAfterSwap": raceCounter,
		"SameOperation": raceSameOperation,
		"Index":         raceIndex,
		"Count":         raceCount,
		"GetMany":       raceGetMany,
	}
	for name, race := range tests {
		t.Run(name, func(t *testing.T) {
			b := open.begin(t)
			for range rounds {
				if race(t, b); t.Failed() {
					return
				}
			}
		})
	}
	for name, race := range storeRaces {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, open.begin(t))
			for range rounds {
				if race(t, f); t.Failed() {
					return
				}
			}
		})
	}
}

// contender returns the write of runner i.
func contender(key string, i int, cond storage.Condition) storage.Put {
	return storage.Put{Key: key, Data: []byte(name("runner %d", i)), If: cond, Operation: operation()}
}

// racePuts lets every runner write to key under cond. All losers must see the winner.
func racePuts(t *testing.T, b storage.Backend, key string, cond storage.Condition) {
	t.Helper()
	puts := make([]storage.Put, runners)
	seen := make([]storage.Item, runners)
	for i := range puts {
		puts[i] = contender(key, i, cond)
	}
	errs := together(runners, func(i int) (err error) {
		seen[i], err = b.Put(t.Context(), puts[i])
		return err
	})
	won := puts[wantOneWinner(t, errs, storage.ErrConflict)]
	for _, item := range seen {
		wantItem(t, "Put", item, string(won.Data), won.Operation)
	}
	wantStored(t, b, key, string(won.Data), won.Operation)
}

func racePutAbsent(t *testing.T, b storage.Backend) {
	racePuts(t, b, unique("absent"), storage.Absent)
}

func raceSwap(t *testing.T, b storage.Backend) {
	key := unique("swap")
	racePuts(t, b, key, storage.Unchanged(put(t, b, key, "before")))
}

// raceCounter counts with swaps: no increment may be lost.
func raceCounter(t *testing.T, b storage.Backend) {
	const each = 5
	key := unique("counter")
	put(t, b, key, string(make([]byte, 8)))
	errs := together(runners/4, func(int) error {
		for range each {
			if err := increment(t.Context(), b, key); err != nil {
				return err
			}
		}
		return nil
	})
	wantError(t, "counting", errors.Join(errs...), nil)
	item, err := b.Get(t.Context(), key)
	wantError(t, "Get", err, nil)
	if got := binary.BigEndian.Uint64(item.Data); got != each*runners/4 {
		t.Errorf("counted to %d; want %d", got, each*runners/4)
	}
}

// increment adds one to the counter, with as many attempts as it takes.
func increment(ctx context.Context, b storage.Backend, key string) error {
	item, err := b.Get(ctx, key)
	for range enough {
		if err != nil {
			return err
		}
		data := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(item.Data)+1)
		change := storage.Put{Key: key, Data: data, If: storage.Unchanged(item.Version), Operation: operation()}
		if item, err = b.Put(ctx, change); err == nil {
			return nil
		}
		if errors.Is(err, storage.ErrConflict) {
			err = nil
		}
	}
	return errors.New("no swap succeeds")
}

// raceSameOperation: however often one operation arrives, it is one write, and every sender gets
// a success.
func raceSameOperation(t *testing.T, b storage.Backend) {
	key := unique("same")
	change := contender(key, 0, storage.Unchanged(put(t, b, key, "before")))
	errs := together(runners, func(int) error {
		_, err := b.Put(t.Context(), change)
		return err
	})
	wantError(t, "one operation sent by many", errors.Join(errs...), nil)
	wantStored(t, b, key, string(change.Data), change.Operation)
}

func raceIndex(t *testing.T, b storage.Backend) {
	index := unique("index")
	errs := together(runners, func(i int) error { return b.IndexAdd(t.Context(), index, name("%03d", i/2)) })
	wantError(t, "IndexAdd", errors.Join(errs...), nil)
	var want []string
	for i := range runners / 2 {
		want = append(want, name("%03d", i))
	}
	wantEntries(t, "the index", page(t, b, index, "", runners), want...)
	errs = together(runners, func(i int) error { return b.IndexRemove(t.Context(), index, name("%03d", i/2)) })
	wantError(t, "IndexRemove", errors.Join(errs...), nil)
	wantEntries(t, "the emptied index", page(t, b, index, "", runners))
}

var storeRaces = map[string]func(*testing.T, *fixture){
	"StoreRedeem":              raceRedeem,
	"StoreRotate":              raceRotate,
	"StoreRotateAgainstRevoke": raceRotateAgainstRevoke,
	"StoreRedeemAgainstRevoke": raceRedeemAgainstRevoke,
	"StoreEndResource":         raceEndResource,
	"StoreUser":                raceUser,
	"StoreTransaction":         raceTransaction,
	"StoreKeySet":              raceKeySet,
	"StoreReseal":              raceReseal,
	"StoreUseAgainstRemove":    raceUseAgainstRemove,
	"StoreRemoveClient":        raceRemoveClient,
	"StoreBoundUnused":         raceBoundUnused,
	"StoreAssertion":           raceAssertion,
	"StorePins":                racePins,
	"StoreInitialToken":        raceInitialToken,
}

// raceRedeem: of many redemptions of one code exactly one wins.
func raceRedeem(t *testing.T, f *fixture) {
	g, _ := f.grant(t, true)
	errs := together(runners, func(int) error {
		_, err := f.Redeem(t.Context(), g, f.life())
		return err
	})
	wantOneWinner(t, errs, storage.ErrConflict)
	if got := f.read(t, g.ID); got.State != storage.GrantActive || got.Generation != 0 {
		t.Errorf("the grant is %s, generation %d; want active, 0", got.State, got.Generation)
	}
}

// raceRotate: of many rotations of one generation exactly one wins, and the others return the
// grant that is there now.
func raceRotate(t *testing.T, f *fixture) {
	g := f.active(t)
	current := make([]storage.Grant, runners)
	errs := together(runners, func(i int) (err error) {
		current[i], err = f.Rotate(t.Context(), g, f.life())
		return err
	})
	wantOneWinner(t, errs, storage.ErrConflict)
	for _, c := range current {
		if c.ID != g.ID || c.Generation != g.Generation+1 {
			t.Errorf("Rotate returned grant %q, generation %d; want %q, %d", c.ID, c.Generation, g.ID, g.Generation+1)
		}
	}
}

// raceRotateAgainstRevoke: after the race a revoked grant is revoked, whichever write was first, and no
// rotation that begins after all revocations have been answered succeeds, from whatever it has read.
func raceRotateAgainstRevoke(t *testing.T, f *fixture) {
	g := f.active(t)
	var revoking atomic.Int32
	revoking.Store(runners / 2)
	errs := together(runners, func(i int) error {
		if i%2 == 0 {
			defer revoking.Add(-1)
			return f.Revoke(t.Context(), g.ID, "race")
		}
		for next := g; ; runtime.Gosched() { // a backend without a network may run one runner alone for long
			over := revoking.Load() == 0
			var err error
			if next, err = f.Rotate(t.Context(), next, f.life()); err != nil && !errors.Is(err, storage.ErrConflict) {
				return err
			}
			switch {
			case next.State != storage.GrantActive:
				return nil
			case over:
				return errors.New("the grant is revoked and was rotated")
			}
		}
	})
	wantError(t, "rotating and revoking", errors.Join(errs...), nil)
	f.wantRevoked(t, g)
}

// raceRedeemAgainstRevoke: a code that is revoked while it is redeemed is invalid.
func raceRedeemAgainstRevoke(t *testing.T, f *fixture) {
	g, _ := f.grant(t, true)
	errs := together(runners, func(i int) error {
		if i%2 == 0 {
			return f.Revoke(t.Context(), g.ID, "race")
		}
		_, err := f.Redeem(t.Context(), g, f.life())
		return err
	})
	redeemed := 0
	for i, err := range errs {
		switch {
		case i%2 == 0:
			wantError(t, "Revoke", err, nil)
		case err == nil:
			redeemed++
		default:
			wantError(t, "Redeem", err, storage.ErrConflict)
		}
	}
	if redeemed > 1 {
		t.Errorf("%d redemptions of one code succeeded", redeemed)
	}
	f.wantRevoked(t, g)
}

func raceUser(t *testing.T, f *fixture) {
	user := unique("user")
	errs := together(runners, func(i int) error {
		return f.CreateUser(t.Context(), storage.User{Name: user, Subject: name("subject %d", i)})
	})
	winner := wantOneWinner(t, errs, storage.ErrConflict)
	got, err := f.User(t.Context(), user)
	wantError(t, "User", err, nil)
	if want := name("subject %d", winner); got.Subject != want {
		t.Errorf("the user has subject %q; want the winner's, %q", got.Subject, want)
	}
	wantError(t, "DeleteUser", f.DeleteUser(t.Context(), user, got.Subject), nil)
}

func raceTransaction(t *testing.T, f *fixture) {
	read := f.transaction(t)
	errs := together(runners, func(int) error { return f.TakeTransaction(t.Context(), read) })
	wantOneWinner(t, errs, storage.ErrNotFound)
	_, err := f.Transaction(t.Context(), read.ID)
	wantError(t, "Transaction after the race", err, storage.ErrNotFound)
}

func raceKeySet(t *testing.T, f *fixture) {
	set, err := f.KeySet(t.Context())
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	ids := make([]string, runners)
	errs := together(runners, func(i int) error {
		ids[i] = unique("kid")
		next := set
		next.Keys = []storage.SigningKey{{ID: ids[i], Public: []byte("{}")}}
		return f.SwapKeySet(t.Context(), next)
	})
	winner := wantOneWinner(t, errs, storage.ErrConflict)
	set, err = f.KeySet(t.Context())
	wantError(t, "KeySet", err, nil)
	if len(set.Keys) != 1 || set.Keys[0].ID != ids[winner] {
		t.Errorf("the key set does not hold the winner's key")
	}
}
