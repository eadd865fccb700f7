package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// defaultBodyTime is how long a message may take to arrive.
const defaultBodyTime = 30 * time.Second

// visit is what is known of a request on its way through the guard.
type visit struct {
	rest     []segment   // of its path, below the resource
	remote   netip.Addr  // the client, as the guard knows it
	identity http.Header // what the upstream is told about who calls
	body     *arrival    // nil without a body
}

type visitKey struct{}

// visitOf returns nil for a request that is not on its way to the upstream.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// begin returns the request for the guard.
func (v *visit) begin(w http.ResponseWriter, r *http.Request, g *Gateway) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	if r.ContentLength == 0 {
		return r
	}
	v.body = &arrival{ReadCloser: r.Body, control: http.NewResponseController(w), within: g.bodyTime, streams: !g.reads}
	r.Body = v.body
	return r
}

// hurry gives the body of a request some time to arrive, also when the request is refused
// unread: the server waits for the body before it sends the answer.
func (g *Gateway) hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.bodyTime)) // not supported: not on a network
	}
}

// arrival is a body that must not take for ever. A message that the guard reads has the time
// of [Gateway.hurry]. One that streams has it for each piece.
type arrival struct {
	io.ReadCloser
	control *http.ResponseController
	within  time.Duration
	streams bool
	whole   atomic.Bool // whether all has arrived
	failure atomic.Pointer[error]
}

// Read implements io.Reader. When all has arrived, the answer may take its time: a deadline
// that passed later would be taken for a client that is gone.
func (a *arrival) Read(p []byte) (int, error) {
	if a.streams {
		_ = a.control.SetReadDeadline(time.Now().Add(a.within))
	}
	n, err := a.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		a.whole.Store(true)
		_ = a.control.SetReadDeadline(time.Time{})
	case err != nil:
		a.failure.Store(&err)
	}
	return n, err
}

// leave ends the connection after an answer that comes before the whole body: what is left
// of it must not be read as a request, and the server cannot wait for it while it reads
// and writes at once (https://go.dev/issue/68560).
func (v *visit) leave(r *http.Request, header http.Header) {
	if v.body != nil && v.body.streams && r.ProtoMajor == 1 && !v.body.whole.Load() {
		header.Set("Connection", "close")
	}
}

// failed returns why the body did not arrive, nil as long as that is not so.
func (v *visit) failed() error {
	if v.body == nil {
		return nil
	}
	if err := v.body.failure.Load(); err != nil {
		return *err
	}
	return nil
}
