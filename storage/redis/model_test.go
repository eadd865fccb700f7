package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/internal/failover"
	"gatehouse.example/storage/redis/internal/sim"
)

// The model runs the real store over the real backend in a simulated world of Redis servers and
// sentinels, breaks that by a schedule, and checks whether the answers stay true.

// model describes one run.
type model struct {
	servers  int
	schedule sim.Schedule
	seed     uint64
	hasty    bool                 // sentinels ask often, as in tests with real ones, and replicas are filled without delay
	off      failover.Protections // what is switched off
	unfenced bool                 // writes happen on any lineage
	shared   bool                 // commands share flights; such a run does not repeat: callers that are answered together go on in any order
	log      func(line string)    // is called for each event, if set
}

// The times of a run: before the schedule begins, and from its end until everything has to work
// again.
const (
	warmUp   = 4 * time.Second
	recovery = 60 * time.Second
)

// outcome is the result of a run.
type outcome struct {
	violations []string
	recovered  time.Duration // from the last fault until everything worked
	answered   int           // operations with an answer other than 503
	refused    int
	silence    time.Duration // the longest time in which no write was acknowledged
}

// run runs a model in its own bubble.
func (m model) run(t *testing.T) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(m.config())
		defer w.Stop()
		scripts(w)
		time.Sleep(time.Second)
		r := newRun(t, m, w)
		defer r.close()
		r.work(func() {
			time.Sleep(warmUp - time.Second)
			w.Run(m.schedule)
			time.Sleep(m.schedule.End())
			o.recovered = r.recover()
		})
		r.audit()
		o.violations, o.answered, o.refused, o.silence = r.violations, r.answered, r.refused, r.silence
	})
	return o
}

func (m model) config() sim.Config {
	c := sim.Config{Servers: m.servers, Seed: m.seed, Unsent: certain, CommandTime: commandTime, Log: m.log}
	if m.hasty {
		c.PingPeriod, c.InfoPeriod, c.AskPeriod, c.PublishPeriod = 300*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond
		c.TiltAfter, c.SyncDelay, c.SyncTime = time.Minute, time.Millisecond, 100*time.Millisecond
	}
	return c
}

// run is a running model.
type run struct {
	model
	t      *testing.T
	w      *sim.World
	stores []*storage.Store
	ends   []func()
	over   chan struct{} // closed when no new operation begins
	people sync.WaitGroup

	mu         sync.Mutex
	records    []*record
	violations []string
	answered   int
	refused    int
	written    time.Time // when the last write was acknowledged
	silence    time.Duration
}

func newRun(t *testing.T, m model, w *sim.World) *run {
	r := &run{model: m, t: t, w: w, over: make(chan struct{})}
	for i := range 2 {
		p := w.Process(fmt.Sprintf("P%d", i+1))
		b := &backend{unshared: !m.shared}
		b.group = openGroup(t.Context(), dial{
			name: "main", sentinels: w.SentinelAddrs(), sentinel: p.Connect, server: p.Connect, off: m.off,
		}, b.measure, func(sentence string) { r.note("%s is told: %s", p.Name(), sentence) })
		if err := b.group.await(t.Context()); err != nil {
			t.Fatalf("before anything is broken: %v", err)
		}
		var backend storage.Backend = b
		if m.unfenced {
			backend = unfenced{b}
		}
		store, err := storage.New(backend, storage.Options{
			Issuer: "https://as.example.com", MasterKeys: [][]byte{slices.Repeat([]byte{7}, 32)}, MustSeal: true,
			Rand: &source{rnd: rand.NewChaCha8([32]byte{byte(m.seed), byte(m.seed >> 8), byte(i)})},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.stores, r.ends = append(r.stores, store), append(r.ends, func() { _ = b.Close() })
		time.Sleep(37 * time.Millisecond) // so that their looks are at different times
	}
	return r
}

// unfenced is a backend that writes on any lineage.
type unfenced struct{ storage.Backend }

func (b unfenced) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	put.On = ""
	return b.Backend.Put(ctx, put)
}

func (r *run) close() {
	for _, end := range r.ends {
		end()
	}
}

// source is a source of randomness for several goroutines.
type source struct {
	mu  sync.Mutex
	rnd *rand.ChaCha8
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.Read(p)
}

func (r *run) note(format string, args ...any) {
	if r.log != nil {
		r.log(fmt.Sprintf("%9.4fs ", r.w.Now().Seconds()) + fmt.Sprintf(format, args...))
	}
}

// violation records that a promise was broken. The first word is its name.
func (r *run) violation(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.note("VIOLATION %s", line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf("%s (at %.3fs)", line, r.w.Now().Seconds()))
}

// broke reports whether a promise was broken.
func (o outcome) broke(promise string) bool {
	return slices.ContainsFunc(o.violations, func(v string) bool { return strings.HasPrefix(v, promise) })
}

// people is the number of users of each process.
const people = 3

// work has people use the processes until a plan has ended.
func (r *run) work(plan func()) {
	for i := range people * len(r.stores) {
		rnd := rand.New(rand.NewPCG(r.seed, uint64(i)))
		r.people.Go(func() {
			time.Sleep(time.Duration(rnd.Int64N(int64(100 * time.Millisecond)))) // so that they begin at different times
			r.person(i%len(r.stores), rnd)
		})
	}
	plan()
	close(r.over)
	r.people.Wait()
}

// ended reports whether no new operation is to begin.
func (r *run) ended() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// recover waits until both processes do everything at the first try, and returns how long that
// took.
func (r *run) recover() time.Duration {
	begun := time.Now()
	for i := range r.stores {
		for {
			err := r.everything(i)
			if err == nil {
				break
			}
			if time.Since(begun) > recovery {
				r.violation("liveness: %v after the last fault P%d still says: %v", recovery, i+1, err)
				break
			}
			time.Sleep(150 * time.Millisecond)
		}
	}
	r.note("everything works")
	return time.Since(begun)
}

// audit reads all acknowledged records at each process at the end.
func (r *run) audit() {
	for i := range r.stores {
		for _, rec := range r.records {
			r.look(context.Background(), i, rec)
		}
	}
}

// skipRaced skips a test of the model under the race detector, which makes it many times slower:
// only one process at a time runs in it, so there are no races to detect.
func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("the model runs without the race detector")
	}
}
