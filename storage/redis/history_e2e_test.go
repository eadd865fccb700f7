//go:build e2e

package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// histories is the number of histories for each kind of trouble.
var histories = flag.Int("redis.histories", 1, "how many histories to check for each kind of trouble")

// ask is one call of a backend. Exactly one of get, put and delete is meant: put if it has an
// operation, delete if that is set.
type ask struct {
	key    string
	put    storage.Put
	delete bool
}

func (a ask) writes() bool { return a.put.Operation != storage.Version{} }

// told is the answer to a call.
type told struct {
	version  storage.Version // of the item that is there, zero for none
	data     string
	conflict bool
	unknown  bool // it may be applied at any time from now on, or never
}

// register is the content of one key.
type register struct {
	version storage.Version
	data    string
}

// after is the contract of [storage.Backend] as one step: it reports whether an answer is correct
// for a register, and returns the register afterwards.
func (r register) after(a ask, out told) (bool, register) {
	is := out.unknown || out.version == r.version && out.data == r.data
	switch {
	case a.delete:
		return true, register{}
	case !a.writes():
		return is, r
	case r.version == a.put.Operation: // it has been applied before
		return is && !out.conflict, r
	case a.put.If.Any() || r.version == a.put.If.Version():
		next := register{a.put.Operation, string(a.put.Data)}
		return out.unknown || !out.conflict && out.version == next.version && out.data == next.data, next
	}
	return out.unknown || is && out.conflict, r
}

// model is a register for each key.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return register{} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(register).after(input.(ask), output.(told))
			return ok, next
		},
	}
}

func byKey(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	of := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(ask).key
		of[key] = append(of[key], op)
	}
	for _, part := range of {
		parts = append(parts, part)
	}
	return parts
}

// never is later than any time: an operation that may be applied at any later time may as well be
// applied after all others, which is the same as not at all.
const never = int64(1) << 62

// chronicle is the calls of some clients of one backend, with their answers.
type chronicle struct {
	backend storage.Backend
	epoch   time.Time
	keys    []string

	mu      sync.Mutex
	history []porcupine.Operation
	known   map[string]storage.Version // the last version read under a key
	count   map[string]int
}

// enter records one call.
func (c *chronicle) enter(client int, a ask, call func() (told, error)) (out told, err error) {
	begin := time.Since(c.epoch).Nanoseconds()
	out, err = call()
	end := time.Since(c.epoch).Nanoseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrUncertain):
		c.count["uncertain"]++
		out, end = told{unknown: true}, never
	case err != nil: // it certainly had no effect
		c.count["failed"]++
		return out, err
	default:
		c.count["answered"]++
		if !a.delete {
			c.known[a.key] = out.version
		}
	}
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: a, Call: begin, Output: out, Return: end})
	return out, err
}

// patient is how long a client of a history waits: less than an operation may take, so that more
// of them become uncertain.
const patient = 60 * time.Millisecond

// do makes one call.
func (c *chronicle) do(t *testing.T, client int, a ask) error {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	_, err := c.enter(client, a, func() (told, error) {
		switch {
		case a.delete:
			return told{}, c.backend.Delete(ctx, a.key)
		case a.writes():
			item, err := c.backend.Put(ctx, a.put)
			out := told{version: item.Version, data: string(item.Data), conflict: errors.Is(err, storage.ErrConflict)}
			if out.conflict {
				err = nil
			}
			return out, err
		}
		item, err := c.backend.Get(ctx, a.key)
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return told{version: item.Version, data: string(item.Data)}, err
	})
	return err
}

// choose draws the next call of a client.
func (c *chronicle) choose() ask {
	a := ask{key: c.keys[mathrand.IntN(len(c.keys))]}
	c.mu.Lock()
	known := c.known[a.key]
	c.mu.Unlock()
	switch n := mathrand.IntN(20); {
	case n < 6:
		return a
	case n < 7:
		a.delete = true
		return a
	case n < 9:
		a.put.If = storage.Always
	default:
		a.put.If = storage.Unchanged(known)
	}
	a.put.Key, a.put.TTL = a.key, time.Hour
	_, _ = rand.Read(a.put.Operation[:]) // never fails
	a.put.Data = fmt.Appendf(nil, "%x", a.put.Operation[:4])
	return a
}

