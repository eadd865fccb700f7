package dcr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

const day = 24 * time.Hour

// settled is the age at which an unused client may be removed.
const settled = 20*time.Minute + time.Second

func (f *fixture) assertThere(t testing.TB, id string, want bool) {
	t.Helper()
	_, err := f.store.Client(context.Background(), id)
	if want && err != nil || !want && !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("client %s: %v, want it there: %t", id, err, want)
	}
}

// uses reads a client and records its use, as a consent does.
func (f *fixture) uses(ctx context.Context, id string) error {
	c, err := f.Current(ctx, id)
	if err != nil {
		return err
	}
	rest, err := f.Use(ctx, c)
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}

// TestUnusedClientsEnd: an unused client expires, and a used one does not.
func TestUnusedClientsEnd(t *testing.T) {
	for _, life := range []time.Duration{0, time.Hour} {
		f := newFixture(t, func(c *dcr.Config) { c.UnusedFor = life })
		unused, used := f.register(t, ""), f.register(t, "")
		if err := f.uses(context.Background(), used.id); err != nil {
			t.Fatal(err)
		}
		if life == 0 {
			life = 7 * day
		}
		f.clock.advance(life - time.Second)
		f.assertThere(t, unused.id, true)
		f.clock.advance(time.Second)
		f.assertThere(t, unused.id, false)
		f.assertThere(t, used.id, true)
	}
}

// TestTend: repeated registrations displace clients of the same software only, until there are
// too many in all, and used clients stay.
func TestTend(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) { c.MaxUnusedPerSoftware, c.MaxUnused = 3, 5 })
	ctx := context.Background()
	used := f.register(t, `"client_name":"a"`)
	if err := f.uses(ctx, used.id); err != nil {
		t.Fatal(err)
	}
	var a, b []string
	for i := range 6 {
		f.clock.advance(settled)
		a = append(a, f.register(t, fmt.Sprintf(`"client_name":"a","redirect_uris":["http://127.0.0.1:%d/cb"]`, 5000+i)).id)
	}
	check := func(want string) {
		t.Helper()
		if err := f.Tend(ctx); err != nil {
			t.Fatal(err)
		}
		var there strings.Builder
		for _, id := range append(append([]string{used.id}, a...), b...) {
			if _, err := f.store.Client(ctx, id); err == nil {
				there.WriteString("+")
			} else {
				there.WriteString("-")
			}
		}
		if there.String() != want {
			t.Errorf("there are %s, want %s", there.String(), want)
		}
	}
	f.clock.advance(settled)
	check("+---+++")
	for range 3 {
		f.clock.advance(settled)
		b = append(b, f.register(t, `"client_name":"b"`).id)
	}
	f.clock.advance(settled)
	check("+----+++++")
	f.backend.gets.Store(0)
	f.backend.writes.Store(0)
	check("+----+++++")
	if n := f.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes although there was no registration", n)
	}
}

// TestTendAgain: the next call finishes what a fault interrupted.
func TestTendAgain(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) { c.MaxUnusedPerSoftware = 1 })
	var ids []string
	for i := range 8 {
		f.clock.advance(settled)
		ids = append(ids, f.register(t, fmt.Sprintf(`"client_name":"%d"`, i/2)).id)
	}
	f.clock.advance(settled)
	f.faults.SetDown(true)
	if err := f.Tend(context.Background()); !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("error %v", err)
	}
	f.faults.SetDown(false)
	f.backend.before(func() { f.faults.SetDown(true) })
	if err := f.Tend(context.Background()); !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("error %v", err)
	}
	f.faults.SetDown(false)
	if err := f.Tend(context.Background()); err != nil {
		t.Error(err)
	}
	for i, id := range ids {
		f.assertThere(t, id, i%2 == 1)
	}
}

