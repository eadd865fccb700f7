//go:build e2e

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// flap is two short faults, one after the other: the primary of a pair is lost and the other
// server answers alone; then the first one is back, and the second one is lost for a moment.
// Sentinel promotes the first one, which lacks the writes in between.
type flap struct {
	name          string
	first, second absence
	// meanwhile runs between the return of the first one and the loss of the second one. The
	// first one must still lack writes then.
	meanwhile func(s *succession, first, second *redistest.Server)
}

// absence is a way to lose a server for a moment, and its return.
type absence struct{ strike, back func(*redistest.Server) }

var (
	stall = absence{(*redistest.Server).Pause, (*redistest.Server).Resume}
	crash = absence{(*redistest.Server).Kill, (*redistest.Server).Restart}
)

// flapWorkers is the number of workers while servers flap. It leaves time for the requests that
// check the promises.
const flapWorkers = 4

// TestPrimaryFlaps: the first primary stalls, and so does the one that took over from it, just
// when the first one is back. Sentinel promotes the first one before it has been filled. The
// writes acknowledged in between are not lost.
func TestPrimaryFlaps(t *testing.T) {
	t.Parallel()
	flaps(t, 1, flap{name: "stalled twice", first: stall, second: stall, meanwhile: atOnce})
}

// TestPrimaryFlapsAmongThree: the same with another replica, which follows the second primary and
// is lost with it. When both are back, one of them is a primary and the other one is not, and
// Sentinel has no reason to prefer the one with all writes.
func TestPrimaryFlapsAmongThree(t *testing.T) {
	t.Parallel()
	all := []flap{{name: "two of three stalled", first: stall, second: stall, meanwhile: atOnce}}
	if *long {
		all = append(all, flap{name: "two of three killed", first: crash, second: crash, meanwhile: atOnce})
	}
	flaps(t, 2, all...)
}

// TestPrimaryCrashesTwice: the same with servers that are killed, and come back with all their
// data.
func TestPrimaryCrashesTwice(t *testing.T) {
	t.Parallel()
	flaps(t, 1,
		flap{name: "killed twice", first: crash, second: crash, meanwhile: atOnce},
		flap{name: "stalled, then the other one killed", first: stall, second: crash, meanwhile: atOnce},
		flap{name: "killed, then the other one stalled", first: crash, second: stall, meanwhile: atOnce},
	)
}

// TestPrimaryStallsWhileFilling: the first primary is a replica again, but the missing writes
// have not arrived when the second one stalls.
func TestPrimaryStallsWhileFilling(t *testing.T) {
	t.Parallel()
	flaps(t, 1,
		flap{name: "before the first byte", first: stall, second: stall, meanwhile: waitsToBeFilled},
		flap{name: "in the middle", first: stall, second: stall, meanwhile: isFilled},
	)
}

// flaps repeats rounds until Sentinel has promoted the wrong server often enough.
func flaps(t *testing.T, replicas int, all ...flap) {
	s := newSuccessionOf(t, cast{replicas: replicas, workers: flapWorkers, downAfter: time.Second, hesitant: true})
	struck, tried, wanted := 0, 0, amount(1, 21)
	first := s.random.IntN(len(all))
	for struck < wanted && tried < 3*wanted && !t.Failed() {
		if s.flap(all[(first+struck)%len(all)]) {
			struck++
		}
		tried++
	}
	t.Logf("%d rounds: Sentinel promoted the wrong server in %d; everything worked at most %s after the last fault; answers %v",
		tried, struck, s.longest.Round(time.Millisecond), s.answers)
	if struck < wanted && !t.Failed() {
		t.Errorf("Sentinel promoted the wrong server in %d of %d rounds, which shows too little", struck, tried)
	}
}

// flap is one round. It reports whether Sentinel promoted the wrong server.
func (s *succession) flap(f flap) (struck bool) {
	s.t.Helper()
	begun := time.Now()
	s.begin()
	rest := s.work()
	s.ripen()
	p := s.pledge()
	s.more(60)
	first := s.primary
	s.lose(func() { f.first.strike(first) })
	s.succeed(first)
	s.more(40)
	if s.recoversAlone(); s.t.Failed() {
		return false
	}
	p.keep()
	enough := p.watch()
	f.first.back(first)
	f.meanwhile(s, first, s.primary)
	for _, r := range s.others(first) {
		f.second.strike(r)
	}
	struck = s.outlast(s.primary, s.shortly())
	for _, r := range s.others(first) {
		f.second.back(r)
		s.configure(r, fillsAtOnce...)
	}
	s.reunites()
	enough()
	p.mustBeKept()
	rest()
	s.settle(fmt.Sprintf("%s, the wrong server promoted %t", f.name, struck), begun)
	return struck
}