// live makes calls until the end. An uncertain write is sent again, as a store does, but not
// always: other clients continue from its possible effect.
func (c *chronicle) live(t *testing.T, client int, end time.Time) {
	for time.Now().Before(end) {
		a := c.choose()
		for errors.Is(c.do(t, client, a), storage.ErrUncertain) && mathrand.IntN(4) > 0 {
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Duration(mathrand.IntN(5)) * time.Millisecond)
	}
}

// seen returns the operations whose item was read.
func seen(history []porcupine.Operation) map[storage.Version]bool {
	found := map[storage.Version]bool{}
	for _, op := range history {
		found[op.Output.(told).version] = true
	}
	return found
}

// check reports whether there is an order of all operations in which all answers are correct. An
// uncertain write that was never read need not have been applied.
func check(history []porcupine.Operation) porcupine.CheckResult {
	found := seen(history)
	history = slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool {
		a := op.Input.(ask)
		return op.Output.(told).unknown && a.writes() && !found[a.put.Operation]
	})
	return porcupine.CheckOperationsTimeout(model(), history, 20*time.Second)
}

// weather is the faults between a backend and its server, which alternate on and off.
type weather struct {
	name    string
	bad     func(p *redistest.Proxy)
	on, off time.Duration
}

// hour is longer than any client waits. Clear delivers the delayed bytes.
const hour = time.Hour

func weathers() []weather {
	const long, short = 100 * time.Millisecond, 30 * time.Millisecond
	return []weather{
		{"fair", func(*redistest.Proxy) {}, short, short},
		{"late replies", func(p *redistest.Proxy) { p.Latency(redistest.Replies, hour, 0) }, long, long},
		{"late requests", func(p *redistest.Proxy) { p.Latency(redistest.Requests, hour, 0) }, long, long},
		{"lost replies", func(p *redistest.Proxy) { p.BlackHole(redistest.Replies) }, long, long},
		{"lost requests", func(p *redistest.Proxy) { p.BlackHole(redistest.Requests) }, long, long},
		{"replies reset", func(p *redistest.Proxy) { p.ResetOn(redistest.Replies) }, short, long},
		{"requests reset", func(p *redistest.Proxy) { p.ResetOn(redistest.Requests) }, short, long},
		{"reset", (*redistest.Proxy).Reset, short, short},
		{"refused", (*redistest.Proxy).Cut, short, long},
		{"jitter", func(p *redistest.Proxy) {
			p.Latency(redistest.Requests, 15*time.Millisecond, 15*time.Millisecond)
			p.Latency(redistest.Replies, 20*time.Millisecond, 20*time.Millisecond)
		}, long, short},
	}
}

// blow runs the faults until the end.
func (w weather) blow(p *redistest.Proxy, end time.Time) {
	for time.Now().Before(end) {
		w.bad(p)
		<-time.After(w.on)
		p.Restore()
		p.Clear()
		<-time.After(w.off)
	}
}

// write has some clients share some keys of a new backend during faults. After the faults, when
// late messages have arrived, every client reads all keys once more.
func (w weather) write(t *testing.T, server *redistest.Server) *chronicle {
	t.Helper()
	const clients, keys = 5, 8
	p := redistest.StartProxy(t, server.Addr)
	defer p.Close()
	b := open(t, redis.Options{URL: "redis://" + p.Addr, PoolSize: 500}) // so many refusals are forgiven
	defer b.Close()
	c := &chronicle{backend: b, epoch: time.Now(), known: map[string]storage.Version{}, count: map[string]int{}}
	for range keys {
		c.keys = append(c.keys, rand.Text())
	}
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() { c.live(t, client, end) })
	}
	all.Go(func() { w.blow(p, end) })
	all.Wait()
	for _, key := range c.keys {
		eventually(t, "an answer", func() bool { return c.do(t, clients, ask{key: key}) == nil })
	}
	return c
}