// TestReap: only idle clients without a live grant are removed, with a reason.
func TestReap(t *testing.T) {
	for _, idle := range []time.Duration{0, 10 * day} {
		f := newFixture(t, func(c *dcr.Config) { c.IdleFor, c.UnusedFor = idle, 1000*day })
		ctx := context.Background()
		if idle == 0 {
			idle = 90 * day
		}
		use := func(m managed) string {
			t.Helper()
			if err := f.uses(ctx, m.id); err != nil {
				t.Fatal(err)
			}
			return m.id
		}
		gone := []string{use(f.register(t, "")), use(f.register(t, "")), use(f.register(t, ""))}
		kept := []string{use(f.register(t, "")), use(f.register(t, "")), use(f.register(t, ""))}
		kept = append(kept, f.register(t, "").id) // never used: it ends by itself
		configured, _, err := dcr.Add(ctx, f.store, storage.Client{Created: start, Metadata: good})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, configured.ID)
		f.grant(t, gone[1], idle) // ends just now
		revoked := f.grant(t, gone[2], idle+time.Hour)
		if err := f.store.Revoke(ctx, revoked.ID, "test"); err != nil {
			t.Fatal(err)
		}
		f.grant(t, kept[0], idle+time.Second)
		if err := dcr.Disable(ctx, f.store, kept[2]); err != nil {
			t.Fatal(err)
		}
		f.clock.advance(idle - time.Second)
		if n, err := f.Reap(ctx); n != 0 || err != nil {
			t.Errorf("reaped %d: %v", n, err)
		}
		f.grant(t, kept[1], 0) // a code
		f.clock.advance(time.Second)
		recent := use(f.register(t, ""))
		f.assertResolves(t, gone[0], 1) // into the cache
		if n, err := f.Reap(ctx); n != len(gone) || err != nil {
			t.Errorf("reaped %d: %v", n, err)
		}
		for _, id := range gone {
			if _, err := f.Resolve(ctx, id); !isRemoved(err, fmt.Sprintf("it was not used for %d days", idle/day)) {
				t.Errorf("error %v", err)
			}
		}
		for _, id := range append(kept, recent) {
			f.assertThere(t, id, true)
		}
	}
}

// TestReapAndUse: a consent that begins while a client is being reaped keeps it.
func TestReapAndUse(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.Background()
	m := f.register(t, "")
	if err := f.uses(ctx, m.id); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(91 * day)
	var g storage.Grant
	f.backend.before(func() {
		if err := f.uses(ctx, m.id); err != nil {
			t.Error(err)
		}
		g = f.grant(t, m.id, time.Hour)
	})
	if n, err := f.Reap(ctx); n != 0 || err != nil {
		t.Errorf("reaped %d: %v", n, err)
	}
	f.assertThere(t, m.id, true)
	f.assertRevoked(t, g, false)
}

// TestReapFaults: a client is not removed while its grants cannot be read, and a fault ends
// the call.
func TestReapFaults(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.Background()
	m := f.register(t, "")
	if err := f.uses(ctx, m.id); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(91 * day)
	g := f.grant(t, m.id, time.Hour)
	bad := storage.Put{Key: "gatehouse:grant:" + g.ID, Data: []byte{9}, If: storage.Always, Operation: storage.Version{1}}
	if _, err := f.backend.Put(ctx, bad); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Reap(ctx); n != 0 || err != nil {
		t.Errorf("reaped %d: %v", n, err)
	}
	f.assertThere(t, m.id, true)
	if err := f.backend.Delete(ctx, bad.Key); err != nil {
		t.Fatal(err)
	}
	f.faults.SetDown(true)
	if _, err := f.Reap(ctx); !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("error %v", err)
	}
	f.faults.SetDown(false)
	f.backend.before(func() { f.faults.SetDown(true) })
	if n, err := f.Reap(ctx); n != 0 || !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("reaped %d: %v", n, err)
	}
	f.faults.SetDown(false)
	if n, err := f.Reap(ctx); n != 1 || err != nil {
		t.Errorf("reaped %d: %v", n, err)
	}
}
