package redis

import (
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/internal/failover"
	"gatehouse.example/storage/redis/internal/sim"
)

// schedule parses a schedule.
func schedule(t *testing.T, text string) sim.Schedule {
	t.Helper()
	s, err := sim.ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// known is a schedule that once broke a promise.
type known struct {
	name     string
	servers  int
	schedule string
	hasty    bool
	seed     uint64 // the first seed to try
	// without is the protection that the schedule tests: without it, the promise is broken from
	// some of the seeds.
	without failover.Protections
	promise string
	silence time.Duration // the time in which no write may be acknowledged, if the schedule is about that
}

var (
	withoutTrust    = failover.Protections{Trust: true}
	withoutLease    = failover.Protections{Lease: true}
	withoutRelease  = failover.Protections{Release: true}
	withoutRestarts = failover.Protections{Restarts: true}
	withoutAll      = failover.Protections{Trust: true, Lease: true, ConfirmAll: true}
)

var knownSchedules = []known{
	// A stalls, B takes over and serves alone; A comes back and is promoted with its old data.
	{name: "flap", servers: 2, schedule: "at 0s stall A for 9s\nat 11s stall B for 6s", without: withoutTrust, promise: "lost"},
	{name: "flap of a crash", servers: 2, schedule: "at 0s crash A for 9s\nat 11s stall B for 6s", without: withoutTrust, promise: "revoked"},
	{name: "filling", servers: 2, schedule: "at 0s cut A,P1 for 9s\nat 12s stall B for 8s", without: withoutTrust, promise: "lost"},
	// A wakes while it is replaced.
	{name: "doze", servers: 3, schedule: "at 0s stall A for 1.8s", without: withoutAll, promise: "lost"},
	{name: "minority", servers: 3, schedule: "at 0s cut A,S1,P1 for 8s", without: withoutLease, promise: "revoked"},
	{name: "hanging replica", servers: 3, schedule: "at 0s stall B for 20s", silence: 3 * time.Second},
	{name: "last replica hangs", servers: 2, schedule: "at 0s stall B for 20s", silence: 6 * time.Second},
	// B is promoted while it is filled, and A and C have the writes acknowledged meanwhile.
	{name: "filled by a minority", servers: 3, schedule: "at 0s crash B for 500ms\nat 6s cut B,S1,S2 for 4s", without: withoutTrust, promise: "lost"},
	// A goes on alone, and a process that did not see that finds B, which was left behind.
	{name: "left behind", servers: 2, schedule: "at 0s cut B,P1 for 8s\nat 8s cut A for 4s", without: withoutTrust, promise: "lost"},
	// C lags and is not waited for, then it is promoted.
	{name: "lagging", servers: 3, schedule: "at 0s cut C for 2s\nat 3s cut C,S1,S2 for 8s", without: withoutTrust, promise: "lost"},
	{name: "returned beside another", servers: 3, schedule: "at 5s cut A,C for 6s\nat 12s cut B for 1.5s", without: withoutTrust, promise: "honest"},
	// C is promoted while it waits to be filled; A comes back with everything, and with a history
	// of its own.
	{name: "one after the other", servers: 3, schedule: "at 5.9s crash C for 1s\nat 8s crash B for 3s\nat 12s crash A for 4s", without: withoutTrust, promise: "honest"},
	{name: "two at once", servers: 3, schedule: "at 0s crash C for 1s\nat 4s cut B for 12s\nat 4s crash A for 2s", without: withoutTrust, promise: "honest"},
	// C is replaced by B, and B by A, which has been away: the sentinels have C and B, who have
	// more, follow A.
	{name: "told to follow", servers: 3, schedule: "at 7.8s crash A for 3s\nat 12.4s cut B for 2s", seed: 18248384712749132003, without: withoutRelease, promise: "lost"},
	{name: "told to follow at once", servers: 3, schedule: "at 6s cut B,C for 11s\nat 9s crash A for 6s\nat 19.6s crash A for 2s", seed: 721390705107315873, without: withoutRelease, promise: "revoked"},
	{name: "told to follow by an election", servers: 3, schedule: "at 6.6s crash A for 1.2s\nat 9.5s stall S2 for 1.5s\nat 15s stall B for 4s", seed: 10958322150244561842},
	// A restarts, and with it B, while C sleeps with the order to become a primary.
	{name: "restarted without a replica", servers: 3, hasty: true, schedule: "at 11s crash A for 2s\nat 12s stall C for 4s\nat 15s stall A for 2s", seed: 17679495575372989276, without: withoutRestarts, promise: "honest"},
	// C, which was not waited for, confirms in place of B, which was, and is promoted.
	{name: "confirmed by another", servers: 3, hasty: true, schedule: "at 0s cut C for 2s\nat 2s cut B,S1,S2,P1 for 5s"},
}

// limits are schedules that break a promise: docs/operations.md, "What is not promised".
var limits = []known{
	// B goes on alone; then the only sentinel that has no news of that is the only one that reaches
	// B, and has it follow A. No other copy is left, and no process was asked.
	{name: "forgotten by a sentinel", servers: 3, hasty: true, schedule: "at 0s cut B,S1,S2,P1 for 8s\nat 8s cut S1,S2 for 4s"},
}

func (k known) model(t *testing.T, seed uint64) model {
	t.Helper()
	return model{servers: k.servers, hasty: k.hasty, seed: k.seed + seed, schedule: schedule(t, k.schedule)}
}

// seeds is how many seeds of each known schedule are tried.
const seeds = 4

// TestModelKeepsPromises: the schedules that once broke a promise break none.
func TestModelKeepsPromises(t *testing.T) {
	skipRaced(t)
	for _, k := range knownSchedules {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				m := k.model(t, seed)
				o := m.run(t)
				if len(o.violations) > 0 {
					t.Errorf("%s\nbreaks %s", m, strings.Join(o.violations, "\n"))
				}
				if k.silence > 0 && o.silence > k.silence {
					t.Errorf("%s\nno write is acknowledged for %v", m, o.silence)
				}
			}
		})
	}
}

