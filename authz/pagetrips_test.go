package authz_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// ledger is a backend that writes down its round trips: what is done, and with which kinds of
// records.
type ledger struct {
	storage.Backend

	mu    sync.Mutex
	trips []string
}

func (l *ledger) note(op string, keys ...string) {
	for i, key := range keys {
		keys[i], _, _ = strings.Cut(strings.TrimPrefix(key, storage.KeyPrefix), ":")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trips = append(l.trips, op+" "+strings.Join(keys, " "))
}

func (l *ledger) Get(ctx context.Context, key string) (storage.Item, error) {
	l.note("read", key)
	return l.Backend.Get(ctx, key)
}

func (l *ledger) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	l.note("read", slices.Clone(keys)...)
	return l.Backend.GetMany(ctx, keys)
}

func (l *ledger) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if !put.Confirmation {
		l.note("write", put.Key)
	}
	return l.Backend.Put(ctx, put)
}

func (l *ledger) Delete(ctx context.Context, key string) error {
	l.note("delete", key)
	return l.Backend.Delete(ctx, key)
}

func (l *ledger) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	l.note("list", index)
	return l.Backend.IndexPage(ctx, index, after, limit)
}

func (l *ledger) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	l.note("list", index)
	return l.Backend.IndexPageBefore(ctx, index, before, limit)
}

func (l *ledger) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	l.note("count", c.Pool)
	return l.Backend.Count(ctx, c)
}

