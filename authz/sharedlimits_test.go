package authz_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
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

// TestCodeWithoutAnAnswerIsKept: a recovery code that gets no answer, because whoever knows the password
// has used up the limit at another server, is not used up: it signs in later.
func TestCodeWithoutAnAnswerIsKept(t *testing.T) {
	t.Parallel()
	servers := twoServers(t, nil)
	_, _, codes := servers[0].withFactor()
	for range 20 {
		servers[0].atCode().submit("code", "000000")
	}
	if r := servers[1].atCode().submit("code", codes[0]); r.status != http.StatusTooManyRequests {
		t.Fatalf("beyond the limit: %s", r)
	}
	if left := len(servers[0].person().SecondFactor.Recovery); left != 10 {
		t.Errorf("a code without an answer is used up: %d are left", left)
	}
	servers[0].clock.advance(time.Hour)
	mustSignIn(t, "an hour later", servers[1].atCode().submit("code", codes[0]))
	if left := len(servers[0].person().SecondFactor.Recovery); left != 9 {
		t.Errorf("%d codes are left", left)
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

// registerHeavy sends a registration of some 18 KB, as if from an address.
func (h *harness) registerHeavy(from, software string) reply {
	h.t.Helper()
	uris := make([]string, 10)
	for i := range uris {
		uris[i] = fmt.Sprintf("%q", "https://client.example.org/"+strings.Repeat(fmt.Sprint(i), 1800))
	}
	body := fmt.Sprintf(`{"redirect_uris":[%s],"token_endpoint_auth_method":"none","client_name":%q}`, strings.Join(uris, ","), software)
	return h.sendJSONFrom(from, http.MethodPost, h.issuer+"/register", "", body)
}

// use has a person use a client that was registered by registerHeavy, until that is on record.
func (h *harness) use(registered reply) {
	h.t.Helper()
	c := testClient{Client: storage.Client{ID: registered.member(h.t, "client_id")}, redirect: "https://client.example.org/" + strings.Repeat("0", 1800)}
	c.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodNone
	h.tokens(c)
	h.handler.Load().DoChores(h.t.Context())
}

// operations returns the operations on the store while f runs.
func (h *harness) operations(f func()) (ops []string) {
	var mu sync.Mutex
	hook := func(op, _ string) {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
	}
	none := func(string, string) {}
	h.meter.before.Store(&hook)
	defer h.meter.before.Store(&none)
	f()
	return ops
}

// registerHeavyUntilRefused registers a software from one network after the other.
func (h *harness) registerHeavyUntilRefused(software string) (n int) {
	h.t.Helper()
	for ; n < 1000; n++ {
		if h.registerHeavy(fmt.Sprintf("10.%d.%d.1", n/250, n%250), software).status != http.StatusCreated {
			return n
		}
	}
	h.t.Fatal("there is no limit")
	return n
}

// TestOneSoftwareLeavesHalf: equal registrations from many networks may take half of what all may; the
// other half is left to other software. Software of which a client was in use is not limited so, also
// at a server that does not know yet that it has more than half.
func TestOneSoftwareLeavesHalf(t *testing.T) {
	t.Parallel()
	reached := &limitsReached{n: map[authz.Limit]int{}}
	change := func(c *authz.Config) { c.RegistrationQuota, c.Observe = 1, reached.observe }
	servers := twoServers(t, change)
	half := servers[0].registerHeavyUntilRefused("flood")
	if reached.of(authz.LimitSoftware) != 1 || reached.of(authz.LimitClients) != 0 {
		t.Errorf("the limits that were reached: %v", reached.n)
	}
	if answer := servers[1].registerHeavy("192.0.2.1", "flood"); answer.status != http.StatusTooManyRequests {
		t.Errorf("the other server lets it pass: %s", answer)
	}
	asked := servers[0].operations(func() { servers[1].registerHeavy("192.0.2.1", "flood") })
	if len(asked) != 0 {
		t.Errorf("a refusal asks the store for %v", asked)
	}
	if answer := servers[1].registerHeavy("192.0.2.1", "other"); answer.status != http.StatusCreated {
		t.Errorf("other software is refused: %s", answer)
	}
	servers[0].clock.advance(15 * time.Minute)
	if answer := servers[1].registerHeavy("192.0.2.1", "flood"); answer.status != http.StatusCreated {
		t.Errorf("it is refused for good: %s", answer)
	}

	servers = twoServers(t, change)
	servers[0].use(servers[0].registerHeavy("192.0.2.1", "popular"))
	for n := range half + half/2 {
		h := servers[0]
		if n > half {
			h = servers[1]
		}
		if answer := h.registerHeavy(fmt.Sprintf("10.1.%d.1", n), "popular"); answer.status != http.StatusCreated {
			t.Fatalf("registration %d of a software in use, of which half are %d: %s", n, half, answer)
		}
	}
	if n := servers[1].registerHeavyUntilRefused("popular"); n > half || reached.of(authz.LimitClients) != 1 {
		t.Errorf("%d more before the limit for all; limits reached: %v", n, reached.n)
	}
}
