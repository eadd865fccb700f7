package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/serve"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

func TestStoreDown(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	c.faults.SetDown(true)
	for _, path := range []string{
		"/v0.1/servers", "/v0.1/servers?search=abc", "/v0.1/servers/com.example%2Fnotes/versions", "/v0.1/servers/com.example%2Fnotes/versions/latest", "/v0.1/health",
	} {
		begin := time.Now()
		w := c.get(path)
		if p := readProblem(t, w); w.Code != 503 || w.Header().Get("Retry-After") != "2" || strings.Contains(p.Detail, "down") {
			t.Errorf("%s: %d %s, Retry-After %q", path, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("%s took %s", path, took)
		}
	}
	for _, path := range []string{"/", "/servers/com.example/notes"} {
		if w := c.get(path); w.Code != 503 || w.Header().Get("Retry-After") != "2" || !strings.Contains(w.Body.String(), "<h1>") {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if !strings.Contains(c.log.String(), storagetest.ErrDown.Error()) {
		t.Errorf("the log does not say why: %s", c.log.String())
	}
	// Answers that need no store are sent as before.
	if w := c.get("/v0.1/servers?limit=0"); w.Code != 422 {
		t.Errorf("%d", w.Code)
	}
	c.faults.SetDown(false)
	if w := c.get("/v0.1/servers"); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

func TestEmptyCatalogue(t *testing.T) {
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := serve.New(serve.Config{Catalogue: cataloguetest.New(t, backend)}) // nothing is written yet
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(handler, "GET", "/v0.1/servers"); w.Code != 200 || w.Body.String() != `{"servers":[],"metadata":{"count":0}}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for path, want := range map[string]int{
		"/v0.1/servers/com.example%2Fa/versions": 404, "/v0.1/servers/com.example%2Fa/versions/latest": 404, "/": 200,
		"/v0.1/servers?cursor=" + serve.ForgedCursor(nil, "a"): 400,
	} {
		if w := ask(handler, "GET", path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestHandlerConfig(t *testing.T) {
	c := newDesk(t, serve.Config{})
	enrich := func(registry.Item) (json.RawMessage, error) { return nil, nil }
	revision := func() string { return "" }
	for name, config := range map[string]serve.Config{
		"no store":              {},
		"a relative prefix":     {Catalogue: c.catalogue, Prefix: "registry"},
		"a prefix with a slash": {Catalogue: c.catalogue, Prefix: "/registry/"},
		"the root":              {Catalogue: c.catalogue, Prefix: "/"},
		"another host":          {Catalogue: c.catalogue, Prefix: "//evil.example"},
		"dots":                  {Catalogue: c.catalogue, Prefix: "/a/../b"},
		"an escaped prefix":     {Catalogue: c.catalogue, Prefix: "/a%2Fb"},
		"a query":               {Catalogue: c.catalogue, Prefix: "/a?b"},
		"negative":              {Catalogue: c.catalogue, CacheAge: -1},
		"no key":                {Catalogue: c.catalogue, Enrich: enrich, Revision: revision},
		"no revision":           {Catalogue: c.catalogue, Enrich: enrich, MetaKey: "com.example/a"},
		"no prefix in the key":  {Catalogue: c.catalogue, MetaKey: "catalogue"},
		"one label":             {Catalogue: c.catalogue, MetaKey: "example/a"},
		"no name":               {Catalogue: c.catalogue, MetaKey: "com.example/"},
		"no key at all":         {Catalogue: c.catalogue, MetaKey: "com example/a"},
		"the official key":      {Catalogue: c.catalogue, MetaKey: registry.MetaOfficial},
		"the publishers' key":   {Catalogue: c.catalogue, MetaKey: registry.MetaPublisher},
		"a reserved key":        {Catalogue: c.catalogue, MetaKey: "dev.mcp/a"},
	} {
		if _, err := serve.New(config); err == nil || !strings.HasPrefix(err.Error(), "registry/serve: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, config := range []serve.Config{
		{Catalogue: c.catalogue}, {Catalogue: c.catalogue, Prefix: "/a/b-c", MetaKey: "com.example/a", Enrich: enrich, Revision: revision, CacheAge: time.Second}, {Catalogue: c.catalogue, MetaKey: "com.example/a"},
	} {
		if _, err := serve.New(config); err != nil {
			t.Error(err)
		}
	}
}

func TestHealth(t *testing.T) {
	c := newDesk(t, serve.Config{})
	for path, want := range map[string]string{"/v0.1/health": `{"status":"ok"}`, "/v0/health": `{"status":"ok"}`, "/v0.1/ping": `{"pong":true}`} {
		if w := c.get(path); w.Code != 200 || w.Body.String() != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestUnreadableRows: a damaged row is left out, and the others are served.
func TestUnreadableRows(t *testing.T) {
	c := newDesk(t, serve.Config{},
		rowOf("com.example/a", "1.0.0"),
		rowOf("com.example/b", "1.0.0", recordIs(`{"name":`)),
		rowOf("com.example/c", "1.0.0", recordIs(`["x"]`)),
		rowOf("com.example/d", "1.0.0", func(e *catalogue.Entry) { e.Meta = json.RawMessage(`{"a":`) }),
		rowOf("com.example/e", "1.0.0"),
	)
	if got := c.list("/v0.1/servers").names(); !slices.Equal(got, []string{"com.example/a 1.0.0", "com.example/e 1.0.0"}) {
		t.Errorf("%q", got)
	}
	if w := c.get("/v0.1/servers/com.example%2Fb/versions/latest"); w.Code != 500 {
		t.Errorf("%d", w.Code)
	}
	if w := c.get("/"); w.Code != 200 || !strings.Contains(w.Body.String(), "com.example/e") {
		t.Errorf("%d", w.Code)
	}
	for range 20 {
		c.get("/v0.1/servers")
	}
	if n := strings.Count(c.log.String(), "left out"); n < 1 || n > 2 {
		t.Errorf("logged %d times", n)
	}
}

// TestDamagedRows: rows that the store gives back damaged are left out and logged. A server of which
// nothing can be read is a fault of the registry: the answer is neither 404 nor a list without versions.
func TestDamagedRows(t *testing.T) {
	c := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0"), rowOf("com.example/a", "0.9.0", isOlder), rowOf("com.example/lone", "1.0.0"),
		rowOf("com.example/torn", "1.0.0", recordIs(`{"name":`)), rowOf("com.example/old", "1.0.0", isDeleted))
	const lone, torn = "/v0.1/servers/com.example%2Flone/versions", "/v0.1/servers/com.example%2Ftorn/versions"
	for _, path := range []string{"/v0.1/servers?version=1.0.0&search=/lone", "/v0.1/servers/com.example%2Fa/versions", lone, lone + "/1.0.0", "/servers/com.example/lone"} {
		if w := c.get(path); w.Code != 200 || c.log.String() != "" {
			t.Errorf("%s: %d, and the log has %s", path, w.Code, c.log.String())
		}
	}
	c.damage("com.example/lone", "1.0.0")
	c.damage("com.example/a", "0.9.0")
	c.commit(rowOf("com.example/b", "1.0.0")) // the answers so far are kept
	if got := c.list("/v0.1/servers/com.example%2Fa/versions").names(); !slices.Equal(got, []string{"com.example/a 1.0.0"}) {
		t.Errorf("%q", got)
	}
	if n := strings.Count(c.log.String(), "rows of the catalogue cannot be read and are left out"); n != 1 {
		t.Errorf("logged %d times: %s", n, c.log.String())
	}
	for path, want := range map[string]int{
		lone: 500, lone + "?limit=1&include_deleted=true": 500, lone + "/1.0.0": 500, lone + "/latest": 500, "/servers/com.example/lone": 500,
		torn: 500, torn + "?shape=wrapped": 500, torn + "/latest": 500, "/servers/com.example/torn": 500,
		"/v0.1/servers/com.example%2Fnobody/versions": 404, "/v0.1/servers/com.example%2Fold/versions": 404,
	} {
		if w := c.get(path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if got := c.list("/v0.1/servers").names(); !slices.Equal(got, []string{"com.example/a 1.0.0", "com.example/b 1.0.0"}) {
		t.Errorf("%q", got)
	}
}

// damage overwrites a stored row.
func (c *desk) damage(name, version string) {
	c.t.Helper()
	key := "gatehouse:catalogue-row:" + name + "\x00" + version
	row, err := c.faults.Get(c.t.Context(), key)
	if err == nil {
		_, err = c.faults.Put(c.t.Context(), storage.Put{Key: key, Data: row.Data[:len(row.Data)-1], If: storage.Always, Operation: storage.Version{1}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestLargePages: a page of large records has fewer rows, and further pages have the rest.
func TestLargePages(t *testing.T) {
	var rows []catalogue.Entry
	for i := range 50 {
		large := minimal(object{"name": fmt.Sprintf("com.example/%03d", i), "x": strings.Repeat("x", 250_000)})
		rows = append(rows, rowOf(fmt.Sprintf("com.example/%03d", i), "1.0.0", recordIs(string(large))))
	}
	c := newDesk(t, serve.Config{}, rows...)
	var got []string
	for target := "/v0.1/servers?shape=wrapped&limit=100"; ; {
		w := c.get(target)
		l := readList(t, w.Body.Bytes())
		if got = append(got, l.names()...); w.Body.Len() > 9<<20 || len(l.Servers) == 0 {
			t.Fatalf("a page has %d bytes and %d items", w.Body.Len(), len(l.Servers))
		}
		if l.Metadata.NextCursor == nil {
			break
		}
		target = "/v0.1/servers?shape=wrapped&limit=100&cursor=" + *l.Metadata.NextCursor
	}
	if len(got) != len(rows) || !slices.IsSorted(got) {
		t.Errorf("%d rows", len(got))
	}
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestClientReadsHandler: the client of package upstream reads every record of the handler byte
// for byte, in each form.
func TestClientReadsHandler(t *testing.T) {
	var rows []catalogue.Entry
	for i := range 250 {
		rows = append(rows, rowOf(fmt.Sprintf("com.example/%03d", i), "1.0.0", updatedAt(day(2).Add(time.Duration(i)))))
	}
	rows = append(rows, spoken(), rowOf("com.example/z", "1.0.0", isDeleted, updatedAt(day(9))))
	d := newDesk(t, serve.Config{}, rows...)
	server := httptest.NewServer(d.handler)
	defer server.Close()
	client, err := upstream.New(upstream.Config{Base: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	crawl := func(q upstream.Query) (items []registry.Item) {
		for page, err := range client.Items(t.Context(), q) {
			if err != nil || len(page.Invalid) > 0 {
				t.Fatalf("%d invalid, %v", len(page.Invalid), err)
			}
			items = append(items, page.Items...)
		}
		return items
	}
	all := crawl(upstream.Query{})
	if len(all) != 251 {
		t.Fatalf("%d items", len(all))
	}
	for _, item := range all {
		i := slices.IndexFunc(rows, func(e catalogue.Entry) bool { return e.Name == item.Record.Name() })
		want := registry.Official{
			Status: registry.Status(rows[i].Status), StatusMessage: rows[i].StatusMessage, StatusChangedAt: rows[i].StatusChanged,
			PublishedAt: rows[i].Published, UpdatedAt: rows[i].Updated, IsLatest: rows[i].Latest,
		}
		if !bytes.Equal(item.Record.Raw(), rows[i].Server) || item.Official != want {
			t.Errorf("%+v\nis\n%+v", rows[i], item)
		}
	}
	since := crawl(upstream.Query{UpdatedSince: day(3)})
	if len(since) != 2 || since[0].Record.String() != "com.example/a 1.0.0" || since[1].Record.String() != "com.example/z 1.0.0" || since[1].Official.Status != registry.StatusDeleted {
		t.Errorf("updated: %v", since)
	}
}

// hung is a backend that does not answer.
type hung struct {
	storage.Backend
	hangs atomic.Bool
}

func (h *hung) Get(ctx context.Context, key string) (storage.Item, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return storage.Item{}, ctx.Err()
	}
	return h.Backend.Get(ctx, key)
}

// listless is a backend that cannot read lists.
type listless struct {
	storage.Backend
	fails atomic.Bool
}

func (l *listless) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if l.fails.Load() {
		return nil, storage.ErrUnavailable
	}
	return l.Backend.IndexPage(ctx, index, after, limit)
}

// TestStoreFailsWithinARequest: a list that cannot be read is neither empty nor unknown.
func TestStoreFailsWithinARequest(t *testing.T) {
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	partly := &listless{Backend: backend}
	handler, err := serve.New(serve.Config{Catalogue: cataloguetest.New(t, partly)})
	if err != nil {
		t.Fatal(err)
	}
	partly.fails.Store(true)
	for _, path := range []string{
		"/v0.1/servers", "/v0.1/servers?search=notes", "/v0.1/servers/com.example%2Fa/versions", "/v0.1/servers/com.example%2Fa/versions/latest", "/", "/servers/com.example/a",
	} {
		if w := ask(handler, "GET", path); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestStoreHangs: a request ends even if the store does not answer.
func TestStoreHangs(t *testing.T) {
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	stuck := &hung{Backend: backend}
	handler, err := serve.New(serve.Config{Catalogue: cataloguetest.New(t, stuck)})
	if err != nil {
		t.Fatal(err)
	}
	stuck.hangs.Store(true)
	for _, path := range []string{"/v0.1/servers", "/v0.1/servers/com.example%2Fa/versions", "/"} {
		begin := time.Now()
		w := ask(handler, "GET", path)
		if took := time.Since(begin); w.Code != 503 || w.Header().Get("Retry-After") == "" || took > 4*time.Second {
			t.Errorf("%s: %d after %s", path, w.Code, took)
		}
	}
}
