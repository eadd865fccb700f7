package dcr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// TestDocumentHeaders: a document is cached for as long as its headers allow, but at least a
// minute and at most a day (RFC 9111 section 4.2).
func TestDocumentHeaders(t *testing.T) {
	date := "Date: Sun, 01 Mar 2026 12:00:00 GMT"
	for _, tt := range []struct {
		headers []string
		life    time.Duration
	}{
		{nil, 5 * time.Minute},
		{[]string{"Cache-Control: max-age=600"}, 10 * time.Minute},
		{[]string{"Cache-Control: public, Max-Age=600, must-revalidate"}, 10 * time.Minute},
		{[]string{`Cache-Control: max-age="600"`}, 10 * time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: 240"}, 6 * time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: 9999999999999999999999"}, time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: -240"}, 10 * time.Minute},
		{[]string{"Cache-Control: max-age=600, max-age=300"}, 5 * time.Minute},
		{[]string{"Cache-Control: max-age=600, s-maxage=1200"}, 20 * time.Minute},
		{[]string{"Cache-Control: s-maxage=1200, max-age=600"}, 20 * time.Minute},
		{[]string{"Cache-Control: s-maxage=120, max-age=600"}, 2 * time.Minute},
		{[]string{"Cache-Control: s-maxage=120, s-maxage=600"}, 2 * time.Minute},
		{[]string{"Cache-Control: max-age=0"}, time.Minute},
		{[]string{"Cache-Control: max-age=-1"}, time.Minute},
		{[]string{"Cache-Control: max-age=soon"}, time.Minute},
		{[]string{"Cache-Control: max-age"}, time.Minute},
		{[]string{"Cache-Control: no-store"}, time.Minute},
		{[]string{"Cache-Control: max-age=600, no-store"}, time.Minute},
		{[]string{"Cache-Control: no-cache"}, time.Minute},
		{[]string{"Cache-Control: private, max-age=600"}, time.Minute},
		{[]string{"Cache-Control: max-age=31536000, immutable"}, 24 * time.Hour},
		{[]string{"Cache-Control: max-age=99999999999999999999"}, 24 * time.Hour},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT"}, 30 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT", "Age: 600"}, 20 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT", "Cache-Control: max-age=120"}, 2 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2020 12:30:00 GMT"}, time.Minute},
		{[]string{date, "Expires: 0"}, time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2099 12:30:00 GMT"}, 24 * time.Hour},
	} {
		t.Run(strings.Join(tt.headers, "; "), func(t *testing.T) {
			t.Parallel()
			r := newReader(t, nil)
			id := r.publish("client.example.com", nil, tt.headers...)
			r.resolve(t, id)
			r.clock.advance(tt.life - 1)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 1 {
				t.Errorf("read %d times before %s", n, tt.life)
			}
			r.clock.advance(1)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 2 {
				t.Errorf("read %d times after %s", n, tt.life)
			}
			r.clock.advance(-time.Hour)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 3 {
				t.Errorf("read %d times after the clock was set back", n)
			}
		})
	}
}