// TestModelKnowsItsLimits: each schedule of limits still breaks a promise from some of the seeds. If
// one does not any more, it belongs to the known schedules, and the page promises too little.
func TestModelKnowsItsLimits(t *testing.T) {
	skipRaced(t)
	for _, k := range limits {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				if o := k.model(t, seed).run(t); len(o.violations) > 0 {
					return
				}
			}
			t.Error("no promise is broken")
		})
	}
}

// TestModelFindsWhatIsMissing: each of these schedules breaks the promise that it broke before
// when the protection that it tests is switched off.
func TestModelFindsWhatIsMissing(t *testing.T) {
	skipRaced(t)
	for _, k := range knownSchedules {
		if k.promise == "" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8 * seeds) {
				m := k.model(t, seed)
				m.off = k.without
				if o := m.run(t); o.broke(k.promise) {
					return
				}
			}
			t.Errorf("without %+v, nothing that is %q is found", k.without, k.promise)
		})
	}
}

// TestModelFindsDoubleCodes: a code gives tokens twice when neither trust nor the fence keeps a
// server that lacks the first redemption from answering.
func TestModelFindsDoubleCodes(t *testing.T) {
	skipRaced(t)
	for seed := range uint64(8 * seeds) {
		m := model{servers: 2, seed: seed, schedule: schedule(t, "at 0s crash A for 9s\nat 11s stall B for 6s"), off: withoutAll}
		if o := m.run(t); o.broke("twice") {
			t.Fatalf("with the fence, %s\nbreaks %s", m, strings.Join(o.violations, "\n"))
		}
		m.unfenced = true
		if o := m.run(t); o.broke("twice") {
			t.Logf("without it, %s\nbreaks %s", m, strings.Join(o.violations, "\n"))
			return
		}
	}
	t.Error("no code gave tokens twice")
}
