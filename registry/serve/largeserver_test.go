package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/serve"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
)

// metered counts the reads of a backend.
type metered struct {
	storage.Backend
	items, bytes, lists, most atomic.Int64
}

func (m *metered) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	items, err := m.Backend.GetMany(ctx, keys)
	read := int64(0)
	for _, item := range items {
		read += int64(len(item.Data))
	}
	m.items.Add(int64(len(items)))
	m.bytes.Add(read)
	for most := m.most.Load(); read > most && !m.most.CompareAndSwap(most, read); most = m.most.Load() {
	}
	return items, err
}

func (m *metered) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	m.lists.Add(1)
	return m.Backend.IndexPage(ctx, index, after, limit)
}

func (m *metered) reset() {
	m.items.Store(0)
	m.bytes.Store(0)
	m.lists.Store(0)
	m.most.Store(0)
}

// newMeteredDesk returns a desk whose reads are counted.
func newMeteredDesk(t testing.TB, config serve.Config) (*desk, *metered) {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	m := &metered{Backend: backend}
	d := &desk{t: t, catalogue: cataloguetest.New(t, m)}
	if d.writer, err = d.catalogue.OpenWriter(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.writer.Close(context.Background()) })
	d.handler = d.serve(config)
	return d, m
}

const heavy = "com.example/heavy"

// heavyRows returns versions of one server with records of the given size, each published a day
// after the one before.
func heavyRows(from, to, size int) (rows []catalogue.Entry) {
	for i := from; i < to; i++ {
		version := fmt.Sprintf("1.%d.0", i)
		record := minimal(object{"name": heavy, "version": version, "x": strings.Repeat("x", size)})
		rows = append(rows, rowOf(heavy, version, recordIs(string(record)), publishedAt(day(1).AddDate(0, 0, i)), func(e *catalogue.Entry) {
			e.Latest = i == to-1
		}))
	}
	return rows
}

// follow reads all pages of a list and returns the versions on them.
func follow(h http.Handler, target string) (versions []string, largest int, err error) {
	for next := target; ; {
		w := ask(h, "GET", next)
		if w.Code != 200 {
			return versions, largest, fmt.Errorf("%s: %d %s", next, w.Code, w.Body)
		}
		largest = max(largest, w.Body.Len())
		var l struct {
			Servers  []struct{ Server struct{ Version string } }
			Metadata struct{ NextCursor string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
			return versions, largest, err
		}
		for _, s := range l.Servers {
			versions = append(versions, s.Server.Version)
		}
		if l.Metadata.NextCursor == "" {
			return versions, largest, nil
		}
		next = target + "?cursor=" + url.QueryEscape(l.Metadata.NextCursor)
	}
}

// TestServerWithManyLargeVersions: eight concurrent clients read all 1 500 versions of 60 kB of
// a server, the newest first. No answer and no read of the store is larger than a page.
func TestServerWithManyLargeVersions(t *testing.T) {
	const size, page = 60_000, 4 << 20
	versions := 1500
	if raceEnabled {
		versions = 200
	}
	d, m := newMeteredDesk(t, serve.Config{})
	for from := 0; from < versions; from += 100 {
		rows := heavyRows(from, from+100, size)
		rows[99].Latest = from+100 == versions
		d.commit(rows...)
	}
	m.reset()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			got, largest, err := follow(d.handler, "/v0.1/servers/com.example%2Fheavy/versions")
			if err != nil || len(got) != versions || got[0] != fmt.Sprintf("1.%d.0", versions-1) || got[1] != fmt.Sprintf("1.%d.0", versions-2) || got[versions-1] != "1.0.0" || largest > page {
				t.Errorf("%v: %d versions, the largest page has %d bytes", err, len(got), largest)
			}
		})
	}
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(10 * time.Millisecond):
		}
		runtime.ReadMemStats(&now)
		peak.Store(max(peak.Load(), now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc)))
	}
	if most := m.most.Load(); most > 1<<20+4*size {
		t.Errorf("%d bytes were read at once", most)
	}
	if read := m.bytes.Load(); read > int64(8*versions*(size+2000)*5/4) {
		t.Errorf("%d bytes were read in all", read)
	}
	t.Logf("eight readers: %d MB more on the heap at most, garbage included; %d bytes in the largest read", peak.Load()>>20, m.most.Load())

	for _, target := range []string{"/servers/" + heavy, "/servers/" + heavy + "?version=1.3.0", "/", "/v0.1/servers", "/v0.1/servers?version=latest", "/v0.1/servers?search=heavy&limit=100"} {
		m.reset()
		if w := d.get(target); w.Code != 200 || w.Body.Len() > page || m.bytes.Load() > 2<<20 {
			t.Errorf("%s: %d, %d bytes from %d", target, w.Code, w.Body.Len(), m.bytes.Load())
		}
	}
}

