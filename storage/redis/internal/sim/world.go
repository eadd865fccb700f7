// Package sim simulates Redis 7.0 servers that replicate, the sentinels that watch them, the
// network between them and the processes that use them. It is for tests of failovers: a world
// runs inside a bubble of [testing/synctest], where forty seconds take milliseconds, and the same
// seed and the same faults give the same run.
//
// A [World] provides clients ([Process.Connect]) that are real go-redis clients whose commands
// never reach a socket. Nodes can be stalled, crashed, restarted and cut off from each other by
// hand or by a [Schedule].
//
// Simulated are: strings and sorted sets, scripts as Go functions ([World.Script]), the
// replication stream with its offsets, ids and backlog, partial and full resynchronisation, WAIT,
// INFO replication; of Sentinel pings, INFO, hello messages, subjectively and objectively down,
// elections, the choice of a replica, promotion and reconfiguration. Commands that arrive at a
// stalled node, or are under way when a link is cut, are executed later, even if no process waits
// for them any more.
//
// Not simulated are: the end of keys by time, memory limits, users and TLS, a backlog that
// overflows, disks that lose data, clocks that jump, and clusters.
package sim

import (
	"container/heap"
	"fmt"
	"sync"
	"time"
)

// Config describes a world. Defaults of zero fields follow the last semicolon of each
// comment.
type Config struct {
	Servers   int // data servers, named A, B, C and so on; A begins as the primary; 3
	Sentinels int // named S1, S2 and so on; 3
	Quorum    int // the number of sentinels that have to find a primary down; a majority

	Name            string        // of the primary at the sentinels; "main"
	DownAfter       time.Duration // down-after-milliseconds; 1 s
	FailoverTimeout time.Duration // failover-timeout; 2 s
	ParallelSyncs   int           // parallel-syncs; 100

	// The periods of the sentinels; those of Sentinel: 1 s, 10 s, 1 s and 2 s.
	PingPeriod, InfoPeriod, AskPeriod, PublishPeriod time.Duration
	// TiltAfter is how long a sentinel may be stalled before it ignores all answers for 30
	// PingPeriods; 2 s.
	TiltAfter time.Duration

	SyncDelay   time.Duration // repl-diskless-sync-delay: how long a full resynchronisation waits to begin; 5 s
	SyncTime    time.Duration // how long a full resynchronisation then takes; 1 s
	ReplTimeout time.Duration // repl-timeout; 60 s
	Latency     time.Duration // the shortest time of a message; 100 µs

	// CommandTime bounds each command of a process; 700 ms.
	CommandTime time.Duration
	// Unsent, if set, wraps the error of a command that no server can have received.
	Unsent func(error) error
	// Log, if set, is called for each event.
	Log  func(line string)
	Seed uint64
}

// World is a set of nodes, the network between them, and one clock. Its methods are safe for
// concurrent use, except that the functions given to [World.Script] must not call them.
type World struct {
	cfg     Config
	start   time.Time
	scripts map[string]Script // by SHA-1

	mu        sync.Mutex
	now       time.Duration // of the event that is being run
	order     uint64
	events    events
	timer     *time.Timer
	waiting   int // commands whose process waits for a reply
	stopped   bool
	links     map[pair]*link
	nodes     map[string]*node // by name
	addrs     map[string]*node
	servers   []*server
	sentinels []*sentinel
}

// longAgo is the time at which a world begins, so that zero is "never" as in Sentinel.
const longAgo = time.Hour

// New makes a world and starts it: all servers follow A, and every sentinel lists all of them. It
// must be called inside of a bubble. [World.Stop] ends it.
func New(cfg Config) *World {
	cfg.fill()
	w := &World{
		cfg: cfg, start: time.Now(), now: longAgo,
		scripts: map[string]Script{}, links: map[pair]*link{}, nodes: map[string]*node{}, addrs: map[string]*node{},
	}
	for i := range cfg.Servers {
		w.servers = append(w.servers, newServer(w, i))
	}
	for i := range cfg.Sentinels {
		w.sentinels = append(w.sentinels, newSentinel(w, i))
	}
	for _, s := range w.servers {
		s.begin()
	}
	for _, s := range w.sentinels {
		s.begin()
	}
	return w
}

func (c *Config) fill() {
	integer := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	duration := func(p *time.Duration, def time.Duration) {
		if *p == 0 {
			*p = def
		}
	}
	integer(&c.Servers, 3)
	integer(&c.Sentinels, 3)
	integer(&c.Quorum, c.Sentinels/2+1)
	integer(&c.ParallelSyncs, 100)
	if c.Name == "" {
		c.Name = "main"
	}
	duration(&c.DownAfter, time.Second)
	duration(&c.FailoverTimeout, 2*time.Second)
	duration(&c.PingPeriod, time.Second)
	duration(&c.InfoPeriod, 10*time.Second)
	duration(&c.AskPeriod, time.Second)
	duration(&c.PublishPeriod, 2*time.Second)
	duration(&c.TiltAfter, 2*time.Second)
	duration(&c.SyncDelay, 5*time.Second)
	duration(&c.SyncTime, time.Second)
	duration(&c.ReplTimeout, time.Minute)
	duration(&c.Latency, 100*time.Microsecond)
	duration(&c.CommandTime, 700*time.Millisecond)
}

// Now returns how long the world has existed.
func (w *World) Now() time.Duration { return time.Since(w.start) }

// Stop ends the world. Commands that wait fail when their time is over.
func (w *World) Stop() {
	defer w.enter()()
	w.stopped, w.events = true, nil
}

// enter locks the world and runs the events that are due. Its result is to be called at the end:
// it sets the timer for the next event and unlocks.
func (w *World) enter() (leave func()) {
	w.mu.Lock()
	w.run(longAgo + time.Since(w.start))
	return w.leave
}

// leave sets the timer. Events among the nodes only matter when a process waits for a reply. So
// while none does there is no timer, and many events are run at once later, each at its own time.
func (w *World) leave() {
	defer w.mu.Unlock()
	if w.waiting == 0 || len(w.events) == 0 || w.stopped {
		return
	}
	in := w.events[0].at - longAgo - time.Since(w.start)
	if w.timer == nil {
		w.timer = time.AfterFunc(in, func() { w.enter()() })
		return
	}
	w.timer.Reset(in)
}

// run runs the events up to a time.
func (w *World) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = max(w.now, until)
}

// at runs do at a time, or now if that is over.
func (w *World) at(at time.Duration, do func()) {
	if w.stopped {
		return
	}
	w.order++
	heap.Push(&w.events, event{max(at, w.now), w.order, do})
}

func (w *World) log(format string, args ...any) {
	if w.cfg.Log != nil {
		w.cfg.Log(fmt.Sprintf("%9.4fs ", (w.now-longAgo).Seconds()) + fmt.Sprintf(format, args...))
	}
}

// event is a function that runs at a time. Events of the same time keep the order in which they
// were added.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
