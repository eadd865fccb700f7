package dcr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// registerFrom registers a client of members from an address.
func (f *fixture) registerFrom(t testing.TB, from, members string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(with(members)))
	r.Header.Set("Content-Type", "application/json")
	return serve(t, f.Register(), r.WithContext(fair.WithRequester(r.Context(), netip.MustParseAddr(from))))
}

// mustRegister returns the ids of n clients that an address registered, a second apart.
func (f *fixture) mustRegister(t testing.TB, from, members string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		f.clock.advance(time.Second)
		a := f.registerFrom(t, from, members)
		if a.status != http.StatusCreated {
			t.Fatalf("registration %d from %s: status %d: %s", i, from, a.status, a.raw)
		}
		ids[i] = a.text("client_id")
	}
	return ids
}

func (f *fixture) tend(t testing.TB) {
	t.Helper()
	if err := f.Tend(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// there counts the clients that are left.
func (f *fixture) there(t testing.TB, ids []string) (n int) {
	t.Helper()
	for _, id := range ids {
		if _, err := f.store.Client(context.Background(), id); err == nil {
			n++
		}
	}
	return n
}

// asks notes that a client sent a person to the sign-in page.
func (f *fixture) asks(t testing.TB, id string) {
	t.Helper()
	c, err := f.Current(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	f.Asked(c)
}

// damage makes the record of a client unreadable.
func (f *fixture) damage(t testing.TB, id string) {
	t.Helper()
	key := storage.KeyPrefix + "client:" + id
	if _, err := f.faults.Get(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	put := storage.Put{Key: key, Data: []byte("damaged"), If: storage.Always, Operation: storage.Version{1}}
	if _, err := f.faults.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
}

// elsewhere is another process with the same store.
func (f *fixture) elsewhere(t testing.TB, change func(*dcr.Config)) *fixture {
	t.Helper()
	other := *f
	config := dcr.Config{Store: f.store, Endpoint: registerURL, Now: f.clock.now, Logger: slog.New(slog.NewTextHandler(f.log, nil))}
	change(&config)
	var err error
	if other.Clients, err = dcr.New(config); err != nil {
		t.Fatal(err)
	}
	return &other
}

// TestLookAlikesDoNotPushOut: repeated registrations of the same software do not displace
// clients that registered or sent a person recently, also if they come to another process.
func TestLookAlikesDoNotPushOut(t *testing.T) {
	small := func(c *dcr.Config) { c.MaxUnusedPerSoftware, c.MaxUnused = 3, 1000 }
	f := newFixture(t, small)
	other := f.elsewhere(t, small)
	const software = `"client_name":"Editor"`
	asked := f.mustRegister(t, "198.51.100.1", software, 1)
	idle := f.mustRegister(t, "198.51.100.1", software, 1)
	f.clock.advance(time.Hour)
	f.asks(t, asked[0]) // its person reads the sign-in page
	f.tend(t)
	f.clock.advance(10 * time.Minute)
	young := f.mustRegister(t, "198.51.100.2", software, 2)
	flood := other.mustRegister(t, "192.0.2.1", software, 30)
	f.clock.advance(4 * time.Minute)
	other.tend(t)
	if f.there(t, asked) != 1 || f.there(t, young) != 2 {
		t.Errorf("of one that sent a person 15 minutes ago %d are left, of two young ones %d", f.there(t, asked), f.there(t, young))
	}
	if f.there(t, idle) != 0 {
		t.Error("a client that sent no person for an hour was not removed")
	}
	if f.there(t, flood) != 30 {
		t.Errorf("%d of 30 young ones are left", f.there(t, flood))
	}
	f.asks(t, asked[0])
	f.tend(t)
	f.clock.advance(14*time.Minute + 59*time.Second)
	flood = append(flood, other.mustRegister(t, "192.0.2.1", software, 1)...)
	other.tend(t)
	if f.there(t, asked) != 1 {
		t.Error("it went within 15 minutes of the second request")
	}
	f.clock.advance(time.Hour)
	flood = append(flood, other.mustRegister(t, "192.0.2.1", software, 1)...)
	other.tend(t)
	if n := f.there(t, append(append(asked, young...), flood...)); n != 3 {
		t.Errorf("an hour later %d are left, want 3", n)
	}
}

// TestAskedAgain: that clients sent a person is written after a fault too, for each of them. One that
// cannot be read keeps no other back.
func TestAskedAgain(t *testing.T) {
	f := newFixture(t, nil)
	ids := f.mustRegister(t, "198.51.100.1", "", 3)
	f.tend(t)
	f.clock.advance(time.Hour)
	for _, id := range ids {
		f.asks(t, id)
	}
	f.faults.SetDown(true)
	if err := f.Tend(t.Context()); !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("error %v", err)
	}
	f.faults.SetDown(false)
	f.faults.SetRoom(storage.RoomNone)
	f.tend(t) // it cannot be written, and what it has to remove would be
	f.faults.SetRoom(storage.RoomEnough)
	f.damage(t, ids[0])
	for range 2 {
		if err := f.Tend(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids[1:] {
		if c, err := f.store.Client(t.Context(), id); err != nil || c.Asked.IsZero() {
			t.Errorf("%+v, %v", c, err)
		}
	}
}

// TestAskedMayBeSaidOften: requests to /authorize cause at most one write in five minutes for
// a client, and none for a new or used one.
func TestAskedMayBeSaidOften(t *testing.T) {
	f := newFixture(t, nil)
	id := f.mustRegister(t, "198.51.100.1", "", 1)[0]
	writes := func() int64 {
		f.backend.writes.Store(0)
		for range 20 {
			f.asks(t, id)
			f.tend(t)
		}
		return f.backend.writes.Load()
	}
	if n := writes(); n != 0 {
		t.Errorf("asking for a young client is %d writes", n)
	}
	f.clock.advance(time.Hour)
	if n := writes(); n != 1 {
		t.Errorf("asking 20 times for an old one is %d writes, want 1", n)
	}
	if err := f.uses(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Hour)
	if n := writes(); n != 0 {
		t.Errorf("asking for one that was used is %d writes", n)
	}
}

// TestTheFloodMakesRoom: when there are too many clients, those of the network with most of
// them are removed, and not older ones of others. The clients of one network are bounded too.
func TestTheFloodMakesRoom(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) { c.MaxUnusedPerSoftware, c.MaxUnused = 10, 1000 })
	const software = `"client_name":"Editor"`
	var honest []string
	for i := range 8 {
		honest = append(honest, f.mustRegister(t, fmt.Sprintf("198.51.%d.1", i), software, 1)...)
	}
	var flood []string
	for i := range 20 { // addresses of one /24
		flood = append(flood, f.mustRegister(t, fmt.Sprintf("192.0.2.%d", i), software, 1)...)
	}
	f.clock.advance(settled)
	f.tend(t)
	if f.there(t, honest) != 8 || f.there(t, flood) != 2 {
		t.Errorf("of 8 from others %d are left, of 20 from one network %d; want 8 and 2", f.there(t, honest), f.there(t, flood))
	}

	f = newFixture(t, func(c *dcr.Config) { c.MaxUnused = 50 }) // 5 for one network
	honest = f.mustRegister(t, "2001:db8:1::1", "", 4)
	flood = nil
	for i := range 30 { // many softwares, many networks of one IPv6 /48
		flood = append(flood, f.mustRegister(t, fmt.Sprintf("2001:db8:2:%x::1", i*300), fmt.Sprintf(`"client_name":"%d"`, i), 1)...)
	}
	f.clock.advance(settled)
	f.tend(t)
	if f.there(t, honest) != 4 || f.there(t, flood[:25]) != 0 || f.there(t, flood[25:]) != 5 {
		t.Errorf("of 4 from others %d are left, of 30 from one network %d", f.there(t, honest), f.there(t, flood))
	}
}

// TestFullMeansLater: while too many clients are too new to be removed, registrations are
// answered with 429: from the full network, or from everywhere if there are too many in all.
// Later there is room again.
func TestFullMeansLater(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) { c.MaxUnused = 20 }) // 2 for one network
	refused := func(from string) {
		t.Helper()
		f.backend.writes.Store(0)
		a := f.registerFrom(t, from, "")
		assertRefused(t, f, a, http.StatusTooManyRequests, "temporarily_unavailable")
		if a.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	flood := f.mustRegister(t, "192.0.2.1", "", 10)
	f.tend(t)
	refused("192.0.2.77")
	quiet := f.mustRegister(t, "198.51.100.1", "", 1)
	for i := range 15 {
		quiet = append(quiet, f.mustRegister(t, fmt.Sprintf("203.0.%d.1", i), "", 1)...)
	}
	f.tend(t)
	refused("203.0.113.1")
	f.clock.advance(settled)
	f.tend(t)
	if f.there(t, quiet) != 16 || f.there(t, flood) > 2 {
		t.Errorf("of 16 quiet ones %d are left, of the flood %d", f.there(t, quiet), f.there(t, flood))
	}
	f.mustRegister(t, "203.0.113.1", "", 1)
	f.mustRegister(t, "192.0.2.77", "", 1)
}

// TestCacheIsWeighed: the cache of clients is bounded by their size.
func TestCacheIsWeighed(t *testing.T) {
	for length, want := range map[int][2]int{100: {300, 300}, 60_000: {100, 290}} {
		f := newFixture(t, nil)
		ids := make([]string, 300)
		for i := range ids {
			ids[i] = fmt.Sprint("client-", i)
			c := storage.Client{ID: ids[i], Source: storage.ClientRegistered, Localized: map[string]string{"tos_uri#de": strings.Repeat("a", length)}}
			if err := f.store.CreateClient(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Resolve(context.Background(), ids[i]); err != nil {
				t.Fatal(err)
			}
		}
		f.backend.gets.Store(0)
		for i := len(ids) - 1; i >= 0; i-- { // the newest first
			if _, err := f.Resolve(context.Background(), ids[i]); err != nil {
				t.Fatal(err)
			}
		}
		if cached := len(ids) - int(f.backend.gets.Load()); cached < want[0] || cached > want[1] {
			t.Errorf("of 300 clients of %d bytes %d were cached, want %d to %d", length, cached, want[0], want[1])
		}
	}
}

// TestTightStore: while the store is short of memory, registrations and changes of them are
// refused, everything else about clients works, and unused clients are removed.
func TestTightStore(t *testing.T) {
	f := newFixture(t, nil)
	old := f.mustRegister(t, "192.0.2.1", "", 250)
	f.clock.advance(settled)
	m := f.register(t, "")
	f.faults.SetRoom(storage.RoomTight)
	f.backend.writes.Store(0)
	for _, a := range []answer{f.post(t, minimal), f.put(t, m.id, m.update(""), m.bearer())} {
		assertRefused(t, f, a, http.StatusServiceUnavailable, "temporarily_unavailable")
		if a.header.Get("Retry-After") != "60" || !strings.Contains(a.text("error_description"), "nearly full") {
			t.Errorf("%s: %s", a.header.Get("Retry-After"), a.raw)
		}
	}
	if a := f.get(t, m.id, m.bearer()); a.status != http.StatusOK {
		t.Errorf("reading: %d %s", a.status, a.raw)
	}
	f.clock.advance(time.Minute) // m is still young
	f.tend(t)
	if n := f.there(t, old); n != 50 {
		t.Errorf("of 250 unused clients %d are left after one round, want 50", n)
	}
	f.tend(t)
	if n := f.there(t, append(old, m.id)); n != 1 {
		t.Errorf("%d are left, want only the young one", n)
	}
	f.faults.SetRoom(storage.RoomEnough)
	if a := f.put(t, m.id, m.update(""), m.bearer()); a.status != http.StatusOK {
		t.Errorf("with room again: %d %s", a.status, a.raw)
	}
	f.register(t, "")
}

// TestNetworkIsNoAddress: a record holds a pseudonym of the network that registered a client,
// until the client is used.
func TestNetworkIsNoAddress(t *testing.T) {
	f := newFixture(t, nil)
	a, b := f.mustRegister(t, "192.0.2.1", "", 1)[0], f.mustRegister(t, "192.0.2.200", "", 1)[0]
	c := f.mustRegister(t, "198.51.100.1", "", 1)[0]
	one := f.stored(t, a).Network
	if one == "" || strings.Contains(one, "192") || one != f.stored(t, b).Network || one == f.stored(t, c).Network {
		t.Errorf("networks %q, %q, %q", one, f.stored(t, b).Network, f.stored(t, c).Network)
	}
	if err := f.uses(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	if got := f.stored(t, a).Network; got != "" {
		t.Errorf("a client that was used still names %q", got)
	}
	f.tend(t)
}
