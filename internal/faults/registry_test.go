//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// pageSize is how many records a page of the upstream has.
const pageSize = 100

// mirrored is a registry that processes fill, and that the test reads directly.
type mirrored struct {
	t         *testing.T
	upstream  *registrytest.Upstream
	redis     *redistest.Server
	catalogue *catalogue.Catalogue
	crawls    int // that may have begun
	round     int // of changes of the upstream
	output    tail
}

func newMirrored(t *testing.T, records int) *mirrored {
	t.Helper()
	m := &mirrored{t: t, upstream: registrytest.New(t), redis: redistest.Start(t, redistest.Config{})}
	m.upstream.Fill(records)
	backend, err := redis.Open(t.Context(), redis.Options{URL: m.redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(backend, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.catalogue = catalogue.New(store)
	t.Cleanup(func() {
		_ = store.Close()
		if t.Failed() {
			t.Logf("the end of the output of authz registry:\n%s", m.output.String())
		}
	})
	return m
}

func (m *mirrored) status() mirror.Status {
	m.t.Helper()
	var s mirror.Status
	eventually(m.t, patience, func() (err error) {
		s, err = mirror.ReadStatus(m.t.Context(), m.catalogue)
		return err
	})
	return s
}

// crawl runs a process that continues the interrupted crawl, or begins one.
func (m *mirrored) crawl(serve bool) (cmd *exec.Cmd, exited chan struct{}) {
	m.t.Helper()
	args := []string{"registry", "sync", "--full"}
	if running := m.status().Running; running == nil {
		m.crawls++
	} else if serve {
		args = []string{"registry", "serve", "--listen", "127.0.0.1:0"}
	}
	cmd = exec.Command(authzBinary, append(args, "--upstream", m.upstream.URL(), "--store", m.redis.URL())...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AUTHZ_") })
	cmd.Stdout, cmd.Stderr = &m.output, &m.output
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	exited = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	m.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, exited
}

// kill lets a process read some pages, and kills it about while it writes the last one of them.
// It reports whether the process was still at it.
func (m *mirrored) kill(serve bool) bool {
	m.t.Helper()
	pages := 1 + rand.IntN(m.upstream.Len()/pageSize/5)
	if m.status().Running == nil {
		pages++ // the second one is asked for after the first is written, so there is a crawl to go on with
	}
	m.upstream.Break(registrytest.Faults{After: pages, Hold: make(chan struct{})})
	defer m.upstream.Mend()
	wanted := len(m.upstream.Requests()) + pages // and no later one is answered
	cmd, exited := m.crawl(serve)
	for deadline := time.Now().Add(patience); len(m.upstream.Requests()) < wanted; <-time.After(time.Millisecond) {
		select {
		case <-exited:
			return false
		default:
		}
		if serve && m.status().Running == nil { // it goes on serving
			_ = cmd.Process.Kill()
			<-exited
			return false
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("the process reads nothing: %+v", m.status())
		}
	}
	<-time.After(time.Duration(rand.Int64N(int64(150 * time.Millisecond))))
	_ = cmd.Process.Kill()
	<-exited
	return true
}

// change changes every record of the upstream, so that each crawl has as much to do as the first
// one.
func (m *mirrored) change(records int) {
	m.round++
	for i := range records {
		m.upstream.SetStatus(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0", registry.StatusDeprecated, fmt.Sprint("round ", m.round))
	}
}

// watch reads pages until ctx ends. Each has all records of a page of the upstream, in one state,
// or none.
func (m *mirrored) watch(ctx context.Context) (pages int) {
	for after := ""; ctx.Err() == nil; {
		page, err := m.catalogue.Page(ctx, catalogue.Query{}, after, pageSize)
		if ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable) { // the machine is busy
			continue
		}
		if err != nil {
			m.t.Error(err)
			return pages
		}
		if n := len(page.Entries); n != 0 && n != pageSize || page.Unreadable > 0 {
			m.t.Errorf("readers see %d of %d records of a page, and %d cannot be read", n, pageSize, page.Unreadable)
			return pages
		}
		for _, e := range page.Entries {
			if first := page.Entries[0]; e.StatusMessage != first.StatusMessage || !e.Latest {
				m.t.Errorf("readers see half a page: %s is %q and %s is %q", first.Name, first.StatusMessage, e.Name, e.StatusMessage)
				return pages
			}
		}
		pages++
		if after = page.Next; !page.More {
			after = ""
		}
		<-time.After(2 * time.Millisecond)
	}
	return pages
}

// TestRegistryIsKilled: a crawl that is killed again and again comes to its end. It continues
// where it was, loses nothing, and readers never see half of a page.
func TestRegistryIsKilled(t *testing.T) {
	records, kills := amount(1000, 10_000), amount(3, 50)
	m := newMirrored(t, records)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reading sync.WaitGroup
	watched := 0
	reading.Go(func() { watched = m.watch(ctx) })
	resumed, undone := 0, 0
	for killed := 0; killed < kills && !t.Failed(); {
		before := m.status().Running
		if before == nil && m.status().LastFull != nil {
			m.change(records)
		}
		// A process that serves finishes at once what was begun. The rest is due in an hour.
		if !m.kill(before != nil && killed%2 == 1) {
			continue
		}
		killed++
		after := m.status()
		undone += m.pending()
		if before != nil && after.Running != nil {
			resumed++
			if after.Running.Pages < before.Pages || !after.Running.Began.Equal(before.Began) {
				t.Errorf("a crawl that was at page %d is at page %d after the next kill", before.Pages, after.Running.Pages)
			}
		}
		if after.Running != nil && m.round == 0 && after.Rows != after.Running.Pages*pageSize {
			t.Errorf("%d records are there after %d pages", after.Rows, after.Running.Pages)
		}
	}
	for range 3 { // the rest, and one more
		_, exited := m.crawl(false)
		select {
		case <-exited:
		case <-time.After(2 * patience):
			t.Fatalf("the crawl does not end: %+v", m.status())
		}
	}
	stop()
	reading.Wait()
	m.complete(records)
	begun := 0
	for _, asked := range m.upstream.Requests() {
		if !strings.Contains(asked, "cursor=") {
			begun++
		}
	}
	if begun > m.crawls || resumed == 0 || watched == 0 || *long && undone == 0 {
		t.Errorf("%d crawls began where %d might have, it went on after %d kills, %d pages were half written, %d were watched", begun, m.crawls, resumed, undone, watched)
	}
	t.Logf("%d kills in %d crawls of %d records: %d of them went on, %d left a page half written; %d pages were read meanwhile",
		kills, begun, records, resumed, undone, watched)
}

// pending returns 1 if a page is half written: announced, and not committed.
func (m *mirrored) pending() int {
	m.t.Helper()
	state, err := m.redis.Client().Get(m.t.Context(), "gatehouse:catalogue:state").Result()
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.Count(state, `"pending":`)
}

// complete compares the catalogue with the upstream.
func (m *mirrored) complete(records int) {
	m.t.Helper()
	seen, message := 0, ""
	if m.round > 0 {
		message = fmt.Sprint("round ", m.round)
	}
	for after, more := "", true; more; {
		page, err := m.catalogue.Page(m.t.Context(), catalogue.Query{Deleted: true}, after, 1000)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, e := range page.Entries {
			seen++
			if name := fmt.Sprintf("com.example/server-%06d", seen); e.Name != name || string(e.Server) != registrytest.Record(name, "1.0.0") || e.StatusMessage != message || !e.Latest {
				m.t.Errorf("in place of %s in %q there is %s %s in %q", name, message, e.Name, e.Version, e.StatusMessage)
			}
		}
		after, more = page.Next, page.More
	}
	if s := m.status(); seen != records || s.Rows != records || s.Servers != records || s.Deleted != 0 || s.Running != nil || s.Failure != nil || s.Shrink != nil {
		m.t.Errorf("%d records are there, want %d: %+v", seen, records, s)
	}
}
