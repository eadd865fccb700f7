package gateway

import (
	"context"
	"maps"
	"net/http"
	"net/netip"

	"gatehouse.example/internal/arrival"
)

// visit is the state of a request to the resource.
type visit struct {
	rest     []segment     // of its path, below the resource
	remote   netip.Addr    // the address of the client, from the guard
	identity http.Header   // the headers with the identity of the caller
	identify identifier    // makes them
	body     *arrival.Body // nil without a body
	streams  bool          // whether the body is forwarded while it arrives
	answered bool          // whether the upstream gave an answer that can be forwarded
	whole    bool          // whether there is nothing more to forward
}

// identifier returns the headers with the identity of the caller of one request.
type identifier func() (http.Header, error)

type visitKey struct{}

// visitOf returns the visit in a context, nil for a request that is not to the resource.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// begin returns the request for the guard.
func (v *visit) begin(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// again returns a request to the upstream as it is sent once more, with headers of its own about the caller.
func (v *visit) again(r *http.Request) (*http.Request, error) {
	if v.identify == nil {
		return r, nil
	}
	own, err := v.identify()
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	maps.Copy(out.Header, own)
	return out, nil
}

// end sends what has arrived of an answer that broke off, with which the proxy panics. Without an
// answer at all, a client could take the request for one that was never read, and send it again.
func (v *visit) end(w http.ResponseWriter) {
	if v.answered && !v.whole {
		_ = http.NewResponseController(w).Flush() // fails only when the client is gone
	}
}

// leave closes the connection after a response that comes before the end of the request body:
// the rest of the body must not be read as a request, and in full duplex the server cannot wait
// for it (https://go.dev/issue/68560).
func (v *visit) leave(r *http.Request, header http.Header) {
	if v.streams && r.ProtoMajor == 1 && !v.body.Whole() {
		header.Set("Connection", "close")
	}
}
