package redis

import (
	"context"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Commands of one process to one server share round trips, so that they share the system calls on
// both sides, and the server the write to its disk (appendfsync always). A command that finds nothing
// under way goes at once, alone, on its own goroutine, unless other goroutines that could run send
// something first: where the processor is the bound, commands would hardly ever meet otherwise. What
// arrives while a flight is out waits for the next one, in order of arrival (lane.go).

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
