package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// reopenTries is the number of attempts. With the pauses between them, each twice as long as
	// the one before, an upstream has about five seconds to notice that a stream has ended.
	reopenTries  = 12
	firstPause   = 10 * time.Millisecond
	longestPause = 640 * time.Millisecond
)

// reopening is a transport that repeats a request for a stream while the upstream answers 409.
// When a stream ends with its token, the client resumes it at once, perhaps before the upstream
// has noticed the end, and servers that allow one stream at a time then answer 409. Repeating is
// safe: GET changes nothing, and 409 means that the request was not processed. It also works if
// another gateway ended the stream.
type reopening struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o reopening) RoundTrip(r *http.Request) (*http.Response, error) {
	pause := firstPause
	for try := 1; ; try++ {
		res, err := o.RoundTripper.RoundTrip(r)
		if err != nil || res.StatusCode != http.StatusConflict || !opensStream(r) || try == reopenTries || !wait(r.Context(), pause) {
			return res, err
		}
		_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
		_ = res.Body.Close()
		pause = min(2*pause, longestPause)
		if r, err = visitOf(r.Context()).again(r); err != nil {
			return nil, err
		}
	}
}

// opensStream reports whether a request is for a stream, and can be repeated.
func opensStream(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.Body == nil || r.Body == http.NoBody) &&
		strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), "text/event-stream")
}

// wait waits for a pause. It returns false if ctx ended first.
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
