//go:build e2e

package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// pairOf starts a primary and a replica behind a proxy, and opens the primary.
func pairOf(t *testing.T) (primary, replica *redistest.Server, link *redistest.Proxy, b storage.Backend) {
	t.Helper()
	primary = redistest.Start(t, redistest.Config{})
	link = redistest.StartProxy(t, primary.Addr)
	replica = redistest.Start(t, redistest.Config{ReplicaOf: primary, Through: link.Addr})
	b = open(t, redis.Options{URL: primary.URL()})
	t.Cleanup(func() { b.Close() })
	lineageOf(t, b)
	return primary, replica, link, b
}

// lineageOf waits until a store has noticed that its server has a replica.
func lineageOf(t *testing.T, b storage.Backend) (l storage.Lineage) {
	t.Helper()
	eventually(t, "a lineage", func() bool {
		var err error
		l, err = b.Lineage(t.Context())
		return err == nil && l != ""
	})
	return l
}

func fresh(key string, on storage.Lineage) storage.Put {
	put := storage.Put{Key: key, Data: []byte("data"), If: storage.Always, On: on, TTL: time.Hour}
	_, _ = rand.Read(put.Operation[:]) // never fails
	return put
}

// eventually polls until check succeeds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// TestReplicaConfirms: a write is answered when a replica has it. One that no replica has
// confirmed is uncertain, and settled by sending it again, over any connection.
func TestReplicaConfirms(t *testing.T) {
	primary, replica, link, b := pairOf(t)
	has := func(key string) bool { return replica.Client().Exists(t.Context(), key).Val() == 1 }
	for range 50 {
		change := fresh(rand.Text(), "")
		if _, err := b.Put(t.Context(), change); err != nil || !has(change.Key) {
			t.Fatalf("Put: %v; the replica has it: %t", err, has(change.Key))
		}
	}
	link.BlackHole(redistest.Replies)
	late := fresh("late", "")
	start := time.Now()
	if _, err := b.Put(t.Context(), late); !errors.Is(err, storage.ErrUncertain) {
		t.Fatalf("Put while the replica hears nothing: %v", err)
	}
	if took := time.Since(start); took > operationWithin {
		t.Errorf("it took %v", took)
	}
	for what, change := range map[string]func() error{
		"Delete":   func() error { return b.Delete(t.Context(), "something") },
		"IndexAdd": func() error { return b.IndexAdd(t.Context(), "index", "entry") },
		"a listed Put": func() error {
			put := fresh("listed", "")
			put.Listed = []storage.Listing{{Index: "index", Entry: "listed"}}
			_, err := b.Put(t.Context(), put)
			return err
		},
	} {
		if err := change(); !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("%s while the replica hears nothing: %v", what, err)
		}
	}
	hasty := fresh("hasty", "")
	hasty.Forgettable = true
	if _, err := b.Put(t.Context(), hasty); err != nil {
		t.Errorf("a forgettable Put: %v", err)
	}
	stale := fresh("late", "")
	stale.If = storage.Unchanged(hasty.Operation)
	if _, err := b.Put(t.Context(), stale); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("a lost Put waits for nobody: %v", err)
	}
	if err := b.IndexRemove(t.Context(), "index", "entry"); err != nil {
		t.Errorf("IndexRemove: %v", err)
	}
	// Another process finds the write on the primary, and has it written once more: a WAIT is about what
	// its own connection wrote.
	sets := func() (calls int) {
		for line := range strings.Lines(primary.Client().Info(t.Context(), "commandstats").Val()) {
			_, _ = fmt.Sscanf(line, "cmdstat_set:calls=%d", &calls)
		}
		return calls
	}
	other := open(t, redis.Options{URL: primary.URL()})
	defer other.Close()
	lineageOf(t, other)
	read := storage.Put{Key: late.Key, If: storage.Unchanged(late.Operation), Operation: late.Operation, Confirmation: true}
	for what, again := range map[string]storage.Put{"the same write": late, "a confirmation of it": read} {
		before := sets()
		if _, err := other.Put(t.Context(), again); !errors.Is(err, storage.ErrUncertain) || sets() != before+1 {
			t.Errorf("%s by another process, while the replica hears nothing: %v, written %d times more", what, err, sets()-before)
		}
	}
	if has("late") {
		t.Fatal("the replica has heard of it")
	}

	// Lost entries are sent once more when the replica is linked again.
	link.Cut()
	link.Clear()
	link.Restore()
	eventually(t, "the same write again", func() bool {
		item, err := other.Put(t.Context(), late)
		return err == nil && item.Version == late.Operation
	})
	if !has("late") {
		t.Error("the second attempt was answered before the replica had it")
	}
	if ttl := primary.Client().PTTL(t.Context(), "late").Val(); ttl > time.Hour || ttl < 50*time.Minute {
		t.Errorf("sending it again changed its lifetime to %v", ttl)
	}
}

// TestReplicaGone: a primary without replicas serves alone, and with replicas it does not.
func TestReplicaGone(t *testing.T) {
	primary, replica, _, b := pairOf(t)
	writes := func() bool { _, err := b.Put(t.Context(), fresh("k", "")); return err == nil }
	if !writes() {
		t.Fatal("the first Put")
	}
	replica.Kill()
	eventually(t, "a write without the replica", writes)
	joined := redistest.Start(t, redistest.Config{ReplicaOf: primary})
	eventually(t, "a write that waits for the new replica", func() bool {
		change := fresh(rand.Text(), "")
		joined.Pause()
		defer joined.Resume()
		_, err := b.Put(t.Context(), change)
		return errors.Is(err, storage.ErrUncertain)
	})
	eventually(t, "a write to both", writes)
}

// TestLineage: a promoted replica is another lineage, on which a write that relies on the old one
// is refused, unless it has happened before.
func TestLineage(t *testing.T) {
	_, replica, link, b := pairOf(t)
	before := lineageOf(t, b)
	known := fresh("known", before)
	if _, err := b.Put(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	link.BlackHole(redistest.Replies)
	forgotten := fresh("forgotten", before)
	if _, err := b.Put(t.Context(), forgotten); !errors.Is(err, storage.ErrUncertain) {
		t.Fatalf("Put that the replica does not hear: %v", err)
	}

	if err := replica.Client().Do(t.Context(), "replicaof", "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Start(t, redistest.Config{ReplicaOf: replica}) // lineages have names only where there are replicas
	next := open(t, redis.Options{URL: replica.URL()})
	defer next.Close()
	after := lineageOf(t, next)
	if after == before {
		t.Fatalf("the lineage is still %q", after)
	}
	if _, err := next.Put(t.Context(), known); err != nil {
		t.Errorf("what the replica knew: %v", err)
	}
	for what, change := range map[string]storage.Put{"a forgotten write": forgotten, "a new one": fresh("known", before)} {
		if _, err := next.Put(t.Context(), change); !errors.Is(err, storage.ErrLineage) {
			t.Errorf("%s on the old lineage: %v", what, err)
		}
	}
	if _, err := next.Get(t.Context(), "forgotten"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("it was written all the same: %v", err)
	}
	if _, err := next.Put(t.Context(), fresh("known", after)); err != nil {
		t.Errorf("a write on the new lineage: %v", err)
	}
}

// TestNoLineage: the lineage of one server without replicas is empty.
func TestNoLineage(t *testing.T) {
	b := open(t, redis.Options{URL: redistest.StartServer(t)})
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no command is sent
	if l, err := b.Lineage(ctx); l != "" || err != nil {
		t.Errorf("Lineage: %q, %v", l, err)
	}
}
