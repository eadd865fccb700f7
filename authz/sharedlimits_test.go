package authz_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
)

// twoServers returns two servers over one store, with limits of their own in memory.
func twoServers(t *testing.T, change func(*authz.Config)) (all [2]*harness) {
	t.Helper()
	config := func(c *authz.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		if change != nil {
			change(c)
		}
	}
	all[0] = newHarness(t, setup{config: config})
	all[1] = newHarness(t, setup{store: all[0].store, config: func(c *authz.Config) {
		config(c)
		c.Now = all[0].clock.Now
	}})
	return all
}

// countTogether lets counts of limits pass when n wait, so that all requests have been let through
// by the limits of their process before the store counts the first one.
func (h *harness) countTogether(n int) {
	var mu sync.Mutex
	waiting, all := 0, make(chan struct{})
	hook := func(op, _ string) {
		if op != "count" {
			return
		}
		mu.Lock()
		if waiting++; waiting == n {
			close(all)
		}
		mu.Unlock()
		<-all
	}
	h.meter.before.Store(&hook)
}

// TestTwoServersHaveOneQuota: of registrations that two servers get at the same time, exactly as many
// pass as one server would let pass, and each refusal says when to come back.
func TestTwoServersHaveOneQuota(t *testing.T) {
	t.Parallel()
	const quota, requests = 6, 16
	servers := twoServers(t, func(c *authz.Config) { c.RegistrationQuota = quota })
	servers[0].countTogether(requests)
	var all sync.WaitGroup
	answers := make([]reply, requests)
	for i := range answers {
		all.Go(func() { answers[i] = servers[i%2].registerFrom("192.0.2.1", "one") })
	}
	all.Wait()
	passed := 0
	for _, answer := range answers {
		wait, _ := strconv.Atoi(answer.header.Get("Retry-After"))
		switch {
		case answer.status == http.StatusCreated:
			passed++
		case answer.status != http.StatusTooManyRequests || wait < 1 || wait > 600:
			t.Errorf("want 201, or 429 and Retry-After in ten minutes: %s", answer)
		}
	}
	if passed != quota {
		t.Errorf("%d registrations, want %d", passed, quota)
	}
	servers[0].clock.advance(10 * time.Minute)
	none := func(string, string) {}
	servers[0].meter.before.Store(&none)
	for i, want := range []int{http.StatusCreated, http.StatusTooManyRequests} {
		if answer := servers[i].registerFrom("192.0.2.1", "one"); answer.status != want {
			t.Errorf("after a sixth of an hour, server %d: want %d: %s", i, want, answer)
		}
	}
	counts := servers[0].meter.counts.Load()
	servers[1].registerFrom("192.0.2.1", "one")
	if n := servers[0].meter.counts.Load(); n != counts {
		t.Errorf("%d questions to the store about what this server knows to be over", n-counts)
	}
}

// TestFailedRegistrationsDoNotCount: what was taken for a registration that the store then refuses
// is given back, for all servers.
func TestFailedRegistrationsDoNotCount(t *testing.T) {
	t.Parallel()
	servers := twoServers(t, func(c *authz.Config) { c.RegistrationQuota = 2 })
	for i := range 6 {
		down := func(op, _ string) { servers[0].faults.SetDown(op == "put") }
		servers[0].meter.before.Store(&down)
		if answer := servers[i%2].registerFrom("192.0.2.1", "one"); answer.status != http.StatusServiceUnavailable {
			t.Fatalf("the store refused it: %s", answer)
		}
	}
	up := func(string, string) { servers[0].faults.SetDown(false) }
	servers[0].meter.before.Store(&up)
	for i := range 3 {
		if answer := servers[i%2].registerFrom("192.0.2.1", "one"); (answer.status == http.StatusCreated) != (i < 2) {
			t.Errorf("registration %d: %s", i, answer)
		}
	}
}

// guess tries a password of the person in a new browser, from one address.
func (h *harness) guess(password string) (status int) {
	h.t.Helper()
	return h.newBrowser().signInForm().guess(password)
}

func (f signInForm) guess(password string) (status int) {
	return f.send("192.0.2.9", personName, password).status
}

// TestTwoServersHaveOneCountOfGuesses: of wrong passwords that two servers get at the same time, as
// many are told that they are wrong as one server would tell, and beyond them the right one is not
// told either.
func TestTwoServersHaveOneCountOfGuesses(t *testing.T) {
	t.Parallel()
	const limit, each = 30, 20
	servers := twoServers(t, func(c *authz.Config) {
		c.CheckPassword = func(_, password string) bool { return password == personPassword }
	})
	forms := [2]signInForm{servers[0].newBrowser().signInForm(), servers[1].newBrowser().signInForm()}
	servers[0].countTogether(2 * each)
	var mu sync.Mutex
	var all sync.WaitGroup
	told := map[int]int{}
	for i := range 2 * each {
		all.Go(func() {
			status := forms[i%2].guess(fmt.Sprint("guess ", i))
			mu.Lock()
			defer mu.Unlock()
			told[status]++
		})
	}
	all.Wait()
	if told[http.StatusForbidden] != limit || told[http.StatusTooManyRequests] != 2*each-limit {
		t.Errorf("answers by status: %v, want %d that say wrong and %d that say to wait", told, limit, 2*each-limit)
	}
	none := func(string, string) {}
	servers[0].meter.before.Store(&none)
	for i, h := range servers {
		if status := h.guess(personPassword); status != http.StatusTooManyRequests {
			t.Errorf("server %d answers the right password with %d", i, status)
		}
	}
	servers[0].clock.advance(time.Minute)
	if status := servers[1].guess(personPassword); status != http.StatusSeeOther {
		t.Errorf("after a minute the right password is answered with %d", status)
	}
	for i := range 10 { // the failures before it do not count any more
		if status := servers[1].guess(fmt.Sprint("more ", i)); status != http.StatusForbidden {
			t.Fatalf("guess %d after the right one is answered with %d", i, status)
		}
	}
}

// TestSignInIsOneCount: a sign-in, right or wrong, is one round trip more, and none while the limit is
// reached.
func TestSignInIsOneCount(t *testing.T) {
	t.Parallel()
	h := twoServers(t, func(c *authz.Config) {
		c.CheckPassword = func(_, password string) bool { return password == personPassword }
	})[0]
	for _, password := range []string{"wrong", personPassword} {
		before := h.meter.counts.Load()
		h.guess(password)
		if n := h.meter.counts.Load() - before; n != 1 {
			t.Errorf("%q: %d counts, want 1", password, n)
		}
	}
	for h.guess("wrong") != http.StatusTooManyRequests {
	}
	before := h.meter.counts.Load()
	h.guess("wrong")
	if n := h.meter.counts.Load() - before; n != 0 {
		t.Errorf("%d counts of what this process knows to be over", n)
	}
}
