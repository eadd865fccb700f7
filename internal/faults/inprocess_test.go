//go:build e2e

package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// front is an authorization server inside the test program, where its goroutines can be counted.
// As a process it takes requests over a loopback connection.
type front struct {
	*process
	server *authz.Server
	store  *storage.Store

	trip    atomic.Pointer[func()] // called before each round trip to the store
	running atomic.Int64           // requests that are being answered

	mu    sync.Mutex
	conns []net.Conn // the connections of requests
}

// newFront starts a front whose store is at a URL. Fronts of one fleet are one server.
func newFront(t testing.TB, f *fleet, store string) *front {
	t.Helper()
	s := &front{process: &process{fleet: f}}
	backend, err := redis.Open(t.Context(), redis.Options{URL: store, OnRoundTrip: s.roundTrip})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	key, _ := base64.StdEncoding.DecodeString(f.config.MasterKeys)
	if s.store, err = storage.New(backend, storage.Options{Issuer: f.issuer, MasterKeys: [][]byte{key}}); err != nil {
		t.Fatal(err)
	}
	s.server, err = authz.New(t.Context(), authz.Config{
		Issuer: f.issuer, Store: s.store, Registration: authz.RegistrationOpen,
		Resources: []authz.Resource{{
			URI: resource, Name: "Notes", Scopes: []authz.Scope{{Name: "notes:read", Description: "Read your notes."}},
			Introspection: &authz.IntrospectionClient{ID: resource, Secret: introspectionSecret},
		}},
		CodeTTL: 10 * time.Minute, RefreshWindow: 10 * time.Minute,
		Logger: slog.New(slog.NewTextHandler(&s.output, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.listen(t)
	return s
}

// listen begins to answer.
func (s *front) listen(t testing.TB) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Add(-1)
		s.server.ServeHTTP(w, r)
	}))
	s.address = web.Listener.Addr().String()
	transport := &http.Transport{
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, s.address)
			if err == nil {
				s.mu.Lock()
				s.conns = append(s.conns, conn)
				s.mu.Unlock()
			}
			return conn, err
		},
	}
	s.client = &http.Client{Transport: transport, Timeout: answerTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		web.Close()
		if t.Failed() {
			t.Logf("the server at %s, the end of its log:\n%s", s.address, s.output.String())
		}
	})
}

// run runs the background work of the server until the test ends.
func (s *front) run(t testing.TB) {
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = s.server.Run(ctx) })
	t.Cleanup(func() { stop(); work.Wait() })
}

func (s *front) roundTrip() {
	if trip := s.trip.Load(); trip != nil {
		(*trip)()
	}
}

// hangUp closes the connections of all requests.
func (s *front) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// warm opens connections to the store, so that faults hit commands and not the handshake. It
// waits until the store is reached.
func (s *front) warm(t testing.TB) {
	t.Helper()
	eventually(t, returnTime, func() error { return s.server.Ready(t.Context()) })
	crowd(4, 16, func(int) { _ = s.server.Ready(t.Context()) })
}

// awaitIdle waits until no request is being answered any more, including those of clients that
// have disconnected.
func (s *front) awaitIdle(t testing.TB) {
	t.Helper()
	eventually(t, promisedTime, func() error {
		if n := s.running.Load(); n > 0 {
			return fmt.Errorf("%d requests are being answered", n)
		}
		return nil
	})
}

// site is one server with two fronts over one Redis: requests under test go to the first one,
// whose connection to Redis can be broken, and other requests to the other one.
type site struct {
	*front
	aside *front
	redis *redistest.Server
	proxy *redistest.Proxy
	way   *party // a client and a signed-in person
}

func newSite(t testing.TB) *site {
	t.Helper()
	server := redistest.Start(t, redistest.Config{})
	s := &site{redis: server, proxy: redistest.StartProxy(t, server.Addr)}
	f := newFleet(t, fleetConfig{Store: server.URL()})
	s.aside = newFront(t, f, server.URL())
	s.front = newFront(t, f, "redis://"+s.proxy.Addr)
	if _, err := admin.AddUser(t.Context(), s.aside.store, personName, personPassword); err != nil {
		t.Fatal(err)
	}
	s.way = f.newParty(s.aside.process)
	return s
}

// sites returns n sites.
func sites(t testing.TB, n int) []*site {
	t.Helper()
	all := make([]*site, n)
	for i := range all {
		all[i] = newSite(t)
	}
	return all
}

// as returns the party of the site for a test.
func (s *site) as(t testing.TB) *party {
	p := *s.way
	p.t = t
	return &p
}

// filled is a form as a browser sends it. It can be sent any number of times.
type filled struct {
	client  string // of the request
	address string
	values  url.Values
	header  http.Header
}

