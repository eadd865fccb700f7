package authz_test

import (
	"context"
	"net/http"
	"sync"
)

// handling counts the requests that are in a handler: an answer can arrive before its handler has ended,
// and with it what the handler tells at its end.
type handling struct {
	mu    sync.Mutex
	ended *sync.Cond
	n     int
	over  chan struct{} // ends the time of the requests that come, if set
}

func newHandling() *handling {
	h := &handling{}
	h.ended = sync.NewCond(&h.mu)
	return h
}

func (h *handling) change(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += by
	h.ended.Broadcast()
}

// around returns a handler whose requests are counted.
func (h *handling) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.change(1)
		defer h.change(-1)
		h.mu.Lock()
		over := h.over
		h.mu.Unlock()
		if over != nil {
			r = r.WithContext(ending{r.Context(), over})
		}
		next.ServeHTTP(w, r)
	})
}

// wait returns when every handler has ended.
func (h *handling) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.n > 0 {
		h.ended.Wait()
	}
}

// limit lets the time of the requests that come end with over, if that is not nil.
func (h *handling) limit(over chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = over
}

// ending is a context whose time is over when a channel is closed.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// unanswered makes a request whose first write of a kind of record is done, but the store never says
// so: it is sent again until the time of the request is over, which is at once. So nothing depends on
// how fast the machine is.
func (h *harness) unanswered(kind string, request func() reply) reply {
	h.t.Helper()
	lost := &unanswered{kind: kind, over: make(chan struct{})}
	h.handling.limit(lost.over)
	h.meter.unanswered.Store(lost)
	defer h.handling.limit(nil)
	defer h.meter.unanswered.Store(nil)
	return request()
}
