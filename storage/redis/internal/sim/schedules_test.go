package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/internal/sim"
)

// write sets a key at a server and returns how many replicas confirmed it, -1 if the server did
// not execute it.
func write(ctx context.Context, w *sim.World, p *sim.Process, server, key string, confirmed int) int {
	pipe := p.Connect(w.Addr(server)).Pipeline()
	pipe.Set(ctx, key, "value", 0)
	wait := pipe.Do(ctx, "wait", confirmed, "500")
	if _, err := pipe.Exec(ctx); err != nil {
		return -1
	}
	return int(wait.Val().(int64))
}

func has(t *testing.T, w *sim.World, p *sim.Process, server, key string) bool {
	t.Helper()
	n, err := p.Connect(w.Addr(server)).Exists(t.Context(), key).Result()
	if err != nil {
		t.Fatalf("%s: %v", server, err)
	}
	return n == 1
}

func wantPrimary(t *testing.T, w *sim.World, want string) {
	t.Helper()
	if v := w.View(); v.Primary != want || v.Roles[want] != "master" {
		t.Fatalf("the sentinels name %q, the roles are %v; want %s", v.Primary, v.Roles, want)
	}
}

// takeover lets B take over from A, and writes to B alone. The function stop stops A; A comes
// back by itself.
func takeover(t *testing.T, w *sim.World, p *sim.Process, stop func()) {
	t.Helper()
	time.Sleep(3 * time.Second)
	write(t.Context(), w, p, "A", "before", 1)
	stop()
	time.Sleep(4 * time.Second)
	wantPrimary(t, w, "B")
	if write(t.Context(), w, p, "B", "alone", 0) != 0 {
		t.Fatal("B does not serve alone")
	}
}

// TestFlap: a primary that comes back is promoted again, without the writes since then, although
// it never followed the server that was primary in between.
func TestFlap(t *testing.T) {
	for name, stop := range map[string]func(w *sim.World){
		"stall": func(w *sim.World) { w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"A"}, For: 5 * time.Second}) },
		"crash": func(w *sim.World) {
			w.Do(sim.Fault{What: sim.Crash, Nodes: []string{"A"}, For: 5 * time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sim.Config{Servers: 2}, func(t *testing.T, w *sim.World, p *sim.Process) {
				takeover(t, w, p, func() { stop(w) })
				time.Sleep(3 * time.Second)
				w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"B"}, For: 6 * time.Second})
				time.Sleep(5 * time.Second)
				wantPrimary(t, w, "A")
				if has(t, w, p, "A", "alone") {
					t.Error("A has what it never heard of")
				}
				if info := p.Connect(w.Addr("A")).Info(t.Context(), "replication").Val(); !strings.Contains(info, "second_repl_offset:-1") {
					t.Errorf("A never was a replica, so it has no second history: %s", info)
				}
				time.Sleep(40 * time.Second)
				if has(t, w, p, "B", "alone") {
					t.Error("B follows A and still has what A does not have")
				}
			})
		})
	}
}

// TestFilling: a server that is being filled, whose link was never up, is promoted with its
// old data.
func TestFilling(t *testing.T) {
	inWorld(t, sim.Config{Servers: 2}, func(t *testing.T, w *sim.World, p *sim.Process) {
		takeover(t, w, p, func() { w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"A"}, For: 5 * time.Second}) })
		write(t.Context(), w, p, "A", "to itself", 0) // executed when it wakes, so B cannot go on with it
		for w.View().Roles["A"] != "B" {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		info := p.Connect(w.Addr("A")).Info(t.Context(), "replication").Val()
		if !strings.Contains(info, "master_link_down_since_seconds:-1") {
			t.Fatalf("A is not being filled: %s", info)
		}
		w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"B"}, For: 8 * time.Second})
		time.Sleep(5 * time.Second)
		wantPrimary(t, w, "A")
		if has(t, w, p, "A", "alone") || !has(t, w, p, "A", "to itself") {
			t.Error("A does not have its old data")
		}
	})
}

// TestDoze: for a primary that wakes in the middle of a failover a write is confirmed by a
// replica that does not follow the new primary yet.
func TestDoze(t *testing.T) {
	lost := 0
	for seed := range uint64(10) {
		inWorld(t, sim.Config{Seed: seed}, func(t *testing.T, w *sim.World, p *sim.Process) {
			time.Sleep(3 * time.Second)
			w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"A"}, For: 1700 * time.Millisecond})
			time.Sleep(1600 * time.Millisecond)
			confirmed := write(t.Context(), w, p, "A", "acknowledged", 1)
			time.Sleep(30 * time.Second)
			if confirmed > 0 && !has(t, w, p, w.View().Primary, "acknowledged") {
				lost++
			}
		})
	}
	if lost == 0 {
		t.Error("no seed loses the write")
	}
}

// TestHangingReplica: a replica that hangs stays online until repl-timeout, with a growing lag.
func TestHangingReplica(t *testing.T) {
	inWorld(t, sim.Config{Servers: 2}, func(t *testing.T, w *sim.World, p *sim.Process) {
		time.Sleep(3 * time.Second)
		w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"B"}, For: 2 * time.Minute})
		info := func() string { return p.Connect(w.Addr("A")).Info(t.Context(), "replication").Val() }
		time.Sleep(30 * time.Second)
		if n := write(t.Context(), w, p, "A", "key", 1); n != 0 {
			t.Errorf("%d replicas confirm the write", n)
		}
		if got := info(); !strings.Contains(got, "state=online") || !strings.Contains(got, "lag=3") {
			t.Errorf("after 30 s: %s", got)
		}
		time.Sleep(32 * time.Second)
		if got := info(); !strings.Contains(got, "connected_slaves:0") {
			t.Errorf("after 62 s: %s", got)
		}
		wantPrimary(t, w, "A")
	})
}

// TestMinority: a primary that is cut off with one sentinel goes on answering while the others
// have another one. Healed, it becomes a replica.
func TestMinority(t *testing.T) {
	inWorld(t, sim.Config{}, func(t *testing.T, w *sim.World, p *sim.Process) {
		time.Sleep(3 * time.Second)
		w.Do(sim.Fault{What: sim.Cut, Nodes: []string{"A", "S1", "P1"}, For: 6 * time.Second})
		time.Sleep(5 * time.Second)
		v := w.View()
		if v.Primary == "A" || v.Roles["A"] != "master" || v.Roles[v.Primary] != "master" {
			t.Fatalf("%+v", v)
		}
		if n := write(t.Context(), w, p, "A", "alone", 1); n != 0 {
			t.Errorf("%d replicas confirm a write behind the cut", n)
		}
		time.Sleep(40 * time.Second)
		if now := w.View(); now.Roles["A"] != v.Primary || has(t, w, p, "A", "alone") {
			t.Errorf("A follows %q, and has its own write: %v", now.Roles["A"], has(t, w, p, "A", "alone"))
		}
	})
}
