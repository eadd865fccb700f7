package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// tower is a server in a bubble that answers a flight when the test says so. A GET is answered with
// its key, a conditional write with 1, and a WAIT with 1.
type tower struct {
	mu      sync.Mutex
	flights [][]string      // what each flight carried: the keys, and WAIT
	landed  []chan struct{} // closed by land
}

// towerAddr is an address that nobody dials.
const towerAddr = "192.0.2.1:6379"

// backend returns a backend whose only server is the tower.
func (w *tower) backend(confirm int) *backend {
	client := goredis.NewClient(&goredis.Options{Addr: towerAddr, MaintNotificationsConfig: noMaintenance()})
	client.AddHook(w)
	b := &backend{client: client}
	if confirm > 0 {
		b.standby = &standby{}
		b.standby.live.Store(&replicas{towerAddr: confirm})
	}
	return b
}

// DialHook implements goredis.Hook. Nothing is dialled.
func (w *tower) DialHook(goredis.DialHook) goredis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nothing is dialled") }
}

// ProcessHook implements goredis.Hook.
func (w *tower) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		w.answer(ctx, []goredis.Cmder{cmd})
		return cmd.Err()
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (w *tower) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		w.answer(ctx, cmds)
		return cmds[0].Err()
	}
}

func (w *tower) answer(ctx context.Context, cmds []goredis.Cmder) {
	var carried []string
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "get", "set":
			carried = append(carried, fmt.Sprint(cmd.Args()[1]))
		case "evalsha":
			carried = append(carried, fmt.Sprint(cmd.Args()[3]))
		default:
			carried = append(carried, strings.ToUpper(cmd.Name()))
		}
	}
	land := make(chan struct{})
	w.mu.Lock()
	w.flights, w.landed = append(w.flights, carried), append(w.landed, land)
	w.mu.Unlock()
	select {
	case <-land:
	case <-ctx.Done():
		for _, cmd := range cmds {
			cmd.SetErr(ctx.Err())
		}
		return
	}
	for _, cmd := range cmds {
		cmd.SetErr(nil)
		switch cmd := cmd.(type) {
		case *goredis.StringCmd:
			key := fmt.Sprint(cmd.Args()[1])
			cmd.SetVal(strings.Repeat("v", versionLen) + key)
			switch {
			case key == "none":
				cmd.SetErr(goredis.Nil)
			case key == "broken":
				cmd.SetErr(refused("ERR it is broken"))
			case key == "moved" && len(cmds) > 1:
				cmd.SetErr(refused("MOVED 1 " + towerAddr))
			}
		case once:
			cmd.SetVal(int64(1))
		}
	}
}

// refused is an error that a server answers.
type refused string

func (e refused) Error() string { return string(e) }

// RedisError implements goredis.Error.
func (refused) RedisError() {}

// land answers a flight.
func (w *tower) land(flight int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.landed[flight])
}

// want checks what has taken off up to now.
func (w *tower) want(t *testing.T, flights ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var is []string
	for _, carried := range w.flights {
		is = append(is, strings.Join(carried, " "))
	}
	if !slices.Equal(is, flights) {
		t.Fatalf("flights: %q\nwant:    %q", is, flights)
	}
}

// get reads a key and sends the error to the returned channel; the next call joins behind it.
func get(t *testing.T, ctx context.Context, b *backend, key string) <-chan error {
	out := make(chan error, 1)
	go func() {
		item, err := b.Get(ctx, key)
		if err == nil && string(item.Data) != key {
			err = fmt.Errorf("the value of %s is %q", key, item.Data)
		}
		out <- err
	}()
	synctest.Wait()
	return out
}

// swap writes a key as get reads one.
func swap(t *testing.T, ctx context.Context, b *backend, put storage.Put) <-chan error {
	out := make(chan error, 1)
	put.Operation = storage.Version{1}
	go func() {
		_, err := b.Put(ctx, put)
		out <- err
	}()
	synctest.Wait()
	return out
}

func wantErr(t *testing.T, out <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-out:
		if !errors.Is(err, want) {
			t.Errorf("the answer is %v; want %v", err, want)
		}
	default:
		t.Errorf("there is no answer; want %v", want)
	}
}

