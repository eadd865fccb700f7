package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// reopenTries and the pauses between them, each twice as long as the one before, give an
	// upstream some five seconds to notice that a stream has ended.
	reopenTries  = 12
	firstPause   = 10 * time.Millisecond
	longestPause = 640 * time.Millisecond
)

// reopening is a transport that opens a stream behind the one before. When a stream ends with
// its token, the client opens it anew at once, perhaps before the upstream has noticed the
// end, and servers answer 409 then: there may be one stream at a time. So the request is sent
// again until the upstream has noticed. GET changes nothing, and 409 says that nothing was
// done. It does not matter which of several gateways ended the stream.
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
	}
}

// opensStream reports whether a request asks for a stream, and can be sent again.
func opensStream(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.Body == nil || r.Body == http.NoBody) &&
		strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), "text/event-stream")
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
