package middleware

import (
	"context"
	"sync"
	"time"
)

// endpoint is the introspection endpoint in the metadata of an issuer.
type endpoint struct {
	mu    sync.Mutex
	found string
	err   error     // why there is no endpoint
	again time.Time // when to read the metadata again
}

// introspection returns the URL of the endpoint in the metadata. An endpoint that was found before
// is used while the metadata cannot be read.
func (i *issuer) introspection(ctx context.Context) (string, error) {
	e := &i.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.now().Before(e.again) {
		return e.found, e.err
	}
	found, err := i.fetch.introspectionEndpoint(ctx, i.name, i.urls)
	now := i.now()
	switch {
	case err == nil:
		e.found, e.err, e.again = found, nil, now.Add(endpointAge)
	case e.found == "":
		e.err, e.again = err, now.Add(failurePause)
	default:
		e.again = now.Add(stalePause)
	}
	return e.found, e.err
}

// address returns the URL of the endpoint, configured or in the metadata of the issuer.
func (i *introspector) address(ctx context.Context) (string, error) {
	if i.Endpoint != "" {
		return i.Endpoint, nil
	}
	return i.issuer.introspection(ctx)
}