// TestCommandsShareFlights: a command that finds nothing under way goes at once, what arrives while
// a flight is out goes with the next one in its order, and each has its own answer.
func TestCommandsShareFlights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		first := get(t, t.Context(), b, "a")
		w.want(t, "a")
		var rest []<-chan error
		for _, key := range []string{"c", "none", "d"} {
			rest = append(rest, get(t, t.Context(), b, key))
		}
		written := swap(t, t.Context(), b, storage.Put{Key: "e"})
		w.want(t, "a")
		w.land(0)
		wantErr(t, first, nil)
		w.want(t, "a", "c none d e")
		last := get(t, t.Context(), b, "f")
		w.want(t, "a", "c none d e")
		w.land(1)
		wantErr(t, rest[0], nil)
		wantErr(t, rest[1], storage.ErrNotFound)
		wantErr(t, rest[2], nil)
		wantErr(t, written, nil)
		w.want(t, "a", "c none d e", "f")
		w.land(2)
		wantErr(t, last, nil)
		if got := b.Flights(); got != 3 {
			t.Errorf("%d round trips are counted, of 3 for 6 calls", got)
		}
	})
}

// TestFlightsBoard: who sends something between the moment in which a flight begins and that in which it
// leaves comes along, behind the one that began it; meanwhile no other flight begins.
func TestFlightsBoard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		prompt := &b.lanesTo(towerAddr).prompt
		first := &job{ctx: t.Context(), server: b.client.(*goredis.Client), cmds: []goredis.Cmder{goredis.NewStringCmd(t.Context(), "get", "a")}}
		begun, opens := prompt.opens(first)
		if !opens {
			t.Fatal("the first job does not begin a flight")
		}
		outs := []<-chan error{get(t, t.Context(), b, "b"), get(t, t.Context(), b, "c")}
		w.want(t)
		if prompt.closes(first, begun) {
			t.Fatal("two jobs are left behind")
		}
		w.want(t, "a b c")
		outs = append(outs, get(t, t.Context(), b, "d"))
		w.want(t, "a b c")
		w.land(0)
		w.want(t, "a b c", "d")
		w.land(1)
		<-first.done
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestFlightsAreBounded: a flight carries so many commands and so many bytes, and a job that is
// larger waits for nobody and nobody for it.
func TestFlightsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		outs := []<-chan error{get(t, t.Context(), b, "a"), swap(t, t.Context(), b, storage.Put{Key: "large", Data: make([]byte, flightBytes)})}
		w.want(t, "a", "large")
		for range flightJobs {
			outs = append(outs, get(t, t.Context(), b, "s"))
		}
		for range 4 {
			outs = append(outs, swap(t, t.Context(), b, storage.Put{Key: "third", Data: make([]byte, flightBytes/3)}))
		}
		small := strings.TrimSuffix(strings.Repeat("s ", flightJobs), " ")
		w.land(0)
		w.want(t, "a", "large", small)
		w.land(2)
		w.want(t, "a", "large", small, "third third")
		w.land(3)
		w.want(t, "a", "large", small, "third third", "third third")
		w.land(1)
		w.land(4)
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestConfirmationsAreShared: writes that wait for replicas at the same time share a WAIT, if they wait
// for the same ones, and neither a read nor a write that waits for nobody stands behind them.
func TestConfirmationsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(1)
		var flights []string
		var outs []<-chan error
		for i := range confirmedFlights {
			key := fmt.Sprint("a", i)
			outs = append(outs, swap(t, t.Context(), b, storage.Put{Key: key}))
			flights = append(flights, key+" WAIT")
		}
		for _, key := range []string{"b", "c"} {
			outs = append(outs, swap(t, t.Context(), b, storage.Put{Key: key}))
		}
		w.want(t, flights...)
		read := get(t, t.Context(), b, "r")
		brief := swap(t, t.Context(), b, storage.Put{Key: "s", Forgettable: true})
		w.want(t, append(flights, "r")...)
		w.land(confirmedFlights)
		w.want(t, append(flights, "r", "s")...)
		w.land(confirmedFlights + 1)
		wantErr(t, read, nil)
		wantErr(t, brief, nil)

		b.standby.live.Store(&replicas{towerAddr: 2}) // one more replica may follow meanwhile
		two := swap(t, t.Context(), b, storage.Put{Key: "d"})
		w.land(0)
		w.want(t, append(flights, "r", "s", "b c WAIT")...)
		w.land(1)
		w.want(t, append(flights, "r", "s", "b c WAIT", "d WAIT")...)
		for _, flight := range []int{2, 3, 6, 7} {
			w.land(flight)
		}
		for _, out := range outs {
			wantErr(t, out, nil)
		}
		wantErr(t, two, storage.ErrUncertain) // one replica has it, two must
	})
}

