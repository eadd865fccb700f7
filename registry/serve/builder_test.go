package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"gatehouse.example/registry"
	"gatehouse.example/registry/serve"
)

// noisy and quiet are addresses of two networks, and wanted is a list that both ask for.
const (
	noisy, quiet = "192.0.2.1:1", "198.51.100.1:1"
	wanted       = "/v0.1/servers?search=wanted"
)

// busyDesk is a desk at which the noisy network has all places, with lists whose construction waits.
type busyDesk struct {
	*desk
	slow chan struct{} // each receive ends the construction of one list
	all  sync.WaitGroup
}

func newBusyDesk(t *testing.T, more int) *busyDesk {
	d := &busyDesk{slow: make(chan struct{})}
	config := serve.Config{
		MetaKey: "com.example.registry/catalogue", Revision: func() string { return "1" },
		Enrich: func(item registry.Item) (json.RawMessage, error) {
			if item.Record.Name() != "com.example/wanted" {
				<-d.slow
			}
			return json.RawMessage(`1`), nil
		},
	}
	d.desk = newDesk(t, config, rowOf("com.example/slow", "1.0.0"), rowOf("com.example/wanted", "1.0.0"))
	_, places := d.handler.BuildsWaiting()
	for i := range places + more {
		d.send(t.Context(), noisy, fmt.Sprintf("/v0.1/servers?search=slow&limit=%d", i+1))
	}
	d.isWaiting(t, more)
	return d
}

// send sends a request from an address, and returns where its answer will be.
func (d *busyDesk) send(ctx context.Context, from, target string) chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	d.all.Go(func() {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		out <- w
	})
	return out
}

// isWaiting checks how many requests wait for a place.
func (d *busyDesk) isWaiting(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	if waiting, _ := d.handler.BuildsWaiting(); waiting != want {
		t.Errorf("%d requests wait, want %d", waiting, want)
	}
}

// end lets all constructions end.
func (d *busyDesk) end() {
	close(d.slow)
	d.all.Wait()
}

// TestNobodyWaitsInTheTurnOfAnother: an answer that a network with many waiting requests has asked for
// last is built in the first turn of another network that wants it too, once.
func TestNobodyWaitsInTheTurnOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBusyDesk(t, 3)
		d.send(t.Context(), noisy, wanted)
		d.isWaiting(t, 4)
		got := d.send(t.Context(), quiet, wanted)
		d.isWaiting(t, 5)
		d.slow <- struct{}{} // one place is free
		if w := <-got; w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		d.isWaiting(t, 2) // the place went on to the next one, and nobody waits for what was built
		d.end()
	})
}

// TestAnswersOfThoseWhoLeft: an answer is built for those who still wait for it, whoever left, and anew
// after all have left.
func TestAnswersOfThoseWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBusyDesk(t, 0)
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		d.send(first, noisy, wanted)
		d.isWaiting(t, 1)
		d.send(second, quiet, wanted)
		d.isWaiting(t, 2)
		leaveFirst()
		d.isWaiting(t, 1)
		third := d.send(t.Context(), "203.0.113.1:1", wanted)
		d.isWaiting(t, 2)
		leaveSecond()
		d.isWaiting(t, 1)
		alone, leave := context.WithCancel(t.Context())
		gone := d.send(alone, quiet, wanted+"&limit=2")
		d.isWaiting(t, 2)
		leave()
		<-gone
		d.isWaiting(t, 1)
		d.slow <- struct{}{}
		if w := <-third; w.Code != http.StatusOK {
			t.Errorf("who stayed: %d %s", w.Code, w.Body)
		}
		d.end()
		if w := d.get(wanted + "&limit=2"); w.Code != http.StatusOK {
			t.Errorf("after all have left: %d %s", w.Code, w.Body)
		}
	})
}

// stuckWriter is the connection of a client that does not read.
type stuckWriter struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	<-w.reads
	return w.ResponseRecorder.Write(b)
}

// TestNobodyWaitsForSlowReaders: a place is free again before an answer is sent. Whoever does not read
// answers, of which kind ever, takes no place from others.
func TestNobodyWaitsForSlowReaders(t *testing.T) {
	for _, path := range []string{"/", "/?search=x", "/servers/com.example/a", "/v0.1/servers", "/v0.1/servers/com.example%2Fa/versions/1.0.0", "/icons/com.example/a/1.0.0/x"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0"))
			_, places := d.handler.BuildsWaiting()
			reads := make(chan struct{})
			var all sync.WaitGroup
			for range places {
				all.Go(func() {
					d.handler.ServeHTTP(&stuckWriter{httptest.NewRecorder(), reads}, httptest.NewRequest(http.MethodGet, path, nil))
				})
			}
			synctest.Wait()
			for _, other := range []string{"/v0.1/servers?limit=7", "/", "/servers/com.example/a"} {
				if w := d.get(other); w.Code != http.StatusOK {
					t.Errorf("%s beside readers of %s: %d", other, path, w.Code)
				}
			}
			close(reads)
			all.Wait()
		})
	}
}

// TestIconsTakePlaces: the row of an icon is read in a place, as other rows are.
func TestIconsTakePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBusyDesk(t, 0)
		got := d.send(t.Context(), quiet, "/icons/com.example/wanted/1.0.0/AAAAAAAAAAAAAAAAAAAAAA")
		d.isWaiting(t, 1)
		d.slow <- struct{}{}
		if w := <-got; w.Code != http.StatusNotFound {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		d.end()
	})
}
