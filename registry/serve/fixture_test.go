package serve_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// desk is a catalogue with rows and a handler that serves it.
type desk struct {
	t          testing.TB
	catalogue  *catalogue.Catalogue
	faults     *storagetest.Faults
	writer     *catalogue.Writer
	handler    *serve.Handler
	roundTrips atomic.Int64
	log        lockedBuffer
}

// lockedBuffer collects log lines.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// newDesk returns a desk with rows and a handler of the given configuration; Catalogue and Log
// are set.
func newDesk(t testing.TB, config serve.Config, rows ...catalogue.Entry) *desk {
	t.Helper()
	c := &desk{t: t}
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", OnRoundTrip: func() { c.roundTrips.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	c.faults = storagetest.NewFaults(backend)
	c.catalogue = cataloguetest.New(t, c.faults)
	if c.writer, err = c.catalogue.OpenWriter(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.faults.SetDown(false)
		_ = c.writer.Close(t.Context())
	})
	c.commit(rows...)
	c.handler = c.serve(config)
	return c
}

// serve returns another handler over the same rows.
func (c *desk) serve(config serve.Config) *serve.Handler {
	c.t.Helper()
	config.Catalogue, config.Log = c.catalogue, slog.New(slog.NewTextHandler(&c.log, nil))
	handler, err := serve.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return handler
}

// commit writes rows in as few commits as possible.
func (c *desk) commit(rows ...catalogue.Entry) {
	c.t.Helper()
	for page := range slices.Chunk(rows, catalogue.MaxCommit) {
		if err := c.writer.Commit(c.t.Context(), page, nil); err != nil {
			c.t.Fatal(err)
		}
	}
}

// rowOf returns an active latest row, then changed.
func rowOf(name, version string, change ...func(*catalogue.Entry)) catalogue.Entry {
	e := catalogue.Entry{
		Name: name, Version: version, Status: "active", Latest: true, Published: day(1), Updated: day(2), StatusChanged: day(1),
		Server: minimal(object{"name": name, "version": version}),
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func isDeleted(e *catalogue.Entry) { e.Status = "deleted" }

func isDeprecated(e *catalogue.Entry) {
	e.Status, e.StatusMessage = "deprecated", "Use another one."
}

func isOlder(e *catalogue.Entry) { e.Latest = false }

func updatedAt(at time.Time) func(*catalogue.Entry) {
	return func(e *catalogue.Entry) { e.Updated = at }
}

func publishedAt(at time.Time) func(*catalogue.Entry) {
	return func(e *catalogue.Entry) { e.Published = at }
}

func recordIs(text string) func(*catalogue.Entry) {
	return func(e *catalogue.Entry) { e.Server = json.RawMessage(text) }
}

// ask sends a request to a handler. Headers are written "Name: value".
func ask(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (c *desk) get(target string, headers ...string) *httptest.ResponseRecorder {
	return ask(c.handler, http.MethodGet, target, headers...)
}

// listed is a decoded list.
type listed struct {
	Servers []struct {
		Name, Version, Status string
		Server                struct{ Name, Version string }
	}
	Metadata struct {
		Count      int
		NextCursor *string
	}
}

// names returns "name version" of each item.
func (l listed) names() (names []string) {
	for _, s := range l.Servers {
		names = append(names, cmp.Or(s.Name, s.Server.Name)+" "+cmp.Or(s.Version, s.Server.Version))
	}
	return names
}

func (c *desk) list(target string) listed {
	c.t.Helper()
	w := c.get(target)
	if w.Code != 200 {
		c.t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return readList(c.t, w.Body.Bytes())
}

func readList(t testing.TB, body []byte) (l listed) {
	t.Helper()
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	if l.Metadata.Count != len(l.Servers) || l.Servers == nil {
		t.Fatalf("count is %d, and there are %d\n%s", l.Metadata.Count, len(l.Servers), body)
	}
	return l
}

// small returns rows of each kind.
func small() []catalogue.Entry {
	return []catalogue.Entry{
		rowOf("com.example/notes", "1.10.0", updatedAt(day(5))),
		rowOf("com.example/notes", "1.2.0", isOlder),
		rowOf("com.example/Files", "2.0.0", isDeprecated, updatedAt(day(4))),
		rowOf("com.example/gone", "1.0.0", isDeleted, updatedAt(day(6).Add(1))),
		rowOf("org.example.tools/files_2", "0.1", updatedAt(day(4).Add(time.Nanosecond))),
		rowOf("org.example.tools/old", "3.0.0", isOlder, isDeleted, updatedAt(day(3))),
		rowOf("org.example.tools/old", "2.0.0", updatedAt(day(3))),
	}
}