// shortly returns how long a server is lost for a moment: three to eleven seconds.
func (s *succession) shortly() time.Duration {
	most := time.Duration(amount(1, 8)) * time.Second
	return 3*time.Second + time.Duration(s.random.Int64N(int64(most)))
}

// others returns all servers but one.
func (s *succession) others(than *redistest.Server) []*redistest.Server {
	return slices.DeleteFunc(append([]*redistest.Server{s.primary}, s.replicas...), func(r *redistest.Server) bool { return r == than })
}

// recoversAlone expects that the server that took over answers. From then on no primary is named
// until all faults are over.
func (s *succession) recoversAlone() {
	s.t.Helper()
	longest := s.longest
	s.recovers()
	s.longest = longest // that is about another fault
	s.unname()
}

// unname allows again that codes are from before a takeover.
func (s *succession) unname() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = time.Time{}
}

// outlast lets all workers run until Sentinel names another primary than the lost one, and for at
// least as long as least. It reports whether Sentinel did.
func (s *succession) outlast(lost *redistest.Server, least time.Duration) (struck bool) {
	s.t.Helper()
	const most = 15 * time.Second
	for began := time.Now(); time.Since(began) < least || !struck && time.Since(began) < most; {
		s.more(4)
		s.pause(200 * time.Millisecond)
		name := s.group.Primary()
		struck = struck || name != "" && name != s.name(lost)
	}
	return struck
}

// reunites expects that everything works soon after the last fault, and that the servers are a
// group again.
func (s *succession) reunites() {
	s.t.Helper()
	s.recoversFrom(time.Now())
	s.group.Settle(len(s.replicas))
	s.mu.Lock()
	s.named = time.Now()
	s.mu.Unlock()
	s.regroup()
}

// regroup asks which server is primary now.
func (s *succession) regroup() {
	s.t.Helper()
	name := s.group.Primary()
	for i, r := range s.replicas {
		if s.name(r) == name {
			s.primary, s.replicas[i] = r, s.primary
		}
	}
	if s.name(s.primary) != name {
		s.t.Fatalf("the sentinels name %q, which is none of the servers", name)
	}
}

// atOnce leaves the server that is back some of the time until the sentinels make it a replica.
func atOnce(s *succession, _, _ *redistest.Server) { s.pause(600 * time.Millisecond) }

// waitsToBeFilled returns when the first server waits for a copy that does not begin.
func waitsToBeFilled(s *succession, first, second *redistest.Server) {
	s.t.Helper()
	s.mustFill(first, second, "0", "repl-diskless-sync-delay", "3600")
}

// isFilled returns when a copy is on its way to the first server, which will take minutes.
func isFilled(s *succession, first, second *redistest.Server) {
	s.t.Helper()
	s.mustFill(first, second, "1", "repl-diskless-sync-delay", "0", "rdb-key-save-delay", "200000")
}

// fillsAtOnce are settings of a server that fills others, as in all these tests.
var fillsAtOnce = []string{"repl-diskless-sync", "no", "repl-diskless-sync-delay", "0", "rdb-key-save-delay", "0"}

// mustFill waits until the sentinels have made the first server a replica, which lacks all writes
// because the second one is slow.
func (s *succession) mustFill(first, second *redistest.Server, transfers string, slow ...string) {
	s.t.Helper()
	s.configure(second, append(slow, "repl-diskless-sync", "yes")...)
	// It has a history of its own now, so that it needs a whole copy.
	_ = first.Client().Set(s.t.Context(), "a history of its own", "", 0).Err()
	eventually(s.t, patience, func() error {
		info := replication(s.t.Context(), first)
		if info["role"] != "slave" || info["master_link_down_since_seconds"] != "-1" || info["master_sync_in_progress"] != transfers {
			return fmt.Errorf("it is not being filled: %v", info)
		}
		return nil
	})
	s.pause(2 * time.Second)
}

// replication returns what a server reports about its replicas or its primary.
func replication(ctx context.Context, r *redistest.Server) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(r.Client().Info(ctx, "replication").Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[name] = value
		}
	}
	return said
}

func (s *succession) configure(r *redistest.Server, pairs ...string) {
	s.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := r.Client().ConfigSet(s.t.Context(), pairs[i], pairs[i+1]).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}
