package gateway

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"gatehouse.example/middleware"
)

const (
	// reopenTime is for how long an upstream may take a stream that the gateway ended for one
	// that goes on.
	reopenTime = 5 * time.Second
	// firstPause and longestPause are between two tries to open a stream again.
	firstPause   = 10 * time.Millisecond
	longestPause = 320 * time.Millisecond
	// maxEnded bounds how many sessions are remembered whose streams have ended lately.
	maxEnded = 8192
)

// reopening is a transport that opens a stream behind the one before. When a stream ends with
// its token, the client opens it anew at once, perhaps before the upstream has noticed the
// end, and servers answer 409 then: there may be one stream at a time. So the request is sent
// again until the upstream has noticed. GET changes nothing, and 409 says that nothing was
// done.
type reopening struct {
	http.RoundTripper
	ended *endedStreams
}

// RoundTrip implements http.RoundTripper.
func (o reopening) RoundTrip(r *http.Request) (*http.Response, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		res, err := o.RoundTripper.RoundTrip(r)
		if err != nil || res.StatusCode != http.StatusConflict || r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody || !o.ended.has(r) {
			return res, err
		}
		if !wait(r.Context(), pause) {
			return res, nil
		}
		_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
		_ = res.Body.Close()
	}
}

// wait reports whether there was time for a pause.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// endedStreams are the sessions whose streams the gateway has ended lately, and when. They
// are for requests to the upstream, in whose context the token is.
type endedStreams struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note remembers that a stream of the session of a request ends. It is called before the
// client can see the end.
func (e *endedStreams) note(r *http.Request) {
	session, ok := sessionOf(r)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if len(e.at) >= maxEnded {
		e.forget(now)
	}
	if e.at == nil {
		e.at = map[string]time.Time{}
	}
	e.at[session] = now
}

// forget makes room: what is old goes, and all if that is nothing.
func (e *endedStreams) forget(now time.Time) {
	for session, at := range e.at {
		if now.Sub(at) > reopenTime {
			delete(e.at, session)
		}
	}
	if len(e.at) >= maxEnded {
		clear(e.at)
	}
}

func (e *endedStreams) has(r *http.Request) bool {
	session, ok := sessionOf(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	at, noted := e.at[session]
	return ok && noted && time.Since(at) <= reopenTime
}

// sessionOf names the session of a request, and whose it is.
func sessionOf(r *http.Request) (string, bool) {
	id := r.Header.Get("Mcp-Session-Id")
	who := ""
	if token, ok := middleware.TokenFrom(r.Context()); ok {
		who = token.Principal()
	}
	return who + "\n" + id, id != ""
}
