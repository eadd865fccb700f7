package redis

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/limited"
)

// lane is the flights of one kind to one server.
type lane struct {
	most int // how many may be out at a time, without those that are late
	// patience is how long a flight may be out until it is late, and others begin beside it: it may hang in a
	// connection that is lost, or the way is long. They begin when another job arrives, or after lookAfter
	// without one.
	patience time.Duration
	flights  *atomic.Int64 // counts those of all lanes

	mu      sync.Mutex
	waiting []*job
	out     []time.Time // when the flights that are out began
	// boarding means that a flight has begun and not left: what arrives comes along.
	boarding bool
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
	// lookAfter is how long jobs may have waited until they are looked after without an arrival. Something
	// waits at most times where much is to be done, so the timer for it comes to its end each time, which
	// wakes the process for nothing: several processes on one processor feel it.
	lookAfter = 25 * time.Millisecond
)

// send has a job flown, by itself or with others.
func (l *lane) send(j *job) error {
	if begun, opens := l.opens(j); opens {
		runtime.Gosched() // who is about to send something too comes along; without them this takes no time
		if l.closes(j, begun) {
			defer l.land(begun)
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
func (l *lane) opens(j *job) (begun time.Time, opens bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 && l.free() {
		l.boarding = true
		return l.begin(), true
	}
	j.done = make(chan struct{})
	l.waiting = append(l.waiting, j)
	l.launch()
	return begun, false
}

// launch begins flights for those that wait, as many as may be, and has relieve look after the others.
func (l *lane) launch() {
	for len(l.waiting) > 0 && l.free() {
		go l.fly(l.take(), l.begin())
	}
	if len(l.waiting) > 0 {
		l.lookLater()
	}
}

// free reports whether a flight may begin.
func (l *lane) free() bool {
	if l.boarding || len(l.out) >= max(l.most, lateFlights) {
		return false
	}
	inTime := 0
	for _, begun := range l.out {
		if time.Since(begun) < l.patience {
			inTime++
		}
	}
	return inTime < l.most
}

// lookLater has relieve called after a while.
func (l *lane) lookLater() {
	if l.awaited {
		return
	}
	l.awaited = true
	in := max(l.patience, lookAfter)
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
func (l *lane) closes(j *job, begun time.Time) (alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boarding = false
	if len(l.waiting) == 0 {
		return true
	}
	j.done = make(chan struct{})
	l.waiting = slices.Insert(l.waiting, 0, j)
	go l.fly(l.take(), begun)
	l.launch() // those that may not fly with it
	return false
}

// begin notes a flight and returns when it began, by which its end is noted.
func (l *lane) begin() (begun time.Time) {
	l.flights.Add(1)
	begun = time.Now()
	l.out = append(l.out, begun)
	return begun
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

// land ends the flight that began at a time, and begins the next one with those that wait.
func (l *lane) land(begun time.Time) {
	if next, begun := l.next(begun); len(next) > 0 {
		go l.fly(next, begun)
	}
}

// fly flies jobs, and after them those that have arrived meanwhile.
func (l *lane) fly(jobs []*job, begun time.Time) {
	for len(jobs) > 0 {
		flyTogether(jobs)
		runtime.Gosched()
		jobs, begun = l.next(begun)
	}
}

// next ends a flight and returns the jobs of the one after it, none if there is no other: nobody waits, or
// those that do go with another one that is out. So what began because a flight was late ends with it.
func (l *lane) next(over time.Time) (jobs []*job, begun time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.out, over)
	l.out = slices.Delete(l.out, i, i+1)
	if len(l.waiting) > 0 && l.free() {
		jobs, begun = l.take(), l.begin()
	}
	return jobs, begun
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
