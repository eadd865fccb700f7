package safefetch

import (
	"context"
	"net/netip"

	"gatehouse.example/internal/fair"
)

// WithRequester returns a context for fetches that are caused by whoever asks from addr. Fetches
// of one requester, and of the networks around it, get a part of the places ([Config]), so that
// others are served beside them. Set it to the address of the client of the request that is being
// answered, as a trusted proxy has it; [gatehouse.example/authz.Server] does it by itself. A
// context without one is for work that no stranger causes, and is bounded in all alone.
func WithRequester(ctx context.Context, addr netip.Addr) context.Context {
	return fair.WithRequester(ctx, addr)
}

// Requester returns the address that work under ctx is done for: that of [WithRequester], or
// of the request that an authorization server of ours is answering. It is the zero Addr for
// work that no stranger causes.
func Requester(ctx context.Context) netip.Addr { return fair.Requester(ctx) }
