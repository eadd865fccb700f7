// Package arrival bounds how long the body of a request may take. Who sends one byte a minute
// holds a connection, a goroutine and often a place at the server behind for as long as that
// goes on.
package arrival

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// DefaultTime is how long a body may take to arrive that is not large.
	DefaultTime = 30 * time.Second
	// rate is what a large body has to reach, in bytes for each second beyond that.
	rate = 16 << 10
)

// Body is the body of a request that has some time to arrive, and more for what has arrived.
type Body struct {
	io.ReadCloser
	control *http.ResponseController
	within  time.Duration
	now     func() time.Time
	began   time.Time // zero until somebody reads
	got     int64     // bytes so far
	counted int64     // those that the deadline knows of
	whole   atomic.Bool
	failure atomic.Pointer[error]
}

// Bound gives the body of a request some time to arrive, whether or not anybody reads it: a
// server waits for what was left unread before it sends the answer. The time begins anew
// when somebody begins to read. It returns the request and its body, nil without one. Reading
// after the end is [os.ErrDeadlineExceeded].
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

// until sets the deadline of the connection, or of the stream of HTTP/2. Where that is not
// supported, there is no network.
func (b *Body) until(end time.Time) { _ = b.control.SetReadDeadline(end) }

// Read implements io.Reader. When all has arrived, the answer may take its time: a deadline
// that passed later would be taken for a client that is gone.
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

// Whole reports whether all has arrived.
func (b *Body) Whole() bool { return b == nil || b.whole.Load() }

// Failure returns why the body did not arrive, nil as long as that is not so.
func (b *Body) Failure() error {
	if b == nil {
		return nil
	}
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}
