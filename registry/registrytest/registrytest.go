// Package registrytest provides an upstream registry for tests of its clients. It keeps a list
// of servers in memory, listens on loopback, and answers in the form of the official registry,
// in the flat form of older ones, or in both at once.
//
// [Upstream.Add], [Upstream.Publish], [Upstream.SetStatus], [Upstream.Rewrite],
// [Upstream.Remove] and [Upstream.Reset] change the content. [Upstream.Break] causes faults:
// outages, refusals, truncated answers, cursors that repeat. The upstream publishes every
// record that has a name and a version, valid or not.
//
// The clock starts at [Epoch] and advances by one second with every change, unless
// [Upstream.SetClock] replaces it.
//
//	origin := registrytest.New(t)
//	origin.Add("com.example/notes", "1.0.0")
//	origin.SetStatus("com.example/notes", "1.0.0", registry.StatusDeleted, "malware")
//	origin.Break(registrytest.Faults{After: 2, Status: 429, RetryAfter: "120"})
//	client, err := upstream.New(upstream.Config{Base: origin.URL()})
package registrytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry"
)

// Epoch is the initial time of the clock.
var Epoch = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)

// Upstream is a registry on loopback. It is safe for concurrent use.
type Upstream struct {
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	rows     []*row // by name, then version, as text
	clock    func() time.Time
	ticks    time.Duration
	form     Form
	prefixes []string
	tags     bool
	faults   Faults
	since    int // requests since the last call of Break
	asked    []string
}

// row is one version of one server.
type row struct {
	name, version, record       string
	meta                        map[string]json.RawMessage
	status                      registry.Status
	message                     string
	published, updated, changed time.Time
	latest                      bool
}

// New starts an empty upstream in the official form, and stops it when the test ends.
func New(t testing.TB) *Upstream {
	t.Helper()
	u := &Upstream{t: t, prefixes: []string{"/v0.1", "/v0"}}
	u.clock = func() time.Time { return Epoch.Add(u.ticks) }
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.Mend()
		u.server.CloseClientConnections() // clients may have left connections open
		u.server.Close()
	})
	return u
}

// URL returns the URL of the upstream, without the version of the interface.
func (u *Upstream) URL() string { return u.server.URL }

// SetClock replaces the clock. Changes then do not advance it.
func (u *Upstream) SetClock(now func() time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clock = now
}

// SetForm sets the form of the answers.
func (u *Upstream) SetForm(f Form) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.form = f
}

// SetPrefixes sets the versions of the interface that the upstream has. The default is /v0.1
// and /v0.
func (u *Upstream) SetPrefixes(prefixes ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prefixes = prefixes
}

// SetETags switches ETag and If-None-Match on or off. The default is off, as in the official
// registry.
func (u *Upstream) SetETags(on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tags = on
}

// Now returns the time of the upstream's clock.
func (u *Upstream) Now() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.clock()
}

// Len returns the number of versions, deleted ones included.
func (u *Upstream) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows)
}

// Record returns the server.json that [Upstream.Add] publishes.
func Record(name, version string) string {
	return fmt.Sprintf(`{"$schema":%q,"name":%q,"description":"What %s does.","version":%q,`+
		`"remotes":[{"type":"streamable-http","url":"https://example.com/%s/mcp"}]}`,
		registry.CurrentSchema, name, name, version, name)
}

// Add publishes a valid record with the given name and version.
func (u *Upstream) Add(name, version string) {
	u.t.Helper()
	u.Publish(Record(name, version))
}

