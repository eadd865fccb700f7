package redis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/internal/limited"
)

// Commands of one process to one server share round trips, so that they share the system calls on
// both sides, and the server the write to its disk (appendfsync always). A command that finds nothing
// under way goes at once, alone, on its own goroutine, unless other goroutines that could run send
// something first: where the processor is the bound, commands would hardly ever meet otherwise. What
// arrives while flights are out waits for the next one, in order of arrival.

// job is what one caller sends: commands that follow each other on one connection.
type job struct {
	ctx    context.Context
	server *goredis.Client
	cmds   []goredis.Cmder
	// need and named are those of a confirmation, which the jobs of a flight share. A WAIT counts
	// replicas that have all that was written on its connection, so it is true for each of them.
	need  int
	named []string

	confirmed *confirmation // made by the flight
	done      chan struct{} // closed when the flight is over; nil for a job that never waited
}

// alike reports whether two jobs may be in one flight.
func (j *job) alike(k *job) bool {
	return j.server == k.server && j.need == k.need && slices.Equal(j.named, k.named)
}

// size estimates the bytes of a job on the way there, and a little for the way back.
func (j *job) size() (n int) {
	for _, cmd := range j.cmds {
		n += 64
		for _, arg := range cmd.Args() {
			switch arg := arg.(type) {
			case string:
				n += len(arg)
			case []byte:
				n += len(arg)
			}
		}
	}
	return n
}

const (
	// flightBytes and flightJobs bound a flight. Redis reads so many bytes of a connection in one
	// turn, and a larger job goes alone: it is no reason for small ones to wait.
	flightBytes = 16 << 10
	flightJobs  = 64
)

// lane is the flights of one kind to one server.
type lane struct {
	most int // how many may be out at a time
	// patience is how long the last flight may be out until another one may begin although so many are:
	// they may hang in a connection that is lost, or the way is long.
	patience time.Duration
	flights  *atomic.Int64 // counts those of all lanes

	mu      sync.Mutex
	waiting []*job
	out     int
	// boarding means that a flight has begun and not left: what arrives comes along.
	boarding bool
	last     time.Time   // when the last flight began
	late     *time.Timer // calls relieve, nil before it is needed
	awaited  bool        // late will do so

	timers limited.Timers
}

// lanes are those of one server: writes that replicas have to confirm are out for longer, so that
// everything else does not stand behind them.
type lanes struct{ prompt, confirmed lane }

// The flights that may be out to one server at a time, and after what time others begin.
const (
	promptFlights     = 1
	promptPatience    = 4 * time.Millisecond
	confirmedFlights  = 4
	confirmedPatience = 100 * time.Millisecond
	// lateFlights may be out at most.
	lateFlights = 8
)

// share sends a job to its server. The error is why the outcome of its commands is not known, and
// then they must not be touched: they may be on their way. Otherwise each has its own outcome.
func (b *backend) share(ctx context.Context, j *job) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	if j.ctx = ctx; b.unshared || j.size() > flightBytes {
		b.flights.Add(1)
		fly(ctx, []*job{j})
		return nil
	}
	lanes := b.lanesTo(j.server.Options().Addr)
	if j.need > 0 {
		return lanes.confirmed.send(j)
	}
	return lanes.prompt.send(j)
}

// lanesTo returns the lanes to the server at an address.
func (b *backend) lanesTo(addr string) *lanes {
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	if b.lanes[addr] == nil {
		if b.lanes == nil {
			b.lanes = map[string]*lanes{}
		}
		b.lanes[addr] = &lanes{
			prompt:    lane{most: promptFlights, patience: promptPatience, flights: &b.flights},
			confirmed: lane{most: confirmedFlights, patience: confirmedPatience, flights: &b.flights},
		}
	}
	return b.lanes[addr]
}

// send has a job flown, by itself or with others.
func (l *lane) send(j *job) error {
	if l.opens(j) {
		runtime.Gosched() // who is about to send something too comes along; without them this takes no time
		if l.closes(j) {
			defer l.land()
			fly(j.ctx, []*job{j})
			return nil
		}
	}
	_, why := limited.Wait(j.ctx, &l.timers, j.done)
	if why != nil && l.leave(j) {
		return certain(why)
	}
	return why
}

