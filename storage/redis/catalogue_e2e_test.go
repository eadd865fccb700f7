//go:build e2e

package redis_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// kills is how often the writer of a catalogue is killed.
var kills = flag.Int("redis.kills", 5, "how often to kill the writer of a catalogue")

// What a process of these tests is told that is no test but the writer of a catalogue: the
// store, and how far its clock is ahead, so that it needs not wait for the end of a lease.
const (
	writerStore = "REDIS_TEST_CATALOGUE_STORE"
	writerAhead = "REDIS_TEST_CATALOGUE_AHEAD"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(writerStore); url != "" {
		ahead, err := time.ParseDuration(os.Getenv(writerAhead))
		if err == nil {
			err = writeCatalogue(context.Background(), url, ahead)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The n-th page changes all rows that are shared, adds some of its own, and deletes those
// of the page before.
const (
	sharedRows = 30
	ownRows    = 5
)

func catalogueRow(server string, n int, status string, latest bool) storage.CatalogueEntry {
	return storage.CatalogueEntry{
		Name: server, Version: "1.0.0", Server: []byte(strconv.Itoa(n)), Meta: []byte(`{}`), Status: status, Latest: latest,
		Updated: time.Unix(int64(n), 0),
	}
}

func cataloguePage(n int) (page []storage.CatalogueEntry) {
	for i := range sharedRows {
		page = append(page, catalogueRow(fmt.Sprintf("shared/%02d", i), n, "active", (n+i)%2 == 0))
	}
	for i := range ownRows {
		page = append(page, catalogueRow(fmt.Sprintf("own/%06d-%d", n, i), n, "active", true))
		if n > 1 {
			page = append(page, catalogueRow(fmt.Sprintf("own/%06d-%d", n-1, i), n, storage.CatalogueDeleted, true))
		}
	}
	return page
}

// openStore opens a store whose clock is ahead.
func openStore(ctx context.Context, url string, ahead time.Duration) (*storage.Store, error) {
	b, err := redis.Open(ctx, redis.Options{URL: url})
	if err != nil {
		return nil, err
	}
	return storage.New(b, storage.Options{Issuer: "https://registry.example.com", Now: func() time.Time { return time.Now().Add(ahead) }})
}

// writeCatalogue commits one page after the other and prints the number of each when it is
// committed, until the process is killed.
func writeCatalogue(ctx context.Context, url string, ahead time.Duration) error {
	store, err := openStore(ctx, url, ahead)
	if err != nil {
		return err
	}
	var w *storage.CatalogueWriter
	err = insist(func() (err error) {
		w, err = store.OpenCatalogue(ctx, fmt.Sprint(os.Getpid()))
		return err
	})
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(w.State().Progress)) // none is 0
	fmt.Println(n)
	for {
		n++
		err := insist(func() error { return w.Commit(ctx, cataloguePage(n), []byte(strconv.Itoa(n))) })
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// insist repeats what a busy machine had no time for.
func insist(try func() error) error {
	for {
		if err := try(); !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
	}
}

// scribe is a writer in a process of its own.
type scribe struct {
	cmd  *exec.Cmd
	said atomic.Int64 // the last page that it said it has committed
	over chan struct{}
}

func startScribe(t *testing.T, url string, ahead time.Duration) *scribe {
	t.Helper()
	s := &scribe{cmd: exec.Command(os.Args[0]), over: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), writerStore+"="+url, writerAhead+"="+ahead.String())
	var said strings.Builder
	s.cmd.Stderr = &said
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.said.Store(-1)
	go func() {
		defer close(s.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Errorf("a writer says %q", lines.Text())
			}
			s.said.Store(int64(n))
		}
		_ = s.cmd.Wait()
		if said.Len() > 0 {
			t.Errorf("a writer ended by itself: %s", said.String())
		}
	}()
	t.Cleanup(s.kill)
	return s
}

func (s *scribe) kill() {
	_ = s.cmd.Process.Kill()
	<-s.over
}

// TestCatalogueWriterIsKilled: whatever a writer was doing when it was killed, readers see
// whole pages, the next writer goes on where the last acknowledged page was or one later,
// and nothing is left over in the lists.
func TestCatalogueWriterIsKilled(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	store, err := openStore(t.Context(), server.URL(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var over atomic.Bool
	var readers sync.WaitGroup
	var pages atomic.Int64
	for range 2 {
		readers.Go(func() {
			last := 0
			for !over.Load() && !t.Failed() {
				n, err := readShared(t.Context(), store)
				if errors.Is(err, storage.ErrUnavailable) {
					continue
				}
				if err != nil || n < last {
					t.Errorf("a reader sees page %d after page %d, %v", n, last, err)
				}
				last = n
				pages.Add(1)
			}
		})
	}
	last, ahead := int64(0), time.Duration(0)
	for range *kills {
		s := startScribe(t, server.URL(), ahead)
		moment := last + 2 + rand.Int64N(20)
		eventually(t, "a few pages", func() bool { return s.said.Load() >= moment || t.Failed() })
		<-time.After(time.Duration(rand.Int64N(int64(20 * time.Millisecond)))) // in the middle of something
		s.kill()
		var st storage.CatalogueState
		err := insist(func() (err error) {
			st, err = store.CatalogueState(t.Context())
			return err
		})
		n, _ := strconv.ParseInt(string(st.Progress), 10, 64)
		if err != nil || n < s.said.Load() || n > s.said.Load()+1 {
			t.Fatalf("the writer said %d, on record is %d, %v", s.said.Load(), n, err)
		}
		last, ahead = n, ahead+10*time.Second
	}
	over.Store(true)
	readers.Wait()
	t.Logf("%d pages were committed in %d lives, %d were read", last, *kills, pages.Load())
	wholeCatalogue(t, server, int(last), ahead)
}

// readShared reads the rows that every page changes, and returns which page they are of.
func readShared(ctx context.Context, s *storage.Store) (int, error) {
	q := storage.CatalogueQuery{Deleted: rand.IntN(2) == 0, Match: func(name string) bool { return strings.HasPrefix(name, "shared/") }}
	if rand.IntN(2) == 0 {
		q = storage.CatalogueQuery{Since: time.Unix(0, 0)} // all that are live
	}
	page, err := s.CataloguePage(ctx, q, "", 1000)
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	seen := map[string]int{}
	for _, e := range page.Entries {
		if strings.HasPrefix(e.Name, "shared/") {
			seen[string(e.Server)]++
		}
	}
	newest := string(page.Entries[len(page.Entries)-1].Server)
	if len(seen) != 1 || seen[newest] != sharedRows || page.More {
		return 0, fmt.Errorf("rows of pages %v", seen)
	}
	return strconv.Atoi(newest)
}

// wholeCatalogue checks all that n pages should have left, and that another writer finds
// nothing to put right but the last page.
func wholeCatalogue(t *testing.T, server *redistest.Server, n int, ahead time.Duration) {
	t.Helper()
	store, err := openStore(t.Context(), server.URL(), ahead)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var w *storage.CatalogueWriter
	err = insist(func() (err error) {
		w, err = store.OpenCatalogue(t.Context(), "the last one")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	want := map[string]string{}
	for i := 1; i <= n; i++ {
		for _, e := range cataloguePage(i) {
			want[e.Name] = string(e.Server) + e.Status
		}
	}
	after, more := "", true
	for more {
		page, err := store.CataloguePage(t.Context(), storage.CatalogueQuery{Deleted: true}, after, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if want[e.Name] != string(e.Server)+e.Status {
				t.Errorf("%s is of page %s and %s; want %s", e.Name, e.Server, e.Status, want[e.Name])
			}
			delete(want, e.Name)
		}
		after, more = page.Next, page.More
	}
	if len(want) > 0 {
		t.Errorf("%d rows are not there", len(want))
	}
	live := sharedRows + ownRows
	deleted := ownRows * (n - 1)
	if st := w.State(); st.Live != live || st.Deleted != deleted {
		t.Errorf("the state counts %d live and %d deleted rows; want %d and %d", st.Live, st.Deleted, live, deleted)
	}
	for list, n := range map[string]int{
		"live:name": live, "live:version": live, "live:updated": live, "live:latest": sharedRows/2 + ownRows,
		"deleted:name": deleted, "deleted:version": deleted, "deleted:updated": deleted, "deleted:latest": deleted,
	} {
		if got := server.Client().ZCard(t.Context(), "gatehouse:catalogue-"+list).Val(); got != int64(n) {
			t.Errorf("the list %s has %d entries; want %d", list, got, n)
		}
	}
}

// What a row of the catalogue may cost in the memory of a server, with a record of 1000
// bytes and its entries in lists: when it is new, and when it has changed. That keeps what
// was said before, and not the record twice.
const (
	rowMemory     = 2600
	changedMemory = 500
)

// TestMemoryOfCatalogue: what rows cost, new ones and those that have changed.
func TestMemoryOfCatalogue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	store, err := openStore(t.Context(), server.URL(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := store.OpenCatalogue(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	const pages, each = 50, 100
	record := []byte(strings.Repeat("x", 1000))
	commit := func(page int, updated time.Time) {
		entries := make([]storage.CatalogueEntry, each)
		for i := range entries {
			entries[i] = storage.CatalogueEntry{
				Name: fmt.Sprintf("io.github.example-%03d/server-%06d", page, i), Version: "1.0.0", Server: record, Status: "active", Latest: true,
				Published: updated, Updated: updated, StatusChanged: updated, Origin: "https://registry.example.com",
			}
		}
		if err := w.Commit(t.Context(), entries, nil); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	t.Logf("a row: %d bytes", perItem(t, server, rowMemory*each, pages, func(i int) { commit(i, begin) })/each)
	t.Logf("that it has changed: %d bytes", perItem(t, server, changedMemory*each, pages, func(i int) { commit(i, begin.Add(time.Hour)) })/each)
}

// TestGetManyFollowsSlots: items whose slots move, have moved, or are half moved are found.
func TestGetManyFollowsSlots(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config{})
	b := open(t, redis.Options{URL: cluster.URL()})
	defer b.Close()
	var keys []string
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("item %d", i))
		put(t, b, storage.Put{Key: keys[i], Data: []byte(keys[i]), Operation: storage.Version{1, byte(i)}})
	}
	check := func(when string) {
		t.Helper()
		items, err := b.GetMany(t.Context(), append(slices.Clone(keys), "none"))
		if err != nil || len(items) != len(keys)+1 {
			t.Fatalf("%s: %d items, %v", when, len(items), err)
		}
		for i, key := range keys {
			if string(items[i].Data) != key {
				t.Errorf("%s: item %d is %q", when, i, items[i].Data)
			}
		}
		if items[len(keys)].Version != (storage.Version{}) {
			t.Errorf("%s: what is not there is %q", when, items[len(keys)].Data)
		}
	}
	check("before")
	for _, key := range keys[:3] {
		slot := cluster.Slot(key)
		from := cluster.Owner(slot)
		to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
		cluster.MigrateSlot(slot, from, to, func() { check("while " + key + " moves") })
		check("when " + key + " has moved")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.GetMany(ctx, keys); !errors.Is(err, context.Canceled) {
		t.Errorf("GetMany in a context that is over: %v", err)
	}
}
