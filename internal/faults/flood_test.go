//go:build e2e

package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// floods runs TestRegistrationFlood, which takes seven minutes: go test -tags e2e ./internal/faults -run
// RegistrationFlood -v -timeout 20m -faults.flood
var floods = flag.Bool("faults.flood", false, "send 100 000 registrations in a minute to servers with and without a quota")

// floodTimes makes it more than the server can do: then registrations are refused, and clients still get
// their tokens.
var floodTimes = flag.Int("faults.floodtimes", 1, "send so many times as many registrations")

const (
	floodRounds = 3 // each a calm one and a third of the flood
	floodOnce   = 100_000
	floodTime   = time.Minute
	floodCalm   = 10 * time.Second
	floodTokens = 50        // refreshes in a second
	floodMemory = 256 << 20 // what a server may take
	floodFactor = 2         // how much longer 99 % of the refreshes may take
	floodOften  = 16 << 10  // more registrations than these are of one software, with a small quota
)

// floodSize returns the number of registrations.
func floodSize() int { return floodOnce * *floodTimes }

// flooded is a server with clients that refresh while strangers register.
type flooded struct {
	*testing.T
	at   *process
	held chan *showFamily
	same bool // all registrations are of one software
}

func newFlooded(t *testing.T, store string, flags ...string) *flooded {
	t.Helper()
	f := newFleet(t, fleetConfig{Store: store})
	at := f.start(append([]string{"--trusted-proxies", "127.0.0.0/8"}, flags...)...)
	s := &flooded{T: t, at: at, held: make(chan *showFamily, showFamilies)}
	p := f.newParty(at)
	for range showFamilies {
		s.held <- &showFamily{p, p.mustTokens(at).Refresh}
	}
	return s
}

// proc returns the fields of a file of the server in /proc.
func (s *flooded) proc(name string) []string {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.at.pid(), name))
	if err != nil {
		s.Fatal(err)
	}
	return strings.Fields(string(text))
}

// resident returns the memory of the server in bytes.
func (s *flooded) resident() int64 {
	pages, _ := strconv.ParseInt(s.proc("statm")[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// worked returns the processor time that the server has used.
func (s *flooded) worked() time.Duration {
	fields := s.proc("stat")
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// felt is what clients felt of a server for a time.
type felt struct {
	took   []time.Duration // the longest last
	memory int64           // the most
	share  float64         // of a processor, that the server used
}

func (f felt) at(part float64) time.Duration { return f.took[int(part*float64(len(f.took)-1))] }

// refreshes has clients refresh at a pace of their own for a time.
func (s *flooded) refreshes(lasts time.Duration) (all felt) {
	s.Helper()
	var mu sync.Mutex
	var flying sync.WaitGroup
	begin, before := time.Now(), s.worked()
	for i := range int(lasts.Seconds() * floodTokens) {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / floodTokens)))
		if i%floodTokens == 0 {
			all.memory = max(all.memory, s.resident())
		}
		flying.Go(func() {
			f := <-s.held
			defer func() { s.held <- f }()
			a := f.party.refresh(s.at, f.refresh)
			if a.outcome() != granted {
				s.Errorf("a client is refused: %s", a)
				return
			}
			f.refresh = a.Refresh
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, a.Took)
		})
	}
	flying.Wait()
	slices.Sort(all.took)
	all.share = float64(s.worked()-before) / float64(time.Since(begin))
	return all
}

// poured is how a part of the flood was answered, as the process that sent it says.
type poured struct {
	Offered, Late int64
	Lasted        time.Duration
	Status        map[int]int64 // 0 without an answer
	Untimed       int64         // 429 or 503 without Retry-After
}

// add joins two parts.
func (p *poured) add(other poured) {
	p.Offered, p.Late, p.Lasted, p.Untimed = p.Offered+other.Offered, p.Late+other.Late, p.Lasted+other.Lasted, p.Untimed+other.Untimed
	if p.Status == nil {
		p.Status = map[int]int64{}
	}
	for status, n := range other.Status {
		p.Status[status] += n
	}
}

