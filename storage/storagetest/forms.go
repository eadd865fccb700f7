package storagetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/testkit"
)

// testScan: every item under a prefix is returned, however many there are, and no other. The
// special characters of patterns stand for themselves.
func testScan(t *testing.T, b storage.Backend) {
	prefix := unique("scan") + "*[a-z]?\\:"
	var want []string
	for i := range 700 {
		key := name("%s%03d", prefix, i)
		want = append(want, key)
		put(t, b, key, "data")
	}
	put(t, b, strings.Replace(prefix, "*", "x", 1)+"other", "data")
	fill(t, b, prefix+"index", "entry")
	for _, limit := range []int{100, 1000, 0} {
		var got []string
		for cursor := ""; ; {
			keys, next, err := b.Scan(t.Context(), prefix, cursor, limit)
			if err != nil {
				t.Fatalf("Scan: %v", err)
			}
			if got = append(got, keys...); next == "" {
				break
			}
			if cursor = next; len(got) > 10*len(want) {
				t.Fatal("Scan does not end")
			}
		}
		slices.Sort(got)
		wantEntries(t, name("what a scan by %d finds", limit), slices.Compact(got), want...)
	}
	if _, _, err := b.Scan(cancelled(t), prefix, "", 10); err == nil {
		t.Error("Scan with a context that is over returned no error")
	}
}

// older returns stores on records from before there were seals: one of that time, which cannot
// seal, and two of present processes.
func older(t *testing.T, b storage.Backend) (then *storage.Store, one, two *fixture) {
	t.Helper()
	f := &fixture{clock: newClock(), keys: [][]byte{masterKey()}}
	f.backend = &isolated{Isolated: testkit.NewIsolated(b), master: f.keys[0]}
	f.faults = NewFaults(f.backend)
	then = f.store(t, issuer)
	wantError(t, "SwapKeySet", then.SwapKeySet(t.Context(), storage.KeySet{Keys: []storage.SigningKey{{ID: "k", State: storage.KeyRetired}}}), nil)
	other := *f
	f.Store, other.Store = f.store(t, issuer, f.keys...), f.store(t, issuer, f.keys...)
	return then, f, &other
}

func (f *fixture) wantForm(t *testing.T, want storage.Form) {
	t.Helper()
	if got, _, err := f.Form(t.Context()); got != want || err != nil {
		t.Errorf("records are %s, %v; want %s", got, err, want)
	}
}