func (f filled) request() *http.Request {
	r := newForm(f.address, f.values)
	r.Header = f.header.Clone()
	return r
}

// with returns the form with another value.
func (f filled) with(name, value string) filled {
	values := url.Values{}
	for n, v := range f.values {
		values[n] = v
	}
	values.Set(name, value)
	f.values = values
	return f
}

// form has the browser of a jar ask for a code for the client of a party, until there is a form
// to be sent: that of the sign-in, or that of the consent when the person is signed in.
func (s *site) form(t testing.TB, p *party, jar http.CookieJar) filled {
	t.Helper()
	browser := *s.aside.client
	browser.Jar = jar
	r := newRequest(http.MethodGet, p.authorizeURL(), "")
	for range 4 {
		a, resp := s.aside.send("page", &browser, r)
		if a.outcome() != granted {
			t.Fatal(a)
		}
		var err error
		if r, _, err = p.next(resp, a.body); err != nil {
			t.Fatal(err)
		}
		if r.Method == http.MethodPost {
			break
		}
	}
	body, _ := io.ReadAll(r.Body)
	values, err := url.ParseQuery(string(body))
	if err != nil || r.Method != http.MethodPost {
		t.Fatalf("there is no form: %s %s: %v", r.Method, r.URL, err)
	}
	for _, cookie := range jar.Cookies(r.URL) {
		r.AddCookie(cookie)
	}
	return filled{p.id, r.URL.String(), values, r.Header}
}

// newJar returns a browser without cookies.
func newJar(t testing.TB) http.CookieJar {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return jar
}

// clients returns the ids of the clients with a name that are on record.
func (s *site) clients(t testing.TB, name string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for c, err := range s.aside.store.Clients(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Metadata.ClientName == name {
			found[c.ID] = true
		}
	}
	return found
}

// ambush begins trouble between a request and the store, right before one of the round trips from
// now on.
type ambush struct {
	site    *site
	trouble trouble
	at      int
	struck  chan struct{} // closed when the trouble has begun

	mu   sync.Mutex
	seen int
	over bool
}

// trouble is a fault between a server and its store.
type trouble struct {
	name  string
	begin func(*site)
	end   func(*site) // nil: Clear
	// once is set if the trouble has ended before the next round trip begins. Other trouble ends
	// with the ambush.
	once bool
	// all is set for trouble that affects all later round trips too: it begins with the first.
	all bool
	// goes is set if the senders disconnect.
	goes bool
	// span is how long the trouble lasts in a crowd.
	span time.Duration
}

// lay lays an ambush before the round trip with the number at, counted from 1.
func (s *site) lay(x trouble, at int) *ambush {
	a := &ambush{site: s, trouble: x, at: at, struck: make(chan struct{})}
	trip := a.trip
	s.trip.Store(&trip)
	return a
}

func (a *ambush) trip() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	switch {
	case a.over:
	case a.seen == a.at:
		a.trouble.begin(a.site)
		close(a.struck)
	case a.seen > a.at && a.trouble.once:
		a.finish()
	}
}

// strikes ends the ambush, but not its trouble. It reports whether there was any.
func (a *ambush) strikes() bool {
	a.site.trip.Store(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen >= a.at
}

// lift ends the ambush and its trouble. It reports whether there was any.
func (a *ambush) lift() (struck bool) {
	a.site.trip.Store(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	struck = a.seen >= a.at
	if struck && !a.over {
		a.finish()
	}
	a.over = true
	return struck
}

func (a *ambush) finish() {
	a.over = true
	a.trouble.finish(a.site)
}

func (x trouble) finish(s *site) {
	if x.end != nil {
		x.end(s)
		return
	}
	s.proxy.Clear()
}

// hush closes the idle connections: those of the requests, and those to the store, for which the
// proxy has goroutines.
func (s *site) hush() {
	s.client.CloseIdleConnections()
	s.aside.client.CloseIdleConnections()
	s.proxy.Reset()
}

// quiet returns the number of goroutines when these sites are idle. It varies, so the least of a
// while counts.
func quiet(all []*site) int {
	least := runtime.NumGoroutine()
	for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; <-time.After(10 * time.Millisecond) {
		for _, s := range all {
			s.hush()
		}
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// mustCalmDown expects that soon there are no more goroutines than before.
func mustCalmDown(t *testing.T, all []*site, before int) {
	t.Helper()
	eventually(t, patience, func() error {
		for _, s := range all {
			s.hush()
		}
		n := runtime.NumGoroutine()
		if n <= before {
			return nil
		}
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return fmt.Errorf("%d goroutines, there were %d:\n%s", n, before, &stacks)
	})
}