// pour sends a part of the flood from a process of its own, so that it takes nothing of those who
// measure but its share of the processors.
func (s *flooded) pour(from, n int) (p poured) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFlooder$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d %t", floodEnv, s.at.address, from, n, floodSize(), s.same))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err == nil {
		err = json.NewDecoder(strings.NewReader(string(out))).Decode(&p)
	}
	if err != nil {
		s.Errorf("the flood: %v\n%s", err, out)
	}
	return p
}

// check asserts that everything was offered in its time, and answered as the limits say.
func (s *flooded) check(all poured) {
	if all.Offered != int64(floodSize()) || all.Lasted > floodTime*21/20 || all.Late > int64(floodSize()/100) {
		s.Errorf("%d registrations were offered in %s, %d late: the machine is too busy for this test", all.Offered, all.Lasted, all.Late)
	}
	for status, n := range all.Status {
		if status != 201 && status != 429 && status != 503 {
			s.Errorf("%d answers %d", n, status)
		}
	}
	if all.Untimed > 0 {
		s.Errorf("%d of 429 and 503 do not say when to come back", all.Untimed)
	}
	if limited := all.Status[429]; s.same && (limited == 0 || all.Status[201] > floodOften) || !s.same && limited > 0 {
		s.Errorf("%d registered, %d of 429", all.Status[201], limited)
	}
}

// TestRegistrationFlood: while 100 000 registrations come in a minute, each from another network, clients
// get their tokens in time, and the memory of the server is bounded; beyond a quota and without one.
func TestRegistrationFlood(t *testing.T) {
	if !*floods {
		t.Skip("it takes seven minutes: -faults.flood")
	}
	for name, quota := range map[string]string{"one software, beyond the quota of all": "60", "without a quota, each of its own": "0"} {
		t.Run(name, func(t *testing.T) {
			store := redistest.Start(t, redistest.Config{})
			s := newFlooded(t, store.URL(), "--registration-quota", quota)
			s.same = quota != "0"
			s.refreshes(floodCalm / 3) // warms up
			before := s.resident()
			var all poured
			var half, most []float64
			memory := before
			for i := range floodRounds {
				calm := s.refreshes(floodCalm)
				part := make(chan poured)
				go func() {
					part <- s.pour(i*floodSize()/floodRounds, (i+1)*floodSize()/floodRounds-i*floodSize()/floodRounds)
				}()
				time.Sleep(time.Second) // the process starts
				busy := s.refreshes(floodTime/floodRounds - time.Second)
				all.add(<-part)
				memory = max(memory, busy.memory)
				half, most = append(half, float64(busy.at(0.5))/float64(calm.at(0.5))), append(most, float64(busy.at(0.99))/float64(calm.at(0.99)))
				short := func(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
				t.Logf("round %d: half of the refreshes took %s calm and %s meanwhile, 99%% %s and %s, all %s and %s; the server used %.2f and %.2f processors", i+1,
					short(calm.at(0.5)), short(busy.at(0.5)), short(calm.at(0.99)), short(busy.at(0.99)), short(calm.at(1)), short(busy.at(1)), calm.share, busy.share)
			}
			t.Logf("%d registrations offered in %s, %d late: answers by status %v", all.Offered, all.Lasted.Round(time.Second/10), all.Late, all.Status)
			t.Logf("memory of the server: %d MiB before, %d MiB at most; of Redis %d MiB", before>>20, memory>>20, usedMemory(t, store)>>20)
			slices.Sort(half)
			slices.Sort(most)
			t.Logf("times calm, in the middle of the rounds: half %.2f, 99%% %.2f", half[floodRounds/2], most[floodRounds/2])
			s.check(all)
			if memory > floodMemory {
				t.Errorf("the server takes %d MiB", memory>>20)
			}
			if most[floodRounds/2] > floodFactor {
				t.Errorf("99%% of the refreshes take %.2f times as long as without the flood", most[floodRounds/2])
			}
		})
	}
}