// TestPageOfAServerLeadsToAllVersions: links of the pages lead to the oldest version.
func TestPageOfAServerLeadsToAllVersions(t *testing.T) {
	d, _ := newMeteredDesk(t, serve.Config{})
	d.commit(heavyRows(0, 120, 20_000)...)
	links := regexp.MustCompile(`href="(/servers/[^"]*)"`)
	seen := map[string]bool{}
	next, pages := "/servers/"+heavy, 0
	for next != "" && pages < 20 {
		w := d.get(next)
		if w.Code != 200 || w.Body.Len() > 100_000 {
			t.Fatalf("%s: %d with %d bytes", next, w.Code, w.Body.Len())
		}
		next = ""
		for _, link := range links.FindAllStringSubmatch(w.Body.String(), -1) {
			to, err := url.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
			if err != nil {
				t.Fatal(err)
			}
			if q := to.Query(); q.Get("cursor") != "" {
				next = to.String()
			} else if q.Get("version") != "" {
				seen[q.Get("version")] = true
			}
		}
		pages++
	}
	if len(seen) < 119 || pages < 3 || !seen["1.0.0"] {
		t.Errorf("%d versions on %d pages", len(seen), pages)
	}
	if w := d.get("/servers/" + heavy + "?cursor=x"); w.Code != 400 {
		t.Errorf("a cursor that is none: %d", w.Code)
	}
}