// testForms: the switch goes from plain over sealing to sealed, and not back.
func testForms(t *testing.T, begun *fixture) {
	begun.wantForm(t, storage.FormSealed)
	then, f, other := older(t, begun.backend.Backend)
	ctx := t.Context()
	f.wantForm(t, storage.FormPlain)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "a"}), nil)
	if u, err := then.User(ctx, "ann"); err != nil || u.Subject != "a" {
		t.Errorf("an earlier release reads %v, %v before the switch", u, err)
	}
	done, err := f.SealRecords(ctx, nil)
	if want := (storage.Switched{Form: storage.FormSealing, Until: f.clock.Now().Add(2 * time.Minute), Resealed: storage.Resealed{Looked: 2, Sealed: 1}}); err != nil || done != want {
		t.Errorf("the switch: %+v, %v; want %+v", done, err, want)
	}
	_, err = then.User(ctx, "ann")
	wantError(t, "User after the switch, by one who cannot read it", err, storage.ErrRecord)
	wantError(t, "CreateUser by one who has not heard of it", then.CreateUser(ctx, storage.User{Name: "late", Subject: "l"}), nil)
	_, err = other.User(ctx, "late")
	wantError(t, "User without a seal before the switch is at its end", err, nil)
	f.clock.advance(2*time.Minute - time.Second)
	if done, err := f.SealRecords(ctx, nil); err != nil || done.Form != storage.FormSealing || done.Sealed != 1 {
		t.Errorf("before its time: %+v, %v", done, err)
	}
	f.clock.advance(time.Second)
	if done, err := other.SealRecords(ctx, nil); err != nil || done.Form != storage.FormSealed || !done.Until.IsZero() || done.Sealed != 0 {
		t.Errorf("in its time: %+v, %v", done, err)
	}
	wantError(t, "CreateUser by an earlier release", then.CreateUser(ctx, storage.User{Name: "never", Subject: "n"}), nil)
	f.clock.advance(30 * time.Second)
	for _, s := range []*fixture{f, other} {
		_, err = s.User(ctx, "never")
		wantError(t, "User without a seal", err, storage.ErrForged)
		_, err = s.User(ctx, "late")
		wantError(t, "User that was sealed", err, nil)
	}
	if done, err := f.SealRecords(ctx, nil); err != nil || done != (storage.Switched{Form: storage.FormSealed}) {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// testFormsHeard: a process that reads one sealed record concludes that the switch was moved, and
// every process reads the switch at intervals.
func testFormsHeard(t *testing.T, begun *fixture) {
	_, f, other := older(t, begun.backend.Backend)
	ctx := t.Context()
	heard := 0
	other.OnForged(func(err error) {
		if heard++; !errors.Is(err, storage.ErrForged) {
			t.Errorf("what is told is %v", err)
		}
	})
	wantError(t, "CreateUser", other.CreateUser(ctx, storage.User{Name: "ann", Subject: "a"}), nil)
	plain := f.backend.item(t, "gatehouse:keyset:signing")
	_, err := f.SealRecords(ctx, nil)
	wantError(t, "SealRecords", err, nil)
	_, err = other.User(ctx, "ann")
	wantError(t, "User", err, nil)
	f.backend.restore(t, "gatehouse:keyset:signing", plain)
	_, err = other.KeySet(ctx)
	wantError(t, "KeySet from before the switch", err, storage.ErrForged)
	if heard != 1 {
		t.Errorf("%d forged records were told; want 1", heard)
	}
	_, err = f.store(t, issuer, f.keys...).KeySet(ctx)
	wantError(t, "KeySet from before the switch, by a new process", err, storage.ErrForged)
	f.backend.remove(t, "gatehouse:keyset:signing")
	for _, s := range []*storage.Store{f.Store, other.Store, f.store(t, issuer, f.keys...)} {
		_, err = s.KeySet(ctx)
		wantError(t, "KeySet that is gone", err, storage.ErrForged)
	}
}

// lateRead is a backend whose next read of the key set returns the item from before another
// operation.
type lateRead struct {
	storage.Backend
	meanwhile func()
}

func (b *lateRead) Get(ctx context.Context, key string) (storage.Item, error) {
	item, err := b.Backend.Get(ctx, key)
	if do := b.meanwhile; do != nil && strings.HasPrefix(key, "gatehouse:keyset:") {
		b.meanwhile = nil
		do()
	}
	return item, err
}

// testFirstKeySet: a process that finds no key set, while another creates the first one and then
// people, does not conclude that one was taken away.
func testFirstKeySet(t *testing.T, begun *fixture) {
	for name, sameStore := range map[string]bool{"of another process": false, "of this process": true} {
		f := &fixture{clock: newClock(), keys: [][]byte{masterKey()}}
		f.backend = &isolated{Isolated: testkit.NewIsolated(begun.backend.Backend), master: f.keys[0]}
		late := &lateRead{Backend: f.backend}
		f.faults = NewFaults(late)
		f.Store = f.store(t, issuer, f.keys...)
		first := f.Store
		if !sameStore {
			first = f.store(t, issuer, f.keys...)
		}
		f.OnForged(func(err error) { t.Errorf("the first key set %s: alarm: %v", name, err) })
		late.meanwhile = func() {
			wantError(t, "SwapKeySet", first.SwapKeySet(t.Context(), storage.KeySet{Keys: []storage.SigningKey{{ID: "k", State: storage.KeyActive}}}), nil)
			_, err := first.KeySet(t.Context())
			wantError(t, "KeySet", err, nil)
			wantError(t, "CreateUser", first.CreateUser(t.Context(), storage.User{Name: "ann", Subject: "a"}), nil)
		}
		set, err := f.KeySet(t.Context())
		if err != nil || len(set.Keys) != 1 {
			t.Errorf("the first key set %s: %+v, %v", name, set, err)
		}
	}
}

// testSealEveryKind: a record of every kind is sealed, is valid at its place only, and is sealed
// anew under another master key, also if no list names it.
func testSealEveryKind(t *testing.T, f *fixture) {
	records := newerRecords(t, f)
	for kind, test := range records {
		item := f.backend.item(t, test.key)
		if item.Data[0] != 2 {
			t.Errorf("a %s is in form %d", kind, item.Data[0])
		}
		for other, there := range records {
			if other == kind || there.key == test.key {
				continue
			}
			f.backend.restore(t, test.key, f.backend.item(t, there.key))
			for what, call := range test.reads {
				if err := call(); what != "Reseal" && !errors.Is(err, storage.ErrForged) {
					t.Errorf("%s of a %s in the place of a %s returned error %v", what, other, kind, err)
				}
			}
			f.backend.remove(t, test.key)
			f.backend.restore(t, test.key, item)
			break
		}
	}
	key := masterKey()
	both, alone := f.store(t, issuer, key, f.keys[0]), f.store(t, issuer, key)
	done, err := both.Reseal(t.Context(), nil)
	if err != nil || done.Looked != len(records) || done.Sealed != len(records) || done.Unreadable != 0 {
		t.Errorf("resealing met %+v, %v; want %d", done, err, len(records))
	}
	done, err = alone.Reseal(t.Context(), nil)
	if err != nil || done.Looked != len(records) || done.Sealed != 0 || done.Unreadable != 0 {
		t.Errorf("with the new key alone, resealing met %+v, %v", done, err)
	}
}