// TestDocumentRevalidates: a document that has not changed is not sent again.
func TestDocumentRevalidates(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body := published(id, nil)
	var conditions []string
	r.web.Serve(id, func(w http.ResponseWriter, q *http.Request) {
		conditions = append(conditions, q.Header.Get("If-None-Match")+q.Header.Get("If-Modified-Since"))
		w.Header().Set("Etag", `W/"1"`)
		if q.Header.Get("If-None-Match") == `W/"1"` {
			w.Header().Set("Cache-Control", "max-age=7200")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Age", "1800")
		_, _ = w.Write([]byte(body))
	})
	first := r.resolve(t, id)
	r.clock.advance(30 * time.Minute)
	if again := r.resolve(t, id); dcr.Digest(again) != dcr.Digest(first) || !again.Created.Equal(first.Created) {
		t.Errorf("client %+v, was %+v", again, first)
	}
	r.clock.advance(2*time.Hour - 1)
	r.resolve(t, id)
	if want := []string{"", `W/"1"`}; !slices.Equal(conditions, want) {
		t.Errorf("asked with %q, want %q", conditions, want)
	}
}

// TestDocumentHostDown: an expired document is not used, and the document of a host that
// recovered is fetched after failureTime.
func TestDocumentHostDown(t *testing.T) {
	r := newReader(t, nil)
	id := r.publish("client.example.com", nil, "Cache-Control: max-age=600")
	r.resolve(t, id)
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	r.clock.advance(10*time.Minute - 1)
	r.resolve(t, id)
	r.clock.advance(1)
	r.unreachable(t, id)
	r.publish("client.example.com", map[string]any{"client_name": "Notes again"})
	r.clock.advance(5 * time.Second)
	if c := r.resolve(t, id); c.Metadata.ClientName != "Notes again" {
		t.Errorf("client %+v", c)
	}
	r.clock.advance(time.Hour)
	r.publish("client.example.com", map[string]any{"client_secret": "s"})
	r.refuses(t, id, "client_secret")
}

// TestDocumentIsReadOnce: many concurrent callers for one document cause one request.
func TestDocumentIsReadOnce(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body := published(id, nil)
	const callers = 200
	var arrived sync.WaitGroup
	arrived.Add(callers)
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Wait()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			arrived.Done()
			if c, err := r.Resolve(context.Background(), id); err != nil || c.ID != id {
				t.Errorf("resolved %q: %v", c.ID, err)
			}
		})
	}
	group.Wait()
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestDocumentCallerLeaves: a caller whose context ends returns, and the others get the
// document.
func TestDocumentCallerLeaves(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body, asked, hold := published(id, nil), make(chan struct{}), make(chan struct{})
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-hold
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := r.Resolve(ctx, id); left <- err }()
	<-asked
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	close(hold)
	r.resolve(t, id)
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestDocumentLimit: failed fetches from one host are limited, also for invented addresses,
// and a cached client of that host is not affected.
func TestDocumentLimit(t *testing.T) {
	r := newReader(t, nil)
	good := r.publish("client.example.com", nil, "Cache-Control: max-age=60")
	r.resolve(t, good)
	before := r.web.Connections.Load()
	for i := range 200 {
		if _, err := r.Resolve(t.Context(), r.web.URL("client.example.com", fmt.Sprint("/invented/", i))); err == nil {
			t.Fatal("invented and found")
		}
	}
	if n := r.web.Connections.Load() - before; n != 30 {
		t.Errorf("%d failed requests, want 30", n)
	}
	fresh := r.web.URL("client.example.com", "/fresh.json")
	r.web.Document(fresh, published(fresh, nil))
	r.unreachable(t, fresh)
	r.clock.advance(time.Minute)
	for i := range 200 {
		_, _ = r.Resolve(t.Context(), r.web.URL("client.example.com", fmt.Sprint("/invented/", i)))
	}
	r.unreachable(t, fresh)
	r.resolve(t, good)
	r.resolve(t, r.publish("other.example.com", nil))
	for range 100 { // what succeeds costs nothing
		r.clock.advance(time.Minute)
		r.resolve(t, good)
	}
	r.resolve(t, fresh)
}

// TestDocumentsAreBounded: a host that serves a document at every address does not displace
// the documents that are in use from the cache.
func TestDocumentsAreBounded(t *testing.T) {
	r := newReader(t, nil)
	used := r.publish("client.example.com", nil, "Cache-Control: max-age=86400")
	r.resolve(t, used)
	r.web.Serve("*", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(published("https://"+q.Host+q.URL.Path, map[string]any{"padding": strings.Repeat("p", 9000)})))
	})
	const many = 500 // of more than 9 KiB each: more than twice what one generation holds
	for i := range many {
		r.resolve(t, r.web.URL("flood.example.org", fmt.Sprint("/", i)))
		if i%100 == 0 {
			r.resolve(t, used)
		}
	}
	if n := r.web.Hits(used); n != 1 {
		t.Errorf("the document in use was read %d times", n)
	}
	first := r.web.URL("flood.example.org", "/0")
	r.resolve(t, first)
	if n := r.web.Hits(first); n != 2 {
		t.Errorf("the first of the flood was read %d times", n)
	}
	last := r.web.URL("flood.example.org", fmt.Sprint("/", many-1))
	r.resolve(t, last)
	if n := r.web.Hits(last); n != 1 {
		t.Errorf("the last of the flood was read %d times", n)
	}
}
