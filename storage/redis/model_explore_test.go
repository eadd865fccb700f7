package redis

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/internal/sim"
)

var (
	modelTime = flag.Duration("model.time", 0, "how long TestModelExplores explores schedules; 0 is a hundred of them")
	modelSeed = flag.Uint64("model.seed", 1, "where TestModelExplores begins")
)

// TestModelExplores breaks worlds of two and three servers by every fault of a grid, by every
// sequence of two, and by random faults, a hundred times or for the time of a flag. A schedule
// that breaks a promise is shortened as far as possible and printed, to become a test.
func TestModelExplores(t *testing.T) {
	skipRaced(t)
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a run allocates much and keeps nothing
	e := &exploration{t: t, began: time.Now(), rnd: rand.New(rand.NewPCG(*modelSeed, 0))}
	for m := range e.models() {
		if !e.try(m) {
			break
		}
	}
	t.Logf("%d schedules with %d faults, %d operations answered and %d refused; everything worked %v after the last fault at the latest",
		e.schedules, e.faults, e.answered, e.refused, e.slowest.Round(100*time.Millisecond))
	t.Logf("the slowest recovery: %s", e.worst)
}

type exploration struct {
	t     *testing.T
	rnd   *rand.Rand
	began time.Time

	schedules, faults, answered, refused int
	slowest                              time.Duration
	worst                                model
	found                                int
}

// fewSchedules is a fixed number, so that every machine explores the same ones.
const fewSchedules = 100

// over reports whether the exploration has ended.
func (e *exploration) over() bool {
	if *modelTime == 0 && e.schedules >= fewSchedules || e.found >= mostFound {
		return true
	}
	return *modelTime != 0 && time.Since(e.began) > *modelTime
}

// mostFound is the number of findings after which an exploration ends.
const mostFound = 5

// try runs a model, and reports whether to go on.
func (e *exploration) try(m model) bool {
	if e.over() {
		return false
	}
	m.shared = e.schedules%2 == 1
	o := m.run(e.t)
	e.schedules, e.faults = e.schedules+1, e.faults+len(m.schedule)
	e.answered, e.refused = e.answered+o.answered, e.refused+o.refused
	if o.recovered > e.slowest {
		e.slowest, e.worst = o.recovered, m
	}
	if len(o.violations) > 0 {
		e.found++
		m, o = m.shrink(e.t, o)
		e.t.Errorf("%s\nbreaks %s", m, strings.Join(o.violations, "\n"))
	}
	return true
}

// models yields the models to explore, without end: every single fault of the grid and every
// sequence of two, each in a random order, and random faults in turn with them.
func (e *exploration) models() func(func(model) bool) {
	return func(yield func(model) bool) {
		singles, pairs := e.permutation(singles()), e.permutation(pairs())
		for {
			for _, next := range []func() (model, bool){singles, pairs, e.anything} {
				if m, ok := next(); ok && !yield(m) {
					return
				}
			}
		}
	}
}