// TestHistories: whatever the network does, the answers to the clients of a backend are as if one
// operation happened after the other. An operation with an unknown outcome has been applied once,
// at some time after its call, or never; one that has certainly failed has not been applied.
func TestHistories(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	for _, w := range weathers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for range *histories {
				c := w.write(t, server)
				t.Log(len(c.history), "operations", c.count)
				if got := check(c.history); got != porcupine.Ok {
					t.Fatalf("the history is %s:\n%s", got, transcript(c.history))
				}
				if c.count["uncertain"]+c.count["failed"] == 0 && w.name != "fair" {
					t.Error("the weather was too fair")
				}
			}
		})
	}
}

// transcript returns a readable history, one key after the other.
func transcript(history []porcupine.Operation) string {
	var b strings.Builder
	for _, part := range byKey(history) {
		if porcupine.CheckOperationsTimeout(model(), part, time.Second) == porcupine.Ok {
			continue
		}
		for _, op := range part {
			a, out := op.Input.(ask), op.Output.(told)
			fmt.Fprintf(&b, "%d: %9d to %9d ", op.ClientId, op.Call/1000, min(op.Return, 1e12)/1000)
			switch {
			case a.delete:
				b.WriteString("delete")
			case a.writes():
				fmt.Fprintf(&b, "put %.4x if %.4x (any: %t)", a.put.Operation[:], a.put.If.Version(), a.put.If.Any())
			default:
				b.WriteString("get")
			}
			fmt.Fprintf(&b, " -> %.4x conflict: %t unknown: %t\n", out.version, out.conflict, out.unknown)
		}
	}
	return b.String()
}

// TestHistoryChecker: the checker finds wrong histories.
func TestHistoryChecker(t *testing.T) {
	op := func(n byte) storage.Version { return storage.Version{n} }
	put := func(n byte, cond storage.Condition) ask {
		return ask{key: "k", put: storage.Put{Key: "k", If: cond, Operation: op(n), Data: []byte{n}}}
	}
	item := func(n byte) told { return told{version: op(n), data: string([]byte{n})} }
	conflict := func(n byte) told { out := item(n); out.conflict = true; return out }
	unknown := told{unknown: true}
	get := ask{key: "k"}
	tests := []struct {
		name  string
		asked []ask
		told  []told
		want  porcupine.CheckResult
	}{
		{"one after the other", []ask{put(1, storage.Absent), put(2, storage.Unchanged(op(1))), get}, []told{item(1), item(2), item(2)}, porcupine.Ok},
		{"the same again", []ask{put(1, storage.Absent), put(1, storage.Absent), get}, []told{item(1), item(1), item(1)}, porcupine.Ok},
		{"the same again, called a conflict", []ask{put(1, storage.Absent), put(1, storage.Absent)}, []told{item(1), conflict(1)}, porcupine.Illegal},
		{"two winners", []ask{put(1, storage.Absent), put(2, storage.Absent)}, []told{item(1), item(2)}, porcupine.Illegal},
		{"a stale read", []ask{put(1, storage.Absent), put(2, storage.Always), get}, []told{item(1), item(2), item(1)}, porcupine.Illegal},
		{"unknown, and it happened", []ask{put(1, storage.Absent), get}, []told{unknown, item(1)}, porcupine.Ok},
		{"unknown, and it happens late", []ask{put(1, storage.Always), put(2, storage.Always), get, get}, []told{unknown, item(2), item(2), item(1)}, porcupine.Ok},
		{"unknown, and it happens twice", []ask{put(1, storage.Always), get, put(2, storage.Always), get}, []told{unknown, item(1), item(2), item(1)}, porcupine.Illegal},
		{"a write that failed, and yet", []ask{get}, []told{item(1)}, porcupine.Illegal},
		{"a deletion is forgotten", []ask{put(1, storage.Absent), {key: "k", delete: true}, get}, []told{item(1), {}, item(1)}, porcupine.Illegal},
	}
	for _, tt := range tests {
		var history []porcupine.Operation
		for i, a := range tt.asked {
			end := int64(2*i + 1)
			if tt.told[i].unknown {
				end = never
			}
			history = append(history, porcupine.Operation{Input: a, Call: int64(2 * i), Output: tt.told[i], Return: end})
		}
		if got := check(history); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