// opens begins a flight with a job, if one may begin and nobody waits. Otherwise the job waits too.
func (l *lane) opens(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 && l.free() {
		l.boarding = true
		l.begin()
		return true
	}
	j.done = make(chan struct{})
	l.waiting = append(l.waiting, j)
	l.launch()
	return false
}

// launch begins flights for those that wait, as many as may be, and has relieve look after the others.
func (l *lane) launch() {
	for len(l.waiting) > 0 && l.free() {
		l.begin()
		go l.fly(l.take())
	}
	if len(l.waiting) > 0 {
		l.lookLater()
	}
}

// free reports whether a flight may begin.
func (l *lane) free() bool {
	return !l.boarding && (l.out < l.most || l.out < lateFlights && time.Since(l.last) >= l.patience)
}

// lookLater has relieve called when the last flight is late, if it is still out then.
func (l *lane) lookLater() {
	if l.awaited {
		return
	}
	l.awaited = true
	in := l.patience - time.Since(l.last)
	if in <= 0 { // as many are out as may be
		in = l.patience
	}
	if l.late == nil {
		l.late = time.AfterFunc(in, l.relieve)
	} else {
		l.late.Reset(in)
	}
}

// relieve begins another flight for those that wait behind late ones.
func (l *lane) relieve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited = false
	l.launch()
}

// closes reports whether a flight carries only the job that began it, which then goes on the goroutine
// of its caller. Otherwise the flight leaves with those that came.
func (l *lane) closes(j *job) (alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boarding = false
	if len(l.waiting) == 0 {
		return true
	}
	j.done = make(chan struct{})
	l.waiting = slices.Insert(l.waiting, 0, j)
	go l.fly(l.take())
	l.launch() // those that may not fly with it
	return false
}

func (l *lane) begin() {
	l.flights.Add(1)
	l.out++
	l.last = time.Now()
}

// leave takes a job out of those that wait, if it has not taken off.
func (l *lane) leave(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, j)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// land ends a flight, and begins the next one with those that wait.
func (l *lane) land() {
	if next := l.next(); len(next) > 0 {
		go l.fly(next)
	}
}

// fly flies jobs, and after them those that have arrived meanwhile.
func (l *lane) fly(jobs []*job) {
	for len(jobs) > 0 {
		flyTogether(jobs)
		runtime.Gosched()
		jobs = l.next()
	}
}

// next returns the jobs of the flight after one that is over, none if there is no other.
func (l *lane) next() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := l.take()
	l.out--
	if len(jobs) > 0 {
		l.begin()
	}
	return jobs
}

// take takes the first of those that wait, and those behind it that may fly with it.
func (l *lane) take() (jobs []*job) {
	bytes := 0
	for _, j := range l.waiting {
		bytes += j.size()
		if len(jobs) > 0 && (bytes > flightBytes || len(jobs) == flightJobs || !j.alike(jobs[0])) {
			break
		}
		jobs = append(jobs, j)
	}
	l.waiting = slices.Delete(l.waiting, 0, len(jobs))
	return jobs
}

// flyTogether flies jobs whose callers wait. It lasts as long as the caller with the most time.
func flyTogether(jobs []*job) {
	ctx := context.Background()
	if end, limited := lastDeadline(jobs); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	fly(ctx, jobs)
	for _, j := range jobs {
		close(j.done)
	}
}

// lastDeadline returns the latest deadline of the callers, if each has one.
func lastDeadline(jobs []*job) (end time.Time, limited bool) {
	for _, j := range jobs {
		deadline, limited := j.ctx.Deadline()
		if !limited {
			return time.Time{}, false
		}
		if deadline.After(end) {
			end = deadline
		}
	}
	return end, true
}

// fly sends jobs in one round trip.
func fly(ctx context.Context, jobs []*job) {
	first := jobs[0]
	cmds := first.cmds
	for _, j := range jobs[1:] {
		cmds = append(cmds, j.cmds...)
	}
	confirmed := newConfirmation(ctx, first.need, first.named)
	cmds = append(cmds, confirmed.commands()...)
	for _, j := range jobs {
		j.confirmed = confirmed
	}
	if len(cmds) == 1 {
		_ = first.server.Process(ctx, cmds[0])
		return
	}
	together(ctx, first.server, cmds...)
}
