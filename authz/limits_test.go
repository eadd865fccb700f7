package authz_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
)

// asked sends a request as if from an address behind a proxy.
func (h *harness) asked(from, method, path string) reply {
	h.t.Helper()
	r := h.newRequest(method, path, nil)
	r.Header.Set("X-Forwarded-For", from)
	return h.send(r)
}

// endpoints returns the paths of all endpoints but some, with x for each variable part. A slash at the
// end of a path makes no other endpoint.
func (h *harness) endpoints(but ...string) (paths []string) {
	h.t.Helper()
	all, err := h.handler.Load().Paths()
	if err != nil || len(all) < 20 {
		h.t.Fatalf("%d endpoints: %v", len(all), err)
	}
	for _, path := range all {
		path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
		if !slices.Contains(but, path) && !slices.Contains(but, strings.TrimSuffix(path, "/")) {
			paths = append(paths, path)
		}
	}
	return paths
}

// limitsReached is the observations of limits, by limit.
type limitsReached struct {
	mu sync.Mutex
	n  map[authz.Limit]int
}

func (l *limitsReached) observe(o authz.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.What == authz.LimitReached {
		l.n[o.Limit]++
	}
}

func (l *limitsReached) of(name authz.Limit) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[name]
}

// TestRequestLimits: an address sends so many requests of each kind in a minute. Those beyond get 429
// with the time to wait, an OAuth error or a page, before anything is read or written; other
// addresses and other kinds are not affected.
func TestRequestLimits(t *testing.T) {
	t.Parallel()
	reached := &limitsReached{n: map[authz.Limit]int{}}
	h := newHarness(t, setup{config: func(c *authz.Config) {
		behindProxy(c)
		c.Observe = reached.observe
		c.Limits = authz.Limits{Token: 2, Introspection: 2, Registration: 2, Documents: 2, Pages: 2}
	}})
	address := 0
	var listed []string
	for _, kind := range []struct {
		limit        authz.Limit
		method       string
		paths        []string
		page, anyone bool // answers are pages; pages of any origin may read them
	}{
		{authz.LimitToken, "POST", []string{"/token", "/revoke"}, false, true},
		{authz.LimitIntrospection, "POST", []string{"/introspect"}, false, false},
		{authz.LimitRegistration, "POST", []string{"/register", "/register/x"}, false, true},
		{authz.LimitDocuments, "GET", []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks.json"}, false, true},
		{authz.LimitPages, "GET", nil, true, false}, // all others
	} {
		if kind.paths == nil {
			kind.paths = h.endpoints(append(listed, "/healthz")...)
		}
		listed = append(listed, kind.paths...)
		for _, path := range kind.paths {
			address++
			from := "192.0.2." + strconv.Itoa(address)
			if address%2 == 0 {
				from = "2001:db8:" + strconv.Itoa(address) + "::1"
			}
			for range 2 {
				if answer := h.asked(from, kind.method, path); answer.status == http.StatusTooManyRequests {
					t.Fatalf("%s is refused too early: %s", path, answer)
				}
			}
			trips, seen := h.roundTrips.Load(), reached.of(kind.limit)
			refused := h.asked(from, kind.method, path)
			wait, _ := strconv.Atoi(refused.header.Get("Retry-After"))
			isPage := strings.HasPrefix(refused.header.Get("Content-Type"), "text/html")
			isOpen := refused.header.Get("Access-Control-Allow-Origin") == "*"
			if refused.status != http.StatusTooManyRequests || wait < 1 || wait > 30 || isPage != kind.page || isOpen != kind.anyone || refused.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s beyond the limit: %s", path, refused)
			}
			if !kind.page && (refused.member(t, "error") != "temporarily_unavailable" || refused.member(t, "error_description") == "") {
				t.Errorf("%s: not an error of OAuth: %s", path, refused)
			}
			if h.roundTrips.Load() != trips || reached.of(kind.limit) != seen+1 {
				t.Errorf("%s: %d round trips, and %d sightings of the limit, want 0 and 1", path, h.roundTrips.Load()-trips, reached.of(kind.limit)-seen)
			}
			for _, other := range [][3]string{{"198.51.100.7", kind.method, path}, {from, "GET", "/healthz"}} {
				if answer := h.asked(other[0], other[1], other[2]); answer.status == http.StatusTooManyRequests {
					t.Errorf("%v is refused: %s", other, answer)
				}
			}
			h.clock.advance(time.Duration(wait) * time.Second)
			if answer := h.asked(from, kind.method, path); answer.status == http.StatusTooManyRequests {
				t.Errorf("%s is refused after the time to wait: %s", path, answer)
			}
			h.clock.advance(time.Minute)
		}
	}
}

// TestLimitsAreReplaced: another configuration of a running server has other limits; below zero there
// is none. What was spent stays spent.
func TestLimitsAreReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Limits.Documents = 1 }})
	passes := func(want bool) {
		t.Helper()
		if answer := h.get("/jwks.json"); (answer.status == http.StatusOK) != want {
			t.Errorf("want an answer %v: %s", want, answer)
		}
	}
	passes(true)
	passes(false)
	for _, step := range []struct {
		limit         int
		valid, passes bool
	}{{1, true, false}, {-1, true, true}, {1 << 40, false, true}} {
		h.cfg.Limits.Documents = step.limit
		if err := h.handler.Load().Reload(t.Context(), h.cfg); (err == nil) != step.valid {
			t.Errorf("%d: %v", step.limit, err)
		}
		passes(step.passes)
	}
}

