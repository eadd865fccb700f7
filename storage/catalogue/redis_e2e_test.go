//go:build e2e

package catalogue_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// kills is the number of writers that are killed.
var kills = flag.Int("catalogue.kills", 5, "how often to kill the writer of a catalogue")

// Environment variables that make a process of this test binary a writer of a catalogue: the
// store, and the offset of its clock, which saves the wait for the end of a lease.
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

// The n-th page changes all shared rows, adds rows of its own, and deletes those of the page
// before.
const (
	sharedRows = 30
	ownRows    = 5
)

func catalogueRow(server string, n int, status string, latest bool) catalogue.Entry {
	return catalogue.Entry{
		Name: server, Version: "1.0.0", Server: []byte(strconv.Itoa(n)), Meta: []byte(`{}`), Status: status, Latest: latest,
		Updated: time.Unix(int64(n), 0),
	}
}

func cataloguePage(n int) (page []catalogue.Entry) {
	for i := range sharedRows {
		page = append(page, catalogueRow(fmt.Sprintf("shared/%02d", i), n, "active", (n+i)%2 == 0))
	}
	for i := range ownRows {
		page = append(page, catalogueRow(fmt.Sprintf("own/%06d-%d", n, i), n, "active", true))
		if n > 1 {
			page = append(page, catalogueRow(fmt.Sprintf("own/%06d-%d", n-1, i), n, catalogue.StatusDeleted, true))
		}
	}
	return page
}

// openAhead opens the catalogue of a store with a clock that is ahead.
func openAhead(ctx context.Context, url string, ahead time.Duration) (c *catalogue.Catalogue, done func(), err error) {
	b, err := redis.Open(ctx, redis.Options{URL: url})
	if err != nil {
		return nil, nil, err
	}
	s, err := storage.New(b, storage.Options{Issuer: "https://registry.example.com", Now: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		return nil, nil, err
	}
	return catalogue.New(s), func() { _ = s.Close() }, nil
}

// writeCatalogue commits pages until the process is killed, and prints the number of each page
// after its commit.
func writeCatalogue(ctx context.Context, url string, ahead time.Duration) error {
	c, _, err := openAhead(ctx, url, ahead)
	if err != nil {
		return err
	}
	var w *catalogue.Writer
	err = insist(func() (err error) {
		w, err = c.OpenWriter(ctx, fmt.Sprint(os.Getpid()))
		return err
	})
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(w.State().Progress)) // 0 without progress
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

// insist repeats an operation that failed because the machine is busy.
func insist(try func() error) error {
	for {
		if err := try(); !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
	}
}

// scribe is a writer in a process of its own.
type scribe struct {
	cmd     *exec.Cmd
	printed atomic.Int64 // the last page that it has printed
	over    chan struct{}
}

func startScribe(t *testing.T, url string, ahead time.Duration) *scribe {
	t.Helper()
	s := &scribe{cmd: exec.Command(os.Args[0]), over: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), writerStore+"="+url, writerAhead+"="+ahead.String())
	var stderr strings.Builder
	s.cmd.Stderr = &stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.printed.Store(-1)
	go func() {
		defer close(s.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Errorf("a writer says %q", lines.Text())
			}
			s.printed.Store(int64(n))
		}
		_ = s.cmd.Wait()
		if stderr.Len() > 0 {
			t.Errorf("a writer ended by itself: %s", stderr.String())
		}
	}()
	t.Cleanup(s.kill)
	return s
}

func (s *scribe) kill() {
	_ = s.cmd.Process.Kill()
	<-s.over
}

// TestCatalogueWriterIsKilled: wherever a writer is killed, readers see whole pages, the next
// writer continues behind the last acknowledged page or the one after it, and no stale entry
// remains in the lists.
func TestCatalogueWriterIsKilled(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	c, done, err := openAhead(t.Context(), server.URL(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var over atomic.Bool
	var readers sync.WaitGroup
	var pages atomic.Int64
	for range 2 {
		readers.Go(func() {
			last := 0
			for !over.Load() && !t.Failed() {
				n, err := readShared(t.Context(), c)
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
		eventually(t, "a few pages", func() bool { return s.printed.Load() >= moment || t.Failed() })
		<-time.After(time.Duration(rand.Int64N(int64(20 * time.Millisecond)))) // a random moment
		s.kill()
		var st catalogue.State
		err := insist(func() (err error) {
			st, err = c.State(t.Context())
			return err
		})
		n, _ := strconv.ParseInt(string(st.Progress), 10, 64)
		if err != nil || n < s.printed.Load() || n > s.printed.Load()+1 {
			t.Fatalf("the writer said %d, on record is %d, %v", s.printed.Load(), n, err)
		}
		last, ahead = n, ahead+10*time.Second
	}
	over.Store(true)
	readers.Wait()
	t.Logf("%d pages were committed in %d lives, %d were read", last, *kills, pages.Load())
	wholeCatalogue(t, server, int(last), ahead)
}

// readShared reads the shared rows and returns the number of the page that wrote them.
func readShared(ctx context.Context, s *catalogue.Catalogue) (int, error) {
	q := catalogue.Query{Deleted: rand.IntN(2) == 0, Match: func(name string) bool { return strings.HasPrefix(name, "shared/") }}
	if rand.IntN(2) == 0 {
		q = catalogue.Query{Since: time.Unix(0, 0)} // all live rows
	}
	page, err := s.Page(ctx, q, "", 1000)
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

// wholeCatalogue checks the rows and lists after n pages, and that another writer has to clean up
// the last page at most.
func wholeCatalogue(t *testing.T, server *redistest.Server, n int, ahead time.Duration) {
	t.Helper()
	c, done, err := openAhead(t.Context(), server.URL(), ahead)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var w *catalogue.Writer
	err = insist(func() (err error) {
		w, err = c.OpenWriter(t.Context(), "the last one")
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
		page, err := c.Page(t.Context(), catalogue.Query{Deleted: true}, after, 500)
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

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not happen", what)
		}
	}
}