// permutation returns a function that draws each of n models once.
func (e *exploration) permutation(n int, at func(i int) model) func() (model, bool) {
	next, step, left := e.rnd.IntN(n), 1+e.rnd.IntN(n), n
	for gcd(step, n) != 1 {
		step++
	}
	return func() (model, bool) {
		if left == 0 {
			return model{}, false
		}
		if left--; left == 0 {
			e.t.Logf("all %d models of one kind have been tried", n)
		}
		next = (next + step) % n
		m := at(next)
		m.seed, m.hasty = e.rnd.Uint64(), e.rnd.IntN(2) == 0
		return m, true
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// singles returns all schedules of one fault of the grid.
func singles() (n int, at func(int) model) {
	two, three := grid(2), grid(3)
	return len(two) + len(three), func(i int) model {
		if i < len(two) {
			return model{servers: 2, schedule: sim.Schedule{two[i]}}
		}
		return model{servers: 3, schedule: sim.Schedule{three[i-len(two)]}}
	}
}

// pairs returns all schedules of two faults of the grid, with the second one beginning at one of
// starts.
func pairs() (n int, at func(int) model) {
	two, three := grid(2), grid(3)
	pair := func(all []sim.Fault, i int) sim.Schedule {
		second := all[i/len(starts)/len(all)]
		second.At = starts[i%len(starts)]
		return sim.Schedule{all[i/len(starts)%len(all)], second}
	}
	ofTwo := len(two) * len(two) * len(starts)
	return ofTwo + len(three)*len(three)*len(starts), func(i int) model {
		if i < ofTwo {
			return model{servers: 2, schedule: pair(two, i)}
		}
		return model{servers: 3, schedule: pair(three, i-ofTwo)}
	}
}

// starts are the delays of the second fault of a pair.
var starts = []time.Duration{
	400 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 4 * time.Second,
	5 * time.Second, 6 * time.Second, 8 * time.Second, 10 * time.Second, 13 * time.Second, 17 * time.Second,
}

// grid returns every single fault with coarse times.
func grid(servers int) (faults []sim.Fault) {
	add := func(what sim.What, nodes string, seconds ...float64) {
		for _, s := range seconds {
			faults = append(faults, sim.Fault{What: what, Nodes: strings.Split(nodes, ","), For: time.Duration(s * float64(time.Second))})
		}
	}
	for i := range servers {
		name := string(rune('A' + i))
		add(sim.Stall, name, 0.8, 1.6, 2, 2.6, 3.4, 5, 9, 14)
		add(sim.Crash, name, 0.5, 2, 5, 10)
		for _, side := range []string{"", ",S1", ",P1", ",S1,P1", ",S1,S2", ",S1,S2,P1"} {
			add(sim.Cut, name+side, 2, 5, 9)
		}
	}
	add(sim.Cut, "P1", 2, 6)
	add(sim.Cut, "S1", 3, 8)
	add(sim.Cut, "S1,P1", 3, 8)
	add(sim.Stall, "P1", 1.5, 4)
	add(sim.Stall, "S1", 1.5, 4)
	add(sim.Crash, "S1", 1, 6)
	return faults
}

// anything draws up to six faults at any times.
func (e *exploration) anything() (model, bool) {
	m := model{servers: 2 + e.rnd.IntN(2), seed: e.rnd.Uint64(), hasty: e.rnd.IntN(2) == 0}
	for range 2 + e.rnd.IntN(5) {
		m.schedule = append(m.schedule, e.fault(m.servers))
	}
	m.schedule.Sort()
	return m, true
}

// fault draws a fault.
func (e *exploration) fault(servers int) sim.Fault {
	nodes := []string{"S1", "S2", "S3", "P1", "P2"}
	for i := range servers {
		name := string(rune('A' + i))
		nodes = append(nodes, name, name, name) // faults of servers matter most
	}
	f := sim.Fault{
		What:  []sim.What{sim.Stall, sim.Stall, sim.Crash, sim.Cut}[e.rnd.IntN(4)],
		At:    time.Duration(e.rnd.IntN(200)) * 100 * time.Millisecond,
		For:   time.Duration(3+e.rnd.IntN(4<<e.rnd.IntN(6))) * 100 * time.Millisecond,
		Nodes: []string{nodes[e.rnd.IntN(len(nodes))]},
	}
	for f.What == sim.Cut && e.rnd.IntN(3) > 0 {
		if n := nodes[e.rnd.IntN(len(nodes))]; !slices.Contains(f.Nodes, n) {
			f.Nodes = append(f.Nodes, n)
		}
	}
	if f.What == sim.Crash && f.Nodes[0][0] == 'P' {
		f.What = sim.Stall // a process that restarts has the least state
	}
	return f
}

// shrink shortens a schedule that broke a promise as long as it breaks one of the same kind.
func (m model) shrink(t *testing.T, o outcome) (model, outcome) {
	promise, _, _ := strings.Cut(o.violations[0], ":")
	for changed := true; changed; {
		changed = false
		for smaller := range m.smaller() {
			if now := smaller.run(t); now.broke(promise) {
				m, o, changed = smaller, now, true
				break
			}
		}
	}
	return m, o
}

// smaller yields slightly simpler models.
func (m model) smaller() func(func(model) bool) {
	return func(yield func(model) bool) {
		for i := range m.schedule {
			if !yield(m.with(slices.Delete(slices.Clone(m.schedule), i, i+1))) {
				return
			}
		}
		for i, f := range m.schedule {
			for _, change := range simpler(f) {
				s := slices.Clone(m.schedule)
				s[i] = change
				s.Sort()
				if !yield(m.with(s)) {
					return
				}
			}
		}
	}
}

func (m model) with(s sim.Schedule) model {
	m.schedule = s
	return m
}

// simpler returns faults that are shorter, rounder, or about fewer nodes.
func simpler(f sim.Fault) (all []sim.Fault) {
	for i := range f.Nodes {
		if len(f.Nodes) > 1 {
			g := f
			g.Nodes = slices.Delete(slices.Clone(f.Nodes), i, i+1)
			all = append(all, g)
		}
	}
	for _, unit := range []time.Duration{4 * time.Second, time.Second, 500 * time.Millisecond} {
		if g := f; f.For.Truncate(unit) > 0 && f.For.Truncate(unit) < f.For {
			g.For = f.For.Truncate(unit)
			all = append(all, g)
		}
		if g := f; f.At.Truncate(unit) < f.At {
			g.At = f.At.Truncate(unit)
			all = append(all, g)
		}
	}
	return all
}

// String returns the flags that run the model again.
func (m model) String() string {
	hasty := ""
	if m.hasty {
		hasty = ", hasty"
	}
	if m.shared {
		hasty += ", shared"
	}
	return fmt.Sprintf("seed %d, %d servers%s:\n%s", m.seed, m.servers, hasty, m.schedule)
}

var (
	modelSchedule = flag.String("model.schedule", "", "a schedule that TestModelRuns runs, from the seed -model.seed, with everything that happens in the log; faults are separated by ;")
	modelHasty    = flag.Bool("model.hasty", false, "whether the sentinels of TestModelRuns ask often")
	modelShared   = flag.Bool("model.shared", false, "whether commands share flights in TestModelRuns")
	modelServers  = flag.Int("model.servers", 3, "how many servers TestModelRuns has")
)

// TestModelRepeats: the same seed and schedule give the same run, so that a finding can be
// examined.
func TestModelRepeats(t *testing.T) {
	skipRaced(t)
	runs := make([][]string, 2)
	for i := range runs {
		m := model{servers: 3, seed: 5, schedule: schedule(t, "at 0s stall A for 4s\nat 6s cut B,S1,P2 for 3s")}
		var mu sync.Mutex
		m.log = func(line string) {
			mu.Lock()
			defer mu.Unlock()
			runs[i] = append(runs[i], line)
		}
		m.run(t)
		slices.Sort(runs[i]) // events of the same time may come in any order
	}
	for i, line := range runs[0] {
		if i >= len(runs[1]) || line != runs[1][i] {
			t.Fatalf("line %d differs:\n%s\n%s", i, line, runs[1][min(i, len(runs[1])-1)])
		}
	}
}

// TestModelRuns runs the schedule in a flag and logs all events.
func TestModelRuns(t *testing.T) {
	if *modelSchedule == "" {
		t.Skip("no -model.schedule")
	}
	m := model{servers: *modelServers, seed: *modelSeed, hasty: *modelHasty, shared: *modelShared, log: func(line string) { fmt.Println(line) }}
	m.schedule = schedule(t, strings.ReplaceAll(*modelSchedule, ";", "\n"))
	o := m.run(t)
	if len(o.violations) > 0 {
		t.Errorf("%s\nbreaks %s", m, strings.Join(o.violations, "\n"))
	}
}
