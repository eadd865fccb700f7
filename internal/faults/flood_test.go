//go:build e2e

package faults

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// floods runs TestRegistrationFlood, which takes three minutes: go test -tags e2e ./internal/faults -run
// RegistrationFlood -v -faults.flood
var floods = flag.Bool("faults.flood", false, "send 100 000 registrations in a minute to servers with and without a quota")

const (
	floodSize    = 100_000
	floodTime    = time.Minute
	floodWorkers = 64
	floodCalm    = 20 * time.Second
	floodTokens  = 50        // refreshes in a second
	floodMemory  = 256 << 20 // what a server may take
	floodFactor  = 2         // how much longer 99 % of the refreshes may take
)

// flooded is a server with clients that refresh while strangers register.
type flooded struct {
	*testing.T
	at     *process
	issuer string
	held   chan *showFamily
	same   bool // all registrations are of one software

	status [6]atomic.Int64 // by hundreds
	late   atomic.Int64
}

func newFlooded(t *testing.T, store string, flags ...string) *flooded {
	t.Helper()
	f := newFleet(t, fleetConfig{Store: store})
	at := f.start(append([]string{"--trusted-proxies", "127.0.0.0/8"}, flags...)...)
	s := &flooded{T: t, at: at, issuer: f.issuer, held: make(chan *showFamily, showFamilies)}
	p := f.newParty(at)
	for range showFamilies {
		s.held <- &showFamily{p, p.mustTokens(at).Refresh}
	}
	return s
}

// resident returns the memory of the server in bytes.
func (s *flooded) resident() int64 {
	s.Helper()
	cmd, _ := s.at.running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	s.Fatal("the memory of the server is not known")
	return 0
}

// refreshes has clients refresh at a pace of their own for a time, and returns how long each took, the
// longest last, and the most memory that the server had meanwhile.
func (s *flooded) refreshes(lasts time.Duration) (took []time.Duration, most int64) {
	s.Helper()
	var mu sync.Mutex
	var flying sync.WaitGroup
	begin := time.Now()
	for i := range int(lasts.Seconds() * floodTokens) {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / floodTokens)))
		if i%floodTokens == 0 {
			most = max(most, s.resident())
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
			took = append(took, a.Took)
		})
	}
	flying.Wait()
	slices.Sort(took)
	return took, most
}

// pour sends the registrations, each as from another network, at an even pace.
func (s *flooded) pour() {
	transport := &http.Transport{MaxIdleConnsPerHost: floodWorkers, MaxConnsPerHost: floodWorkers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: answerTime}
	var next atomic.Int64
	var workers sync.WaitGroup
	begin := time.Now()
	for range floodWorkers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < floodSize; i = next.Add(1) - 1 {
				due := begin.Add(time.Duration(i) * floodTime / floodSize)
				time.Sleep(time.Until(due))
				if time.Since(due) > time.Second {
					s.late.Add(1)
				}
				s.register(client, i)
			}
		})
	}
	workers.Wait()
}

func (s *flooded) register(client *http.Client, i int64) {
	software := i
	if s.same {
		software = 0
	}
	r := newRequest(http.MethodPost, "http://"+s.at.address+"/register",
		fmt.Sprintf(`{"redirect_uris":["https://client-%d.example.org/callback"],"token_endpoint_auth_method":"none","client_name":"Flood %d"}`, software, software))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("%d.%d.%d.1", 20+i>>16, i>>8&255, i&255))
	resp, err := client.Do(r)
	if err != nil {
		s.status[0].Add(1)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	s.status[resp.StatusCode/100].Add(1)
}

// TestRegistrationFlood: while 100 000 registrations come in a minute, each from another network, clients
// get their tokens in time, and the memory of the server is bounded; with a quota and without one.
func TestRegistrationFlood(t *testing.T) {
	if !*floods {
		t.Skip("it takes three minutes: -faults.flood")
	}
	for name, quota := range map[string]string{"with the default quota, of one software": "600", "without a quota, each of its own": "0"} {
		t.Run(name, func(t *testing.T) {
			store := redistest.Start(t, redistest.Config{})
			s := newFlooded(t, store.URL(), "--registration-quota", quota)
			s.same = quota != "0"
			s.refreshes(floodCalm / 4) // warms up
			calm, before := s.refreshes(floodCalm)
			poured := make(chan time.Duration)
			go func() {
				began := time.Now()
				s.pour()
				poured <- time.Since(began)
			}()
			busy, most := s.refreshes(floodTime)
			lasted := <-poured
			at := func(all []time.Duration, part float64) time.Duration {
				return all[int(part*float64(len(all)-1))].Round(time.Millisecond / 10)
			}
			t.Logf("%d registrations in %s, %d late: %d registered, %d refused, %d answers of 5xx, %d without an answer",
				floodSize, lasted.Round(time.Second), s.late.Load(), s.status[2].Load(), s.status[4].Load(), s.status[5].Load(), s.status[0].Load())
			t.Logf("refreshes: half took %s calm and %s meanwhile, 99%% %s and %s, all %s and %s", at(calm, 0.5), at(busy, 0.5), at(calm, 0.99), at(busy, 0.99), at(calm, 1), at(busy, 1))
			t.Logf("memory of the server: %d MiB before, %d MiB at most; of Redis %d MiB", before>>20, most>>20, usedMemory(t, store)>>20)
			if most > floodMemory {
				t.Errorf("the server takes %d MiB", most>>20)
			}
			if at(busy, 0.99) > floodFactor*at(calm, 0.99) {
				t.Errorf("99%% of the refreshes take %s, and %s without the flood", at(busy, 0.99), at(calm, 0.99))
			}
		})
	}
}
