package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// TestNamedReplicasConfirm: replicas that are named have to be among those that confirm, with all that the
// primary had before the wait. The primary is asked for its own offset before it waits, and for theirs after.
func TestNamedReplicasConfirm(t *testing.T) {
	t.Parallel()
	const a, b = "slave0:ip=192.0.2.1,port=1,state=online,offset=%d,lag=0\r\n", "slave1:ip=192.0.2.2,port=1,state=online,offset=%d,lag=0\r\n"
	for what, test := range map[string]struct {
		waited        int64
		before, after string
		want          bool
	}{
		"both have it":          {2, "master_repl_offset:100\r\n", fmt.Sprintf(a+b, 100, 101), true},
		"one of them is behind": {2, "master_repl_offset:100\r\n", fmt.Sprintf(a+b, 100, 99), false},
		"one of them is gone":   {2, "master_repl_offset:100\r\n", fmt.Sprintf(a, 100), false},
		"too few have it":       {1, "master_repl_offset:100\r\n", fmt.Sprintf(a+b, 100, 100), false},
	} {
		c := newConfirmation(t.Context(), 2, []string{"192.0.2.1:1", "192.0.2.2:1"})
		if sent := c.commands(); len(sent) != 3 || sent[0] != goredis.Cmder(c.before) || sent[1].Name() != "wait" || sent[2] != goredis.Cmder(c.after) {
			t.Fatalf("the commands are %v", sent)
		}
		c.wait.SetVal(test.waited)
		c.before.SetVal(test.before)
		c.after.SetVal(test.after)
		if err := c.err(); (err == nil) != test.want {
			t.Errorf("%s: %v", what, err)
		}
		c.after.SetErr(errors.New("no answer"))
		if c.err() == nil {
			t.Errorf("%s: without an answer it is confirmed", what)
		}
	}
}

// TestRoomBetweenMeasurements: what is created counts at once, and so does a refusal for lack of memory.
func TestRoomBetweenMeasurements(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	b := &backend{client: goredis.NewClient(&goredis.Options{Addr: m.Addr(), MaintNotificationsConfig: noMaintenance(), MaxRetries: -1})}
	defer b.Close()
	measured := &left{reserve: 10 << 10}
	measured.free.Store(12 << 10)
	b.room.left.Store(measured)
	put := func(n byte, condition storage.Condition, want storage.Room, wantErr error) {
		t.Helper()
		_, err := b.Put(t.Context(), storage.Put{Key: fmt.Sprint(n), Data: make([]byte, 1<<10), Operation: storage.Version{n}, If: condition})
		if !errors.Is(err, wantErr) || b.Room() != want {
			t.Errorf("write %d: %v, the room is %d; want %d", n, err, b.Room(), want)
		}
	}
	put(1, storage.Absent, storage.RoomEnough, nil)
	put(2, storage.Absent, storage.RoomTight, nil)
	for range 10 { // replaces, which takes nothing
		put(2, storage.Always, storage.RoomTight, nil)
	}
	m.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	put(3, storage.Unchanged(storage.Version{9}), storage.RoomNone, storage.ErrFull)
}

// TestEntryThatFails: an item whose entry could not be added is not reported as stored: it could not be found.
func TestEntryThatFails(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	b := &backend{client: goredis.NewClient(&goredis.Options{Addr: m.Addr(), MaintNotificationsConfig: noMaintenance(), MaxRetries: -1})}
	defer b.Close()
	if err := m.Set("index", "text"); err != nil {
		t.Fatal(err)
	}
	put := storage.Put{Key: "k", Operation: storage.Version{1}, Listed: []storage.Listing{{Index: "index", Entry: "k"}}}
	if _, err := b.Put(t.Context(), put); !errors.Is(err, storage.ErrUncertain) {
		t.Errorf("Put: %v", err)
	}
}

// TestAnswersThatNobodyVouchesFor: an answer about keys of a server that no majority lists becomes an error,
// alone and among others. Other answers, and errors, stay as they are.
func TestAnswersThatNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{
		MaintNotificationsConfig: noMaintenance(),
		ClusterSlots:             func(context.Context) ([]goredis.ClusterSlot, error) { return nil, errors.New("nobody answers") },
	})
	defer cluster.Close()
	silent := func(addr string) *goredis.Client {
		nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody answers") }
		return goredis.NewClient(&goredis.Options{Addr: addr, Dialer: nobody, MaintNotificationsConfig: noMaintenance(), MaxRetries: -1})
	}
	r := &ring{client: cluster, connect: silent, looking: make(chan struct{}, 1), servers: map[string]*goredis.Client{}}
	defer r.close()
	h := vouchHook{ring: r, addr: "192.0.2.1:1"}
	failed := errors.New("it failed")
	for _, known := range []bool{false, true} {
		if known {
			r.named.Store(h.addr, true)
		}
		read, written, other, broken := goredis.NewStringCmd(t.Context(), "get", "a"), goredis.NewCmd(t.Context(), "evalsha", "x"),
			goredis.NewStringCmd(t.Context(), "info"), goredis.NewStringCmd(t.Context(), "get", "b")
		broken.SetErr(failed)
		cmds := []goredis.Cmder{read, written, other, broken}
		_ = h.ProcessPipelineHook(func(context.Context, []goredis.Cmder) error { return failed })(t.Context(), cmds)
		one := h.ProcessHook(func(context.Context, goredis.Cmder) error { return goredis.Nil })(t.Context(), goredis.NewStringCmd(t.Context(), "get", "c"))
		if errors.Is(read.Err(), errUnvouched) != known || errors.Is(written.Err(), errUnvouched) != known || errors.Is(one, errUnvouched) != known {
			t.Errorf("known %t: a read %v, a write %v, one alone %v", known, read.Err(), written.Err(), one)
		}
		if other.Err() != nil || !errors.Is(broken.Err(), failed) {
			t.Errorf("known %t: another command %v, one that failed %v", known, other.Err(), broken.Err())
		}
	}
}
