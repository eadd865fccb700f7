package authz

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// precedence lets work that anybody may cause wait for requests to the token, revocation and
// introspection endpoints. They share the processors, and a queue for each kind alone would let a
// flood have as much of them as it can use.
type precedence struct {
	mu    sync.Mutex
	first int           // requests with precedence that are here
	calm  chan struct{} // closed when the last of them has gone; nil if nobody waits for that
}

// yieldTime bounds how long other work waits for requests with precedence, before it begins: where
// there are always some, each place still does fifty registrations in a second.
const yieldTime = 20 * time.Millisecond

// begin counts a request with precedence. The function that it returns is called at its end.
func (p *precedence) begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first++
	return p.end
}

func (p *precedence) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first--; p.first == 0 && p.calm != nil {
		close(p.calm)
		p.calm = nil
	}
}

// none returns a channel that is closed when no request with precedence is here, nil if that is so
// now.
func (p *precedence) none() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == 0 {
		return nil
	}
	if p.calm == nil {
		p.calm = make(chan struct{})
	}
	return p.calm
}

// yield returns when no request with precedence is here, after yieldTime in any case.
func (p *precedence) yield(ctx context.Context) {
	calm := p.none()
	if calm == nil {
		return
	}
	late := time.NewTimer(yieldTime)
	defer late.Stop()
	select {
	case <-calm:
	case <-late.C:
	case <-ctx.Done():
	}
}

// before returns a handler whose requests have precedence, those that wait for a place too.
func (s *Server) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.requests.precedence.begin()()
		next.ServeHTTP(w, r)
	})
}

// yielding returns a handler that lets requests with precedence go first. That of registrations is
// inside of [Server.placed], so that no more begin at a time than have places. Pages have no places:
// one may wait for a provider, a document or the queue of passwords, and would keep people out.
func (s *Server) yielding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.precedence.yield(r.Context())
		next.ServeHTTP(w, r)
	})
}
