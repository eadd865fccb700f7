package authz_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
)

var flood = flag.Bool("flood", false, "measure what /token feels of floods at /login, and print it")

// TestFlood measures; it asserts nothing, because it depends on the machine:
//
//	go test ./authz -run TestFlood -flood -v
func TestFlood(t *testing.T) {
	if !*flood {
		t.Skip("it takes -flood")
	}
	calm := measure(t, "calm", func(*house) {})
	for name, attack := range map[string]func(h *house){
		"200 right passwords at once, one address": func(h *house) {
			h.crowd(200, func(int) (string, string, string) { return "192.0.2.1", personName + "2", personPassword })
		},
		"200 right passwords at once, 200 networks": func(h *house) {
			h.crowd(200, func(i int) (string, string, string) {
				return fmt.Sprintf("10.0.%d.1", i), personName + "2", personPassword
			})
		},
		"700 invented names at once, one address": func(h *house) {
			h.crowd(700, func(i int) (string, string, string) { return "192.0.2.1", fmt.Sprint("invented", i), "x" })
		},
		"700 invented names at once, 250 networks": func(h *house) {
			h.crowd(700, func(i int) (string, string, string) {
				return fmt.Sprintf("10.0.%d.1", i%250), fmt.Sprint("invented", i), "x"
			})
		},
	} {
		under := measure(t, name, attack)
		t.Logf("%-45s p99 %.1f times that of calm", name, float64(under)/float64(calm))
	}
}

// crowd sends sign-ins at once, and returns when all have their answers.
func (h *house) crowd(n int, who func(i int) (from, name, password string)) {
	f := h.newBrowser().signInForm()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			from, name, password := who(i)
			f.send(from, name, password)
		})
	}
	all.Wait()
}

// measure refreshes a token every five milliseconds while attack goes on, at least for two
// seconds, with a person who signs in from a quiet network meanwhile, and returns the 99th
// percentile of the time it took.
func measure(t *testing.T, name string, attack func(*house)) time.Duration {
	h := newHouse(t, build{issuer: loopbackIssuer, config: behindProxy})
	if _, err := authz.AddUser(t.Context(), h.store, personName+"2", personPassword); err != nil {
		t.Fatal(err)
	}
	c := cast()["native"]
	held := h.tokens(c).refresh
	quiet := h.newBrowser().signInForm()
	var all sync.WaitGroup
	over := make(chan struct{})
	begin := time.Now()
	go func() { attack(h); close(over) }()
	var signIn time.Duration
	all.Go(func() {
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		r := quiet.send("198.51.100.1", personName+"2", personPassword)
		if signIn = time.Since(began); r.status != http.StatusSeeOther {
			t.Logf("%s: the person is not let in: status %d", name, r.status)
		}
	})
	var took []time.Duration
	for ongoing := true; ongoing || time.Since(begin) < 2*time.Second; time.Sleep(5 * time.Millisecond) {
		select {
		case <-over:
			ongoing = false
		default:
		}
		began := time.Now()
		r := h.toToken(c, refreshing(c, held))
		took = append(took, time.Since(began))
		if held = r.member(t, "refresh_token"); r.status != http.StatusOK {
			t.Fatalf("%s: %s", name, r)
		}
	}
	all.Wait()
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[len(took)*percent/100].Round(time.Microsecond) }
	t.Logf("%-45s /token: %d requests, p50 %s, p90 %s, p99 %s; the person signed in within %s", name, len(took), at(50), at(90), at(99), signIn.Round(time.Millisecond))
	return at(99)
}
