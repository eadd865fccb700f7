//go:build e2e

package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// usedMemory returns the memory of a server, with its records, in bytes.
func usedMemory(t testing.TB, s *redistest.Server) int64 {
	t.Helper()
	info, err := s.Client().Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	t.Fatal("the server does not tell how much memory it uses")
	return 0
}

// ready asks a process whether it can serve.
func ready(t testing.TB, admin string) (status int, sentence string) {
	t.Helper()
	resp, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// heavyRegistration returns a registration of about 60 KiB.
func heavyRegistration(name string) string {
	var members strings.Builder
	for i := range 30 {
		fmt.Fprintf(&members, `,"tos_uri#x-%d":"https://client.example.org/%s"`, i, strings.Repeat("a", 2000))
	}
	return fmt.Sprintf(`{"redirect_uris":["%s"],"token_endpoint_auth_method":"none","client_name":%q%s}`, redirectURI, name, &members)
}

// flood registers large clients and begins sign-ins, as fast as it can, until it is stopped. No
// limiter slows it down, as if it came from many networks.
func flood(f *fleet, at *process) (registered, refused, begun *atomic.Int64, stop func()) {
	registered, refused, begun = new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := newRequest(http.MethodPost, f.issuer+"/register", heavyRegistration(fmt.Sprint("flood ", n, " ", i)))
				r.Header.Set("Content-Type", "application/json")
				a := at.call("register", r)
				switch a.Status {
				case http.StatusCreated:
					registered.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
				}
				if a.Client == "" {
					continue
				}
				p := &party{issuer: f.issuer, id: a.Client}
				if b := at.call("authorize", newRequest(http.MethodGet, p.authorizeURL(), "")); b.Status == http.StatusSeeOther {
					begun.Add(1)
				}
			}
		})
	}
	return registered, refused, begun, func() { cancel(); all.Wait() }
}

// TestFullStore: anonymous requests that register and begin sign-ins without end are refused
// from some point on, before the store is full. Refreshing, redeeming, revoking, and people who
// sign in and decide go on beside them; readiness names the reason; and when there is room again,
// everything works without a restart.
func TestFullStore(t *testing.T) {
	const most = 24 << 20
	server := redistest.Start(t, redistest.Config{Args: []string{"--maxmemory", strconv.Itoa(most)}})
	f := newFleet(t, fleetConfig{Store: server.URL()})
	admin := redistest.FreeAddress(t)
	at := f.start("--admin-listen", admin, "--registration-quota", "0")
	honest := f.newParty(at)
	held := honest.mustTokens(at)

	registered, refused, begun, stop := flood(f, at)
	defer stop()
	eventually(t, patience, func() error {
		if refused.Load() < 100 {
			return fmt.Errorf("%d registered, %d refused", registered.Load(), refused.Load())
		}
		return nil
	})
	var slowest []time.Duration
	for i := range 50 {
		refreshed := honest.refresh(at, held.Refresh)
		if refreshed.Status != http.StatusOK {
			t.Fatalf("refresh %d beside the flood: %s", i, refreshed)
		}
		held.Refresh = refreshed.Refresh
		tokens := honest.mustTokens(at)
		if a := honest.revoke(at, tokens.Refresh); a.Status != http.StatusOK {
			t.Fatalf("revoke %d beside the flood: %s", i, a)
		}
		slowest = append(slowest, refreshed.Took)
	}
	if status, sentence := ready(t, admin); status != http.StatusOK || !strings.Contains(sentence, "store is nearly full") {
		t.Errorf("/readyz beside the flood: %d %q", status, sentence)
	}
	used := usedMemory(t, server)
	if used > most-most/20 {
		t.Errorf("the store holds %d of %d bytes: the reserve is gone", used, most)
	}
	stop()
	slices.Sort(slowest)
	t.Logf("%d large clients registered, %d sign-ins begun, %d registrations refused; the store holds %.1f of %d MiB; of 50 refreshes beside that the median took %s, the slowest %s",
		registered.Load(), begun.Load(), refused.Load(), float64(used)/(1<<20), most>>20, slowest[25], slowest[49])

	if err := server.Client().ConfigSet(t.Context(), "maxmemory", strconv.Itoa(2*most)).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() error {
		if a := f.register(at); a.Status != http.StatusCreated {
			return fmt.Errorf("with room again: %s", a)
		}
		return nil
	})
	if status, sentence := ready(t, admin); status != http.StatusOK || sentence != "ok" {
		t.Errorf("/readyz with room again: %d %q", status, sentence)
	}
	if next := honest.refresh(at, held.Refresh); next.Status != http.StatusOK {
		t.Errorf("with room again: %s", next)
	}
}

