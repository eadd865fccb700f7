package gateway

import (
	"context"
	"net/http"
	"net/netip"

	"gatehouse.example/internal/arrival"
)

// visit is what is known of a request on its way through the guard.
type visit struct {
	rest     []segment     // of its path, below the resource
	remote   netip.Addr    // the client, as the guard knows it
	identity http.Header   // what the upstream is told about who calls
	body     *arrival.Body // nil without a body
	streams  bool          // whether the body passes while it arrives
}

type visitKey struct{}

// visitOf returns nil for a request that is not on its way to the upstream.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// begin returns the request for the guard.
func (v *visit) begin(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// leave ends the connection after an answer that comes before the whole body: what is left
// of it must not be read as a request, and the server cannot wait for it while it reads
// and writes at once (https://go.dev/issue/68560).
func (v *visit) leave(r *http.Request, header http.Header) {
	if v.streams && r.ProtoMajor == 1 && !v.body.Whole() {
		header.Set("Connection", "close")
	}
}