// watched puts a ledger between a harness and its store.
func (h *harness) watched() *ledger {
	h.t.Helper()
	l := &ledger{Backend: h.meter}
	store, err := storage.New(l, storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{masterKey}, Now: h.clock.Now, WriteTime: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	h.cfg.Store = store
	h.restart()
	return l
}

// during returns the round trips of a request, of which the store itself must have counted as many.
func (l *ledger) during(h *harness, request func()) []string {
	h.t.Helper()
	l.mu.Lock()
	l.trips = nil
	l.mu.Unlock()
	before := h.roundTrips.Load()
	request()
	n := h.roundTrips.Load() - before
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(n) != len(l.trips) {
		h.t.Errorf("the store counts %d round trips, these are %d: %q", n, len(l.trips), l.trips)
	}
	return slices.Clone(l.trips)
}

// step is a request of a flow and its round trips, each on a line.
type step struct {
	name  string
	do    func()
	trips string
}

// wantTrips takes the steps and compares the round trips of each. It returns their number.
func (h *harness) wantTrips(l *ledger, steps ...step) (sum int) {
	h.t.Helper()
	for _, s := range steps {
		got := l.during(h, s.do)
		sum += len(got)
		if all := strings.Join(got, ", "); all != s.trips {
			h.t.Errorf("%s:\n got %s\nwant %s", s.name, all, s.trips)
		}
	}
	return sum
}

// The round trips of the requests of a code flow in a process that has seen the session before.
const (
	tripsPage     = "read transaction client session user consent"
	tripsAllow    = tripsPage + ", write transaction, write grant, read client session user"
	tripsExchange = "read grant, write grant"
)

// pages are the requests of a code flow of one browser.
type pages struct {
	*browser
	request url.Values
	c       testClient
}

func (p pages) authorize() { p.open(p.h.issuer + "/authorize?" + p.request.Encode()) }
func (p pages) next()      { p.follow() }
func (p pages) wrong()     { p.submit("username", personName, "password", "wrong") }
func (p pages) password()  { p.submit("username", personName, "password", personPassword) }
func (p pages) exchange() {
	p.h.t.Helper()
	r := p.h.toToken(p.c, replaced(redemption(p.c, p.last.location(p.h.t).Query().Get("code")), "resource", p.request.Get("resource")))
	if r.status != http.StatusOK {
		p.h.t.Errorf("the exchange: %s", r)
	}
}

// allow returns a decision with more inputs.
func (p pages) allow(pairs ...string) func() {
	return func() {
		_, values := p.page.inputs(p.h.t)
		p.submit(append([]string{"decision", "allow", "scope", values["scope"][0]}, pairs...)...)
	}
}

// TestPageRoundTrips lists the round trips to the store of each request of the code flow.
// docs/design.md promises their numbers.
func TestPageRoundTrips(t *testing.T) {
	t.Parallel()
	var events atomic.Int64
	h, c := newHarness(t, setup{config: func(c *authz.Config) { c.Audit = func(audit.Event) { events.Add(1) } }}), testClients()["web"]
	l, p := h.watched(), pages{h.newBrowser(), replaced(asks(c), "scope", "notes:read"), c}
	h.wantTrips(l, // somebody who is not signed in, with a client that was never used
		step{"authorize", p.authorize, "read client"},
		step{"sign-in form", p.next, "read transaction client"},
		step{"a wrong password", p.wrong, "read transaction client, read user, count sign-in"},
		step{"the password", p.password, "read transaction client, read user, count sign-in, write session"},
		step{"consent form", p.next, tripsPage},
		step{"allow", p.allow(), tripsPage + ", write client, write transaction, write grant, read client session user"},
		step{"exchange", p.exchange, tripsExchange},
	)
	if n := h.wantTrips(l, // the whole flow of somebody who is signed in
		step{"authorize", p.authorize, "read client session user consent"},
		step{"consent form", p.next, tripsPage},
		step{"allow", p.allow(), tripsAllow},
		step{"exchange", p.exchange, tripsExchange},
	); n != 8 {
		t.Errorf("%d round trips, docs/design.md says 8", n)
	}
	if events.Load() == 0 {
		t.Error("the audit trail is empty")
	}
	h.wantTrips(l, // to be asked no more, and an answer without a page
		step{"authorize", p.authorize, "read client session user consent"},
		step{"consent form", p.next, tripsPage},
		step{"allow for good", p.allow("remember", "always"), tripsAllow + ", read consent, write consent, read grant"},
		step{"authorize", p.authorize, "read client session user consent, write grant, read client session user consent"},
		step{"exchange", p.exchange, tripsExchange},
	)
	h.restart()
	p.request.Set("prompt", "consent")
	h.wantTrips(l, // another process reads the person after the session, once
		step{"authorize", p.authorize, "read client session, read user consent"},
		step{"consent form", p.next, tripsPage},
		step{"decline", func() { p.submit("decision", "deny") }, tripsPage + ", read consent, delete consent, write transaction"},
		step{"a page of one's own", func() { p.open(h.issuer + "/account/password") }, "read session user"},
	)
}

// TestPageRoundTripsOfFactors lists those of a sign-in with a second factor.
func TestPageRoundTripsOfFactors(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	_, app, _ := h.withFactor()
	l, p := h.watched(), pages{h.newBrowser(), asks(c), c}
	h.wantTrips(l,
		step{"authorize", p.authorize, "read client"},
		step{"sign-in form", p.next, "read transaction client"},
		step{"the password", p.password, "read transaction client, read user, count sign-in"},
		step{"form for the code", p.next, "read transaction user"},
		step{"a wrong code", func() { p.submit("code", "000000") }, "read transaction user, count sign-in"},
		step{"the code", func() { p.submit("code", app.code()) }, "read transaction user, count sign-in, write user, write session"},
		step{"consent form", p.next, tripsPage},
	)
}

// TestPageRoundTripsBeside lists the round trips of requests that other features take part in.
func TestPageRoundTripsBeside(t *testing.T) {
	t.Parallel()
	c := testClients()["web"]
	for name, tt := range map[string]struct {
		request url.Values
		before  func(h *harness)
		config  func(c *authz.Config)
		steps   func(p pages) []step
	}{
		"a client of the configuration": {asks(c), nil, func(cfg *authz.Config) {
			known := c.Client
			known.Source = storage.ClientConfigured
			cfg.Clients = []storage.Client{known}
		}, func(p pages) []step {
			return []step{
				{"authorize", p.authorize, "read session user consent"},
				{"consent form", p.next, "read transaction session user consent"},
				{"allow", p.allow(), "read transaction session user consent, write transaction, write grant, read session user"},
				{"exchange", p.exchange, tripsExchange},
			}
		}},
		"a transaction that is a record": {replaced(asks(c), "state", strings.Repeat("s", 1700)), nil, nil, func(p pages) []step {
			return []step{
				{"authorize", p.authorize, "read client session user consent, write transaction"},
				{"consent form", p.next, "read transaction session user, read user consent, read client"},
				{"allow", p.allow(), "read transaction session user, read user consent, read client, write client, write transaction, write grant, read client session user"},
				{"exchange", p.exchange, tripsExchange},
			}
		}},
		"a resource of the store": {replaced(asks(c), "resource", wiki), func(h *harness) {
			h.add(authz.NewResource{Resource: wikiResource()})
		}, nil, func(p pages) []step {
			return []step{
				{"authorize, after some time", func() { p.h.clock.advance(seen); p.authorize() }, "read client session user consent, read resource-state"},
				{"consent form", p.next, tripsPage},
				{"allow", p.allow(), tripsPage + ", write client, write transaction, write grant, read client session user"},
				{"exchange", p.exchange, tripsExchange},
			}
		}},
		"a resource for a group": {asks(c), func(h *harness) {
			if _, err := admin.AddGroup(t.Context(), h.store, "staff"); err != nil {
				t.Fatal(err)
			}
			h.join("staff")
		}, func(cfg *authz.Config) { cfg.Resources[0].Allow = authz.Allow{Groups: []string{"staff"}} }, func(p pages) []step {
			return []step{
				{"authorize", p.authorize, "read client session user consent, read group"},
				{"consent form", p.next, tripsPage},
				{"allow", p.allow(), tripsPage + ", write client, write transaction, write grant, read client session user"},
				{"exchange", p.exchange, "read grant user, write grant"},
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: tt.config})
			b := h.newBrowser()
			b.signInForAccount(personName)
			if tt.before != nil {
				tt.before(h)
			}
			l := h.watched()
			b.open(h.issuer + "/account/password") // this process has seen the session
			h.wantTrips(l, tt.steps(pages{b, tt.request, c})...)
		})
	}
}
