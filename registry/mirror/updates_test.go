package mirror_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/storagetest"
)

// Update times increase with each commit, independently of the clock and the upstream, so a
// client that requests updates misses none.
func TestUpdatesRise(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(35)
	m.sync(mirror.SyncOptions{})
	newest := func() (at time.Time) {
		for _, e := range m.rows(catalogue.Query{Deleted: true}) {
			if e.Updated.After(at) {
				at = e.Updated
			}
		}
		return at
	}
	for i := range 5 {
		before := newest()
		m.later(-time.Hour)
		m.upstream.Add("com.example/added", fmt.Sprintf("1.0.%d", i))
		m.sync(mirror.SyncOptions{})
		changed := m.rows(catalogue.Query{Since: before, Deleted: true})
		if want := min(i+1, 2); len(changed) != want {
			t.Errorf("%d rows were updated since, want %d", len(changed), want)
		}
	}
}

// watched is a backend that calls a function after each write.
type watched struct {
	*storagetest.Faults
	wrote func()
}

func (w *watched) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	item, err := w.Faults.Put(ctx, put)
	if w.wrote != nil {
		w.wrote()
	}
	return item, err
}

// Update times also increase between the parts of a change that is too large for one commit: a client
// that requests updates after each part misses nothing of the next one.
func TestUpdatesRiseBetweenParts(t *testing.T) {
	var list strings.Builder
	for i := range 1205 {
		fmt.Fprintf(&list, `,{"server":%s}`, registrytest.Record(fmt.Sprintf("com.example/server-%06d", i), "1.0.0"))
	}
	enormous := `{"servers":[` + list.String()[1:] + `],"metadata":{}}`
	small := `{"servers":[{"server":` + registrytest.Record("com.example/server-000000", "1.0.0") + `}],"metadata":{}}`
	m := newFixture(t)
	backend := &watched{Faults: m.faults}
	m.catalogue = cataloguetest.New(t, backend)
	var committed uint64
	var since time.Time
	seen, parts := 0, 0
	var one sync.Mutex // the lease is renewed meanwhile
	backend.wrote = func() {
		one.Lock()
		defer one.Unlock()
		st, err := m.catalogue.State(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if st.Committed == committed || st.Live+st.Deleted == 0 {
			return
		}
		committed = st.Committed
		changed := m.rows(catalogue.Query{Since: since, Deleted: true})
		for _, e := range changed {
			if e.Updated.After(since) {
				since = e.Updated
			}
		}
		seen, parts = seen+len(changed), parts+1
	}
	for _, step := range []struct {
		list        string
		seen, parts int
	}{{enormous, 1205, 2}, {small, 1204, 7}} {
		seen, parts = 0, 0
		m.answering(step.list)
		m.sync(mirror.SyncOptions{AcceptShrink: true})
		if seen != step.seen || parts != step.parts {
			t.Errorf("a client that reads the updates after each commit gets %d rows in %d parts, want %d in %d", seen, parts, step.seen, step.parts)
		}
	}
}
