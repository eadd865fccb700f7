package dcr_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// TestDocumentsUnderAnotherPolicy: documents that were read stay known to a configuration that judges
// them by the same rules, pinned ones aside, and are read again under another policy.
func TestDocumentsUnderAnotherPolicy(t *testing.T) {
	config := dcr.Config{}
	r := newReader(t, func(c *dcr.Config) { config = *c })
	config.Store, config.Endpoint, config.Now, config.Logger = r.store, registerURL, r.clock.now, slog.New(slog.DiscardHandler)
	id := r.publish("client.example.com", map[string]any{"redirect_uris": []string{"http://127.0.0.1/callback"}})
	r.resolve(t, id)
	next := func(change func(*dcr.Config)) reader {
		c := config
		c.Before = r.Clients
		change(&c)
		clients, err := dcr.New(c)
		if err != nil {
			t.Fatal(err)
		}
		after := reader{web: r.web, fixture: &fixture{Clients: clients, clock: r.clock, log: r.log}}
		return after
	}
	pinned := r.web.URL("pinned.example.com", "/client.json")
	same := next(func(c *dcr.Config) { c.Documents.Pinned = map[string][]byte{pinned: []byte(published(pinned, nil))} })
	same.resolve(t, id)
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("under the same rules it was read %d times", n)
	}
	next(func(c *dcr.Config) { c.Policy.RefuseLoopback = true }).refuses(t, id, "loopback")
}

// TestUnprintableTag: a validator that cannot be sent back is left out, and the document is read again.
func TestUnprintableTag(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	asked := ""
	r.web.Serve(id, func(w http.ResponseWriter, q *http.Request) {
		asked += "[" + q.Header.Get("If-None-Match") + q.Header.Get("If-Modified-Since") + "]"
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", "\"caf\u00e9\"")
		_, _ = w.Write([]byte(published(id, nil)))
	})
	for range 2 {
		r.resolve(t, id)
		r.clock.advance(time.Hour)
	}
	if asked != "[][]" {
		t.Errorf("asked with %s", asked)
	}
}

// TestFailedChangeCountsForNothing: what a change of a registration took of the limits is given back when
// it cannot be stored.
func TestFailedChangeCountsForNothing(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	returned := 0
	clients, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Now: f.clock.now, Logger: slog.New(slog.DiscardHandler), Admit: admitThen(func() { f.faults.SetDown(true) }, &returned)})
	if err != nil {
		t.Fatal(err)
	}
	f.Clients = clients
	if a := f.put(t, m.id, m.update(""), m.bearer()); a.status != http.StatusServiceUnavailable || returned != 1 {
		t.Errorf("status %d, given back %d times: %s", a.status, returned, a.raw)
	}
	f.faults.SetDown(false)
	if a := f.get(t, m.id, m.bearer()); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.raw)
	}
}

// admitThen admits everything, does something after that, and counts what is given back.
func admitThen(do func(), returned *int) func(context.Context, storage.Client, int64) (func(), error) {
	return func(context.Context, storage.Client, int64) (func(), error) {
		do()
		return func() { *returned++ }, nil
	}
}
