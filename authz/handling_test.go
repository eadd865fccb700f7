package authz_test

import (
	"net/http"
	"sync"
)

// handling counts the requests that are in a handler: an answer can arrive before its handler has ended,
// and with it what the handler tells at its end.
type handling struct {
	mu    sync.Mutex
	ended *sync.Cond
	n     int
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