// TestVersionsInPages: limit and cursor work as in a list, the first page without them is as
// in earlier releases, and a cursor is valid for one server and one query.
func TestVersionsInPages(t *testing.T) {
	d, _ := newMeteredDesk(t, serve.Config{})
	d.commit(heavyRows(0, 25, 10)...)
	d.commit(rowOf("com.example/other", "1.0.0"), rowOf(heavy, "0.1.0", isDeleted, isOlder, publishedAt(day(1).AddDate(1, 0, 0))))
	const target = "/v0.1/servers/com.example%2Fheavy/versions"
	var whole struct {
		Servers  []json.RawMessage
		Metadata map[string]any
	}
	if err := json.Unmarshal(d.get(target).Body.Bytes(), &whole); err != nil || len(whole.Servers) != 25 || len(whole.Metadata) != 1 {
		t.Errorf("%d versions, %v, %v", len(whole.Servers), whole.Metadata, err)
	}
	first := d.list(target + "?limit=10")
	if len(first.Servers) != 10 || first.Metadata.NextCursor == nil {
		t.Fatalf("%d of 10", len(first.Servers))
	}
	cursor := "cursor=" + url.QueryEscape(*first.Metadata.NextCursor)
	if second := d.list(target + "?limit=20&" + cursor); len(second.Servers) != 15 || second.Metadata.NextCursor != nil {
		t.Errorf("%d of 15", len(second.Servers))
	}
	if all := d.list(target + "?include_deleted=true"); len(all.Servers) != 26 {
		t.Errorf("%d with the deleted one", len(all.Servers))
	}
	for path, want := range map[string]int{
		target + "?limit=1&limit=2": 400, target + "?" + cursor + "&" + cursor: 400, target + "?include_deleted=2": 422, target + "?shape=both": 422, target + "/0.0.1?shape=both": 422,
		target + "?limit=0": 422, target + "?limit=101": 422, target + "?cursor=x": 400, target + "?include_deleted=true&" + cursor: 400,
		"/v0.1/servers/com.example%2Fother/versions?" + cursor: 400, "/v0.1/servers?" + cursor: 400,
		"/v0.1/servers/com.example%2Fnobody/versions?limit=1": 404,
	} {
		if w := d.get(path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	// Of versions published at the same time, the highest comes first.
	for _, version := range []string{"1.9.0", "1.10.0", "1.10.0-rc.1", "2.0.0"} {
		d.commit(rowOf("com.example/together", version, isOlder))
	}
	got, _, err := follow(d.handler, "/v0.1/servers/com.example%2Ftogether/versions")
	if want := []string{"2.0.0", "1.10.0", "1.10.0-rc.1", "1.9.0"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

// TestAnswersAreBounded: the results of Enrich count for the size of an answer as well.
func TestAnswersAreBounded(t *testing.T) {
	said := json.RawMessage(`"` + strings.Repeat("y", 60<<10) + `"`)
	d, _ := newMeteredDesk(t, serve.Config{
		MetaKey: "com.example.registry/catalogue", Revision: func() string { return "1" }, Enrich: func(registry.Item) (json.RawMessage, error) { return said, nil },
	})
	d.commit(heavyRows(0, 100, 3000)...)
	got, largest, err := follow(d.handler, "/v0.1/servers/com.example%2Fheavy/versions")
	if err != nil || len(got) != 100 || largest > 4<<20+200_000 {
		t.Errorf("%d versions, %d bytes at most, %v", len(got), largest, err)
	}
	if got, largest, err = follow(d.handler, "/v0.1/servers"); err != nil || len(got) != 100 || largest > 4<<20+200_000 {
		t.Errorf("%d rows, %d bytes at most, %v", len(got), largest, err)
	}
}

// TestOneMakesWhatManyAskFor: concurrent requests for the same answer share one construction,
// and later requests get the cached answer.
func TestOneMakesWhatManyAskFor(t *testing.T) {
	var made atomic.Int64
	hold := make(chan struct{})
	config := serve.Config{
		MetaKey: "com.example.registry/catalogue", Revision: func() string { return "1" },
		Enrich: func(registry.Item) (json.RawMessage, error) {
			made.Add(1)
			<-hold
			return json.RawMessage(`1`), nil
		},
	}
	d := newDesk(t, config, rowOf("com.example/a", "1.0.0"))
	answers := make(chan *httptest.ResponseRecorder)
	for range 8 {
		go func() { answers <- d.get("/v0.1/servers") }()
	}
	for made.Load() == 0 {
		runtime.Gosched()
	}
	close(hold)
	for range 8 {
		if w := <-answers; w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if d.get("/v0.1/servers"); made.Load() != 1 {
		t.Errorf("it was made %d times", made.Load())
	}
	if d.commit(rowOf("com.example/a", "1.0.0", isDeprecated)); d.get("/v0.1/servers").Code != 200 || made.Load() != 2 {
		t.Errorf("after a commit it was made %d times", made.Load())
	}
}

// TestMirrorOfLargeServers: a mirror of a registry with such a server reads it page by page,
// without reading all versions for each page. The client follows the pages of versions.
func TestMirrorOfLargeServers(t *testing.T) {
	versions, size := 80, 60_000
	if raceEnabled {
		versions = 40
	}
	origin, _ := newMeteredDesk(t, serve.Config{})
	for from := 0; from < versions; from += 40 {
		rows := heavyRows(from, from+40, size)
		rows[39].Latest = from+40 == versions
		origin.commit(rows...)
	}
	server := httptest.NewServer(origin.handler)
	defer server.Close()
	client, err := upstream.New(upstream.Config{Base: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for page, err := range client.Versions(t.Context(), heavy) {
		if err != nil || page.Bytes > 4<<20 {
			t.Fatalf("a page of %d bytes, %v", page.Bytes, err)
		}
		read += len(page.Items)
	}
	if read != versions {
		t.Errorf("the client read %d versions", read)
	}
	copied, m := newMeteredDesk(t, serve.Config{})
	if err := copied.writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	keeper, err := mirror.New(mirror.Config{Catalogue: copied.catalogue, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []mirror.SyncOptions{{}, {Full: true}} {
		m.reset()
		report, err := keeper.SyncWith(t.Context(), options)
		if err != nil || report.Items != versions {
			t.Fatalf("%+v %v", report, err)
		}
		// Each version is read once for the comparison and once to find missing rows.
		if got := m.bytes.Load(); got > int64(5*versions*size) {
			t.Errorf("%+v: %d bytes were read of %d", options, got, versions*size)
		}
	}
	got, _, err := follow(copied.handler, "/v0.1/servers/com.example%2Fheavy/versions")
	if err != nil || len(got) != versions || got[0] != fmt.Sprintf("1.%d.0", versions-1) {
		t.Errorf("%d versions in the mirror, %v", len(got), err)
	}
	latest := readList(t, copied.get("/v0.1/servers?version=latest").Body.Bytes())
	if len(latest.Servers) != 1 {
		t.Errorf("%d are the latest", len(latest.Servers))
	}
}

// TestCatalogueOfAnEarlierRelease: the mirror lists the versions of a catalogue of an earlier
// release by age, even if it has nothing else to do.
func TestCatalogueOfAnEarlierRelease(t *testing.T) {
	d, m := newMeteredDesk(t, serve.Config{})
	d.commit(heavyRows(0, 12, 10)...)
	if err := d.writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	const key = "gatehouse:catalogue:state"
	item, err := m.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	item.Data = bytes.Replace(item.Data, []byte(`"orders"`), []byte(`"ordinx"`), 1)
	if _, err := m.Put(t.Context(), storage.Put{Key: key, Data: item.Data, If: storage.Always, Operation: storage.Version{1}}); err != nil {
		t.Fatal(err)
	}
	const target = "/v0.1/servers/com.example%2Fheavy/versions"
	before := d.get(target)
	cursor := *d.list(target + "?limit=1").Metadata.NextCursor
	if got, _, err := follow(d.handler, target); err != nil || len(got) != 12 || got[1] != "1.1.0" {
		t.Errorf("as it is: %q %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	keeper, err := mirror.New(mirror.Config{
		Catalogue: d.catalogue, Wait: func(context.Context, time.Duration) error { cancel(); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _, err := follow(d.handler, target); err != nil || len(got) != 12 || got[0] != "1.11.0" {
		t.Errorf("by age: %q %v", got, err)
	}
	if w := d.get(target, "If-None-Match: "+before.Header().Get("ETag")); w.Code != 200 {
		t.Errorf("another order has the same tag: %d", w.Code)
	}
	if w := d.get(target + "?limit=1&cursor=" + cursor); w.Code != 400 {
		t.Errorf("a cursor of another order: %d", w.Code)
	}
}
