package authz_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
)

// anybodysWork is what anybody may ask for, by name.
var anybodysWork = map[string]func(*testing.T) *http.Request{
	"registration": func(t *testing.T) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/register", strings.NewReader(`{"redirect_uris":["http://127.0.0.1/cb"],"token_endpoint_auth_method":"none"}`))
		r.Header.Set("Content-Type", "application/json")
		return r
	},
	"page": func(t *testing.T) *http.Request {
		return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login", nil)
	},
}

// answer has the server of a bubble answer a request, and returns the status and how long it took.
func (s *bubble) answer(r *http.Request) (status int, took time.Duration) {
	w, begin := httptest.NewRecorder(), time.Now()
	s.server.ServeHTTP(w, r)
	return w.Code, time.Since(begin)
}

// TestAnybodyYields: registrations and pages begin when no request of a program with tokens is worked
// on, and registrations so many at a time as there are places. They wait for 20 ms and no longer.
func TestAnybodyYields(t *testing.T) {
	t.Parallel()
	for name, request := range anybodysWork {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
				s.startWith(s.store, authz.RegistrationOpen)
				calm, took := s.answer(request(t))
				if calm >= 500 || took != 0 {
					t.Fatalf("without other requests: %d after %s", calm, took)
				}
				end, other := s.server.First(), s.server.First()
				if status, took := s.answer(request(t)); status != calm || took != 20*time.Millisecond {
					t.Errorf("a busy server answers %d after %s", status, took)
				}
				time.AfterFunc(5*time.Millisecond, end)
				time.AfterFunc(7*time.Millisecond, other)
				if status, took := s.answer(request(t)); status != calm || took != 7*time.Millisecond {
					t.Errorf("a server that was busy answers %d after %s", status, took)
				}
				defer s.server.First()()
				places := 16 * runtime.GOMAXPROCS(0)
				requests := places + min(2*places, 100) // 128 may wait
				turns := 1
				if name == "registration" { // pages wait for each other nowhere
					turns = (requests + places - 1) / places
				}
				var all sync.WaitGroup
				begin := time.Now()
				for range requests {
					all.Go(func() { s.answer(request(t)) })
				}
				all.Wait()
				if took := time.Since(begin); took != time.Duration(turns)*20*time.Millisecond {
					t.Errorf("%d requests take %s with %d places", requests, took, places)
				}
			})
		})
	}
}

// TestWhoGoesFirst: requests to the endpoints of programs with tokens have precedence while they are
// worked on, and what anybody may ask for has none.
func TestWhoGoesFirst(t *testing.T) {
	t.Parallel()
	for path, first := range map[string]int{"/token": 1, "/revoke": 1, "/introspect": 1, "/register": 0, "/login": 0} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			c := testClients()["native"]
			held := h.newBrowser().tokens(c, asks(c))
			seen := make(chan int, 100)
			hook := func(string, string) {
				select {
				case seen <- h.handler.Load().Firsts():
				default:
				}
			}
			h.meter.before.Store(&hook)
			switch path {
			case "/token":
				h.toToken(c, refreshing(c, held.refresh))
			case "/revoke":
				h.revoke(c, held.refresh)
			case "/introspect":
				h.introspect(held.access)
			case "/register":
				h.registerFrom("192.0.2.1", "one")
			case "/login":
				h.newBrowser().signInForm()
			}
			if len(seen) == 0 {
				t.Fatal("the store was not asked")
			}
			if got := <-seen; got != first {
				t.Errorf("%d requests have precedence, want %d", got, first)
			}
			if left := h.handler.Load().Firsts(); left != 0 {
				t.Errorf("%d requests have precedence afterwards", left)
			}
		})
	}
}

// TestFullIsRefusedUnread: while a limit on all registrations of a network is reached, one more costs
// neither reading nor the store.
func TestFullIsRefusedUnread(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(1))
	for i := range 10 {
		if answer := h.registerFrom("192.0.2.1", string(rune('a'+i))); answer.status != http.StatusCreated {
			t.Fatalf("registration %d: %s", i, answer)
		}
	}
	h.registerFrom("192.0.2.1", "z") // tells this process
	r := h.newRequest(http.MethodPost, "/register", nil)
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	before := h.meter.reads.Load() + h.meter.writes.Load()
	answer := h.send(r) // has no body, so who reads it says 400
	if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") == "" || !strings.Contains(answer.body, "temporarily_unavailable") {
		t.Errorf("%s", answer)
	}
	if h.meter.reads.Load()+h.meter.writes.Load() != before {
		t.Error("the store was asked")
	}
	if other := h.registerFrom("198.51.100.1", "z"); other.status != http.StatusCreated {
		t.Errorf("another network: %s", other)
	}
}