// Fill adds servers com.example/server-000001 and so on, in version 1.0.0, until there are n.
func (u *Upstream) Fill(n int) {
	u.t.Helper()
	for i := u.Len(); i < n; i++ {
		u.Add(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
	}
}

// Publish adds a record in its bytes. The test fails if the record has no name or version, or if
// that version exists already.
func (u *Upstream) Publish(record string) {
	u.t.Helper()
	var is struct{ Name, Version string }
	if err := json.Unmarshal([]byte(record), &is); err != nil || is.Name == "" || is.Version == "" {
		u.t.Fatalf("registrytest: publish: no name or version: %v: %.200s", err, record)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	i, there := u.find(is.Name, is.Version)
	if there {
		u.t.Fatalf("registrytest: publish: there is a %s %s already", is.Name, is.Version)
	}
	now := u.tick()
	u.rows = slices.Insert(u.rows, i, &row{
		name: is.Name, version: is.Version, record: record, status: registry.StatusActive,
		published: now, updated: now, changed: now,
	})
	u.elect(is.Name)
}

// SetStatus changes the status of a version.
func (u *Upstream) SetStatus(name, version string, s registry.Status, message string) {
	u.t.Helper()
	u.change(name, version, func(r *row, now time.Time) {
		r.status, r.message, r.changed, r.updated = s, message, now, now
	})
}

// SetMeta sets a member of _meta beside the record, as a registry may add it.
func (u *Upstream) SetMeta(name, version, key string, value any) {
	u.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		u.t.Fatalf("registrytest: meta: %v", err)
	}
	u.change(name, version, func(r *row, now time.Time) {
		if r.meta == nil {
			r.meta = map[string]json.RawMessage{}
		}
		r.meta[key], r.updated = raw, now
	})
}

// Rewrite replaces the record of a version, which no registry should do.
func (u *Upstream) Rewrite(name, version, record string) {
	u.t.Helper()
	u.change(name, version, func(r *row, now time.Time) { r.record, r.updated = record, now })
}

// RewriteQuietly is [Upstream.Rewrite] without a new update time.
func (u *Upstream) RewriteQuietly(name, version, record string) {
	u.t.Helper()
	u.change(name, version, func(r *row, _ time.Time) { r.record = record })
}

// Remove removes a version from all lists, without marking it as deleted.
func (u *Upstream) Remove(name, version string) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	i, there := u.find(name, version)
	if !there {
		u.t.Fatalf("registrytest: there is no %s %s", name, version)
	}
	u.rows = slices.Delete(u.rows, i, i+1)
	u.elect(name)
}

// Reset removes all versions, without marking them as deleted. The clock continues.
func (u *Upstream) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rows = nil
}

// Requests returns the path and query of each request since the start or the last call of
// [Upstream.Forget].
func (u *Upstream) Requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.asked)
}

// Forget empties the list of requests.
func (u *Upstream) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = nil
}

func (u *Upstream) change(name, version string, how func(r *row, now time.Time)) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	i, there := u.find(name, version)
	if !there {
		u.t.Fatalf("registrytest: there is no %s %s", name, version)
	}
	changed := *u.rows[i] // a copy: answers in progress use the old row
	changed.meta = cloned(changed.meta)
	how(&changed, u.tick())
	u.rows[i] = &changed
	u.elect(name)
}

func (u *Upstream) tick() time.Time {
	u.ticks += time.Second
	return u.clock()
}

func (u *Upstream) find(name, version string) (int, bool) {
	return slices.BinarySearchFunc(u.rows, &row{name: name, version: version}, func(a, b *row) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.version, b.version))
	})
}

// elect marks the latest version of a server: the highest that is not deleted, or the highest
// if all are.
func (u *Upstream) elect(name string) {
	first, _ := u.find(name, "")
	highest := -1
	for i := first; i < len(u.rows) && u.rows[i].name == name; i++ {
		if highest < 0 || higher(u.rows[i], u.rows[highest]) {
			highest = i
		}
	}
	for i := first; i < len(u.rows) && u.rows[i].name == name; i++ {
		if r := *u.rows[i]; r.latest != (i == highest) {
			r.latest = i == highest
			u.rows[i] = &r
		}
	}
}

func higher(a, b *row) bool {
	if there, other := a.status != registry.StatusDeleted, b.status != registry.StatusDeleted; there != other {
		return there
	}
	return registry.CompareReleases(a.version, a.published, b.version, b.published) > 0
}
