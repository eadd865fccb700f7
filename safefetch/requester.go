package safefetch

import (
	"context"
	"net/netip"

	"gatehouse.example/internal/fair"
)

// WithRequester returns a context for fetches on behalf of a requester at addr. The fetches of
// one requester, and of the networks around it, may hold only a part of the places ([Config]),
// so that others are served as well. Set addr to the address of the client whose request is
// being answered, as a trusted proxy reports it; [gatehouse.example/authz.Server] does so
// itself. Fetches under a context without a requester are bounded in total only; use it for the
// server's own work.
func WithRequester(ctx context.Context, addr netip.Addr) context.Context {
	return fair.WithRequester(ctx, addr)
}

// Requester returns the address on whose behalf work under ctx is done: that of
// [WithRequester], or of the client of the request that an authorization server is answering.
// It is the zero Addr for the server's own work.
func Requester(ctx context.Context) netip.Addr { return fair.Requester(ctx) }
