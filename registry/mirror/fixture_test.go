package mirror_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// newCatalogue opens a catalogue in an embedded store with fault injection.
func newCatalogue(t *testing.T) (*catalogue.Catalogue, *storagetest.Faults) {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	faults := storagetest.NewFaults(backend)
	return cataloguetest.New(t, faults), faults
}

// waiting is a clock that advances by each wait.
type waiting struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *waiting) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *waiting) Wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	return ctx.Err()
}

// waited returns the waits since the last call.
func (c *waiting) waited() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.waits
	c.waits = nil
	return waits
}

// logs collects log lines.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fixture is an upstream, a catalogue, and a mirror between them.
type fixture struct {
	*testing.T
	upstream  *registrytest.Upstream
	catalogue *catalogue.Catalogue
	faults    *storagetest.Faults
	clock     *waiting
	logs      *logs
	keeper    *mirror.Mirror
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	m := &fixture{T: t, upstream: registrytest.New(t), clock: &waiting{now: registrytest.Epoch.Add(24 * time.Hour)}, logs: &logs{}}
	m.catalogue, m.faults = newCatalogue(t)
	m.restart(nil)
	return m
}

func newClient(t *testing.T, c upstream.Config) *upstream.Client {
	t.Helper()
	client, err := upstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// restart replaces the mirror by a new one over the same catalogue, as another process would.
func (m *fixture) restart(adjust func(*mirror.Config)) {
	m.Helper()
	c := mirror.Config{
		Catalogue: m.catalogue, Client: newClient(m.T, upstream.Config{Base: m.upstream.URL(), Now: m.clock.Now, PageSize: 10}),
		Now: m.clock.Now, Wait: m.clock.Wait, Random: func() float64 { return 0.5 }, MetaKey: "com.example.registry/catalogue",
		Logger: slog.New(slog.NewTextHandler(m.logs, nil)),
	}
	if adjust != nil {
		adjust(&c)
	}
	var err error
	if m.keeper, err = mirror.New(c); err != nil {
		m.Fatal(err)
	}
}

// sync does a round that must succeed.
func (m *fixture) sync(o mirror.SyncOptions) mirror.Report {
	m.Helper()
	report, err := m.keeper.SyncWith(m.Context(), o)
	if err != nil {
		m.Fatalf("%v\n%s", err, m.logs)
	}
	return report
}

// fails does a round that must fail.
func (m *fixture) fails() (mirror.Report, error) {
	m.Helper()
	report, err := m.keeper.Sync(m.Context())
	if err == nil {
		m.Fatalf("the round ended well: %+v", report)
	}
	return report, err
}

// later advances the clock.
func (m *fixture) later(d time.Duration) {
	m.clock.mu.Lock()
	defer m.clock.mu.Unlock()
	m.clock.now = m.clock.now.Add(d)
}

func (m *fixture) status() mirror.Status {
	m.Helper()
	s, err := m.keeper.Status(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return s
}

// lose removes every record from the store, as a store without persistence does when it restarts.
func (m *fixture) lose() {
	m.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		keys, next, err := m.faults.Scan(m.Context(), "", cursor, 100)
		if err != nil {
			m.Fatal(err)
		}
		for _, key := range keys {
			if err := m.faults.Delete(m.Context(), key); err != nil {
				m.Fatal(err)
			}
		}
		cursor = next
	}
}

// rows returns the rows of a query, by name and version.
func (m *fixture) rows(q catalogue.Query) map[string]catalogue.Entry {
	m.Helper()
	rows := map[string]catalogue.Entry{}
	for after, more := "", true; more; {
		page, err := m.catalogue.Page(m.Context(), q, after, 100)
		if err != nil {
			m.Fatal(err)
		}
		for _, e := range page.Entries {
			rows[e.Name+" "+e.Version] = e
		}
		after, more = page.Next, page.More
	}
	return rows
}

// listed returns the rows that are not deleted.
func (m *fixture) listed() []string {
	m.Helper()
	return slices.Sorted(maps.Keys(m.rows(catalogue.Query{})))
}

func (m *fixture) entry(name, version string) catalogue.Entry {
	m.Helper()
	e, err := m.catalogue.Entry(m.Context(), name, version)
	if err != nil {
		m.Fatalf("%s %s: %v", name, version, err)
	}
	return e
}

// asked returns the queries of the requests since the last call.
func (m *fixture) asked() []string {
	asked := m.upstream.Requests()
	m.upstream.Forget()
	return asked
}

// body returns the URL of an upstream that answers every request with the same body.
func body(t *testing.T, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answering replaces the upstream by one that answers every request with the same body.
func (m *fixture) answering(list string) {
	m.Helper()
	m.restart(func(c *mirror.Config) {
		c.Client = newClient(m.T, upstream.Config{Base: body(m.T, list), Now: m.clock.Now})
	})
}

// readWhole reads the catalogue in one page and checks its consistency: each server has one
// latest version, and the servers are whole pages of ten from the beginning of the list.
func (m *fixture) readWhole(ctx context.Context) {
	page, err := m.catalogue.Page(ctx, catalogue.Query{}, "", 1000)
	if err != nil {
		if ctx.Err() == nil {
			m.Error(err)
		}
		return
	}
	servers, latest := map[string]int{}, map[string]int{}
	for _, e := range page.Entries {
		servers[e.Name]++
		if e.Latest {
			latest[e.Name]++
		}
	}
	if len(servers)%10 != 0 {
		m.Errorf("%d servers: half a page", len(servers))
	}
	for name := range servers {
		if latest[name] != 1 {
			m.Errorf("%s has %d latest versions", name, latest[name])
		}
	}
}

var forms = map[string]registrytest.Form{"official": registrytest.Official, "flat": registrytest.Flat, "both": registrytest.Both}

func ownItems(t *testing.T, servers ...registry.OwnServer) []registry.Item {
	t.Helper()
	var items []registry.Item
	for _, s := range servers {
		item, err := s.Item()
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func flaggedConflict(m *fixture, name string) bool {
	return slices.Contains(m.entry(name, "1.0.0").Flags, mirror.FlagConflict)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("still not so: %s", what)
}