// TestClientLimit: a client sends so many requests to the token endpoint from one address. Whoever
// uses the id of a public client does not use up the limit of others; a client with credentials has a
// limit from everywhere too.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) {
		behindProxy(c)
		c.Limits.Client = 2
	}})
	ask := func(c testClient, from string) int {
		t.Helper()
		r := h.newRequest(http.MethodPost, "/token", refreshing(c, "hello"))
		if c.secret != "" {
			r.SetBasicAuth(c.ID, c.secret)
		}
		r.Header.Set("X-Forwarded-For", from)
		return h.send(r).status
	}
	public, secret := testClients()["native"], testClients()["basic"]
	for _, c := range []testClient{public, secret} {
		for i, want := range []int{400, 400, 429} {
			if status := ask(c, "192.0.2.1"); status != want {
				t.Errorf("%s: request %d gets %d, want %d", c.ID, i, status, want)
			}
		}
		if status := ask(c, "192.0.2.2"); status != 400 {
			t.Errorf("%s from another address gets %d", c.ID, status)
		}
	}
	refused := 0
	for i := range 20 {
		if status := ask(public, "198.51.100."+strconv.Itoa(i)); status != 400 {
			t.Errorf("the public client is refused to address %d: %d", i, status)
		}
		if ask(secret, "198.51.100."+strconv.Itoa(i)) == 429 {
			refused++
		}
	}
	if refused != 15 { // of eight, three were used
		t.Errorf("%d requests of the client with a secret were refused, want 15", refused)
	}
}

// TestAFloodTakesNoPlaceOfAnother: while all registrations that may be worked on at a time hang in the
// store, and more wait, the other endpoints answer.
func TestAFloodTakesNoPlaceOfAnother(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	held := h.newBrowser().tokens(testClients()["native"], asks(testClients()["native"]))
	places := 16 * runtime.GOMAXPROCS(0)
	arrived, release := make(chan struct{}, places+8), make(chan struct{})
	hook := func(op, _ string) {
		if op == "count" {
			arrived <- struct{}{}
			<-release
		}
	}
	h.meter.before.Store(&hook)
	var all sync.WaitGroup
	for range places + 8 {
		all.Go(func() {
			if answer := h.registerFrom("192.0.2.1", "one"); answer.status != http.StatusCreated {
				t.Errorf("a registration that waited: %s", answer)
			}
		})
	}
	for range places {
		<-arrived
	}
	h.answersMeanwhile(held)
	if n := len(arrived); n > 0 {
		t.Errorf("%d registrations more than the places are worked on", n)
	}
	close(release)
	all.Wait()
}

// answersMeanwhile checks that tokens are refreshed and introspected while others hold something.
func (h *harness) answersMeanwhile(held tokens) {
	h.t.Helper()
	c := testClients()["native"]
	if answer := h.toToken(c, refreshing(c, held.refresh)); answer.status != http.StatusOK {
		h.t.Errorf("a refresh meanwhile: %s", answer)
	}
	if answer := h.introspect(held.access); answer.status != http.StatusOK {
		h.t.Errorf("an introspection meanwhile: %s", answer)
	}
}

// stuckWriter is the connection of a client that does not read.
type stuckWriter struct {
	*httptest.ResponseRecorder
	arrived chan<- struct{}
	reads   <-chan struct{}
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	w.arrived <- struct{}{}
	<-w.reads
	return w.ResponseRecorder.Write(b)
}

// TestNobodyWaitsForSlowReaders: as many clients as may be worked on at a time do not read their
// answers, and others get theirs.
func TestNobodyWaitsForSlowReaders(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	held := h.newBrowser().tokens(testClients()["native"], asks(testClients()["native"]))
	places := 16 * runtime.GOMAXPROCS(0)
	arrived, reads := make(chan struct{}, 3*places), make(chan struct{})
	var all sync.WaitGroup
	for _, path := range []string{"/token", "/introspect", "/register"} {
		for range places {
			all.Go(func() {
				h.handler.Load().ServeHTTP(&stuckWriter{httptest.NewRecorder(), arrived, reads}, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
			})
			<-arrived
		}
	}
	h.answersMeanwhile(held)
	if answer := h.registerFrom("192.0.2.1", "one"); answer.status != http.StatusCreated {
		t.Errorf("a registration meanwhile: %s", answer)
	}
	close(reads)
	all.Wait()
}

// TestLogoutOfProvidersIsLimited: what says that it comes from a provider has the limit of the token
// endpoint, because anybody can send it.
func TestLogoutOfProvidersIsLimited(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) {
		behindProxy(c)
		c.Limits = authz.Limits{Token: 2}
	})
	for i, limited := range []bool{false, false, true} {
		if answer := p.asked("192.0.2.1", http.MethodPost, "/login/company/logout"); (answer.status == http.StatusTooManyRequests) != limited {
			t.Errorf("request %d: %s", i, answer)
		}
	}
	if answer := p.asked("198.51.100.7", http.MethodPost, "/login/company/logout"); answer.status == http.StatusTooManyRequests {
		t.Errorf("another address: %s", answer)
	}
}