// TestCallersLeave: a caller whose time is over before its flight is certain that nothing was sent; one
// that leaves later does not know; and the others of that flight have their answers.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		outs := []<-chan error{get(t, t.Context(), b, "a")}
		early, leave := context.WithCancel(t.Context())
		late, leaveLate := context.WithCancel(t.Context())
		unsent := swap(t, early, b, storage.Put{Key: "early"})
		unknown := swap(t, late, b, storage.Put{Key: "late"})
		outs = append(outs, swap(t, t.Context(), b, storage.Put{Key: "c"}))
		leave()
		synctest.Wait()
		if err := <-unsent; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUncertain) {
			t.Errorf("the answer to a write that was not sent is %v", err)
		}
		w.land(0)
		w.want(t, "a", "late c")
		leaveLate()
		wantErr(t, unknown, storage.ErrUncertain)
		w.land(1)
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestClusterCommandsShareFlights: commands whose slots one server has share flights to it, writes that
// no replica has to confirm too, and what that server refuses goes where it says.
func TestClusterCommandsShareFlights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		cluster := goredis.NewClusterClient(&goredis.ClusterOptions{
			MaintNotificationsConfig: noMaintenance(), DisableRoutingPolicies: true,
			ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
				return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: towerAddr}}}}, nil
			},
			NewClient: func(o *goredis.Options) *goredis.Client {
				client := goredis.NewClient(o)
				client.AddHook(w)
				return client
			},
		})
		defer cluster.Close()
		b := &backend{client: cluster}
		outs := []<-chan error{swap(t, t.Context(), b, storage.Put{Key: "b"})}
		w.want(t, "b")
		for _, key := range []string{"c", "moved", "d"} {
			outs = append(outs, get(t, t.Context(), b, key))
		}
		outs = append(outs, swap(t, t.Context(), b, storage.Put{Key: "e"}))
		w.land(0)
		w.want(t, "b", "c moved d e")
		w.land(1)
		w.want(t, "b", "c moved d e", "moved")
		w.land(2)
		for _, out := range outs {
			wantErr(t, out, nil)
		}
		time.Sleep(time.Second) // until the client has read the slots anew
	})
}

// TestAlike: only jobs that go to one server and wait for the same replicas share a flight: the wait of the
// first one is that of all.
func TestAlike(t *testing.T) {
	t.Parallel()
	w := &tower{}
	here, elsewhere := w.backend(0).client.(*goredis.Client), w.backend(0).client.(*goredis.Client)
	defer here.Close()
	defer elsewhere.Close()
	first := &job{server: here, need: 1, named: []string{"a", "b"}}
	for what, test := range map[string]struct {
		job  job
		want bool
	}{
		"the same":            {job{server: here, need: 1, named: []string{"a", "b"}}, true},
		"another server":      {job{server: elsewhere, need: 1, named: []string{"a", "b"}}, false},
		"more replicas":       {job{server: here, need: 2, named: []string{"a", "b"}}, false},
		"another replica":     {job{server: here, need: 1, named: []string{"a", "c"}}, false},
		"no certain replicas": {job{server: here, need: 1}, false},
	} {
		if got := test.job.alike(first); got != test.want || first.alike(&test.job) != got {
			t.Errorf("%s: %t", what, got)
		}
	}
}
