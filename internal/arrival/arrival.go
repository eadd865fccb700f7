// Package arrival bounds the time in which the body of a request must arrive. A client that
// sends one byte a minute would otherwise occupy a connection, a goroutine and often a
// connection to an upstream server without end.
package arrival

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// DefaultTime is the time in which a small body must arrive.
	DefaultTime = 30 * time.Second
	// rate extends that time for large bodies: by a second for each rate bytes received.
	rate = 16 << 10
)

// Body is the body of a request with a deadline that grows with the bytes received.
type Body struct {
	io.ReadCloser
	control *http.ResponseController
	within  time.Duration
	now     func() time.Time
	began   time.Time // time of the first Read, zero before it
	got     int64     // bytes received
	counted int64     // bytes that the deadline takes into account
	whole   atomic.Bool
	failure atomic.Pointer[error]
}

// Bound sets a deadline for the body of a request, also for a body that is never read: the
// server reads the rest of the body before it sends the response. The time starts anew with
// the first Read. Bound returns the request with the new body, and the body itself, which is
// nil if the request has none. Read returns [os.ErrDeadlineExceeded] after the deadline.
func Bound(w http.ResponseWriter, r *http.Request, within time.Duration) (*http.Request, *Body) {
	return bound(w, r, within, time.Now)
}

func bound(w http.ResponseWriter, r *http.Request, within time.Duration, now func() time.Time) (*http.Request, *Body) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	b := &Body{ReadCloser: r.Body, control: http.NewResponseController(w), within: within, now: now}
	b.until(now().Add(within))
	out := new(http.Request)
	*out = *r
	out.Body = b
	return out, b
}

// until sets the deadline of the connection, or of the stream of HTTP/2. It ignores errors: a
// ResponseWriter without deadlines is not on a network.
func (b *Body) until(end time.Time) { _ = b.control.SetReadDeadline(end) }

// Read implements io.Reader. It removes the deadline at the end of the body, because net/http
// takes a deadline that passes during the response for a disconnected client.
func (b *Body) Read(p []byte) (int, error) {
	if b.began.IsZero() || b.got-b.counted >= rate {
		b.extend()
	}
	n, err := b.ReadCloser.Read(p)
	b.got += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
		b.until(time.Time{})
	case err != nil:
		b.failure.Store(&err)
	}
	return n, err
}

func (b *Body) extend() {
	if b.began.IsZero() {
		b.began = b.now()
	}
	b.counted = b.got
	b.until(b.began.Add(b.within + time.Duration(b.got)*time.Second/rate))
}

// Whole reports whether the whole body has arrived.
func (b *Body) Whole() bool { return b == nil || b.whole.Load() }

// Failure returns the error that ended the body, or nil.
func (b *Body) Failure() error {
	if b == nil {
		return nil
	}
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}