// TestStoreWithoutRoom: a store that is filled to the last byte is 503 for every write, and
// named in readiness and log; reads go on. When there is room again, everything works without a
// restart, and nothing that was refused has happened.
func TestStoreWithoutRoom(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	f := newFleet(t, fleetConfig{Store: server.URL()})
	admin := redistest.FreeAddress(t)
	at := f.start("--admin-listen", admin)
	honest := f.newParty(at)
	held := honest.mustTokens(at)
	code := honest.mustConsent(at)
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "512kb").Err(); err != nil { // less than it holds
		t.Fatal(err)
	}
	eventually(t, patience, func() error {
		if status, sentence := ready(t, admin); status != http.StatusServiceUnavailable || sentence != "the store is full" {
			return fmt.Errorf("/readyz: %d %q", status, sentence)
		}
		return nil
	})
	for _, a := range []answer{f.register(at), honest.redeem(at, code), honest.refresh(at, held.Refresh), honest.revoke(at, held.Refresh)} {
		if a.outcome() != unavailable || a.RetryAfter == "" {
			t.Errorf("without room: %s", a)
		}
	}
	if a := honest.introspect(at, held.Access); !a.Active {
		t.Errorf("without room: %s", a)
	}
	if resp := at.call("authorize", newRequest(http.MethodGet, honest.authorizeURL(), "")); resp.Status != http.StatusSeeOther {
		t.Errorf("without room: %s", resp)
	}
	eventually(t, patience, func() error {
		if !strings.Contains(at.output.String(), "the store is full") {
			return fmt.Errorf("the log does not say so")
		}
		return nil
	})
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "64mb").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() error {
		if status, sentence := ready(t, admin); status != http.StatusOK || sentence != "ok" {
			return fmt.Errorf("/readyz: %d %q", status, sentence)
		}
		return nil
	})
	for _, a := range []answer{f.register(at), honest.redeem(at, code), honest.refresh(at, held.Refresh)} {
		if a.outcome() != granted {
			t.Errorf("with room again: %s", a)
		}
	}
}

// TestFloodOfRequests: anonymous requests that begin sign-ins without end take no room in the
// store, and people sign in beside them.
func TestFloodOfRequests(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	f := newFleet(t, fleetConfig{Store: server.URL()})
	at := f.start()
	known := f.newParty(at)
	before := usedMemory(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var begun atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if a := at.call("authorize", newRequest(http.MethodGet, known.authorizeURL(), "")); a.Status == http.StatusSeeOther {
					begun.Add(1)
				}
			}
		})
	}
	const people = 20
	for range people {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &party{t: t, issuer: f.issuer, id: known.id, browser: &http.Client{Jar: jar}}
		p.mustConsent(at)
	}
	eventually(t, patience, func() error {
		if begun.Load() < 5000 {
			return fmt.Errorf("%d requests", begun.Load())
		}
		return nil
	})
	cancel()
	all.Wait()
	grown := usedMemory(t, server) - before
	t.Logf("%d requests begun, %d people signed in beside them, the store grew by %d kB", begun.Load(), people, grown>>10)
	if grown > people*8<<10+512<<10 {
		t.Errorf("the store grew by %d bytes: more than what %d people left there", grown, people)
	}
}
