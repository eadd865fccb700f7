package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// OriginalRequest names the headers in which a proxy tells [PathVerify] about the request that it
// asks about. They count from the trusted proxies of Config.Guard alone, and the proxy must set
// both in each request.
type OriginalRequest struct {
	// MethodHeader holds the method, such as X-Forwarded-Method of Traefik and Caddy.
	MethodHeader string
	// URIHeader holds the path, with the query or without, such as X-Forwarded-Uri.
	URIHeader string
}

// validate finds mistakes.
func (o OriginalRequest) validate(proxied bool) error {
	switch {
	case o == OriginalRequest{}:
		return nil
	case o.MethodHeader == "" || o.URIHeader == "":
		return errors.New("the original request has a header for the method and one for the URI: name both")
	case !proxied:
		return errors.New("the headers about the original request count from trusted proxies alone, and there are none")
	}
	return nil
}

// told are the headers in which a trusted proxy tells PathVerify about a client and its request.
type told struct {
	OriginalRequest
	certHeader string // with the certificate of the client; empty without
}

func (c *Config) told() told {
	return told{c.OriginalRequest, http.CanonicalHeaderKey(c.Guard.ClientCertificates.Header)}
}

// shared makes what the guards of one gateway must have together, so that a proof that one of them
// accepted is not accepted by another, and a nonce of one is one of all. Proofs that the gateway
// before has accepted stay used, also while this one accepts none.
func shared(c *middleware.Config, before *Gateway) error {
	if c.DPoP.Proofs == nil && before.guards(c.Resource) {
		c.DPoP.Proofs = before.proofs
	}
	if c.DPoP.Use == middleware.DPoPOff {
		return nil
	}
	if c.DPoP.Proofs == nil {
		c.DPoP.Proofs = middleware.NewProofs(middleware.DefaultProofs)
	}
	if !c.DPoP.RequireNonce || c.DPoP.Nonces != nil {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	handles, err := middleware.NewHandles(key)
	c.DPoP.Nonces = cmp.Or(c.Sessions, handles)
	return err
}

// sharedBudgets makes the guards of one gateway count their questions to providers together, and go on
// from what the gateway before has counted.
func sharedBudgets(c *middleware.Config, before *Gateway) map[string]*middleware.Budget {
	asked, budgets := maps.Clone(c.Introspection), map[string]*middleware.Budget{}
	for issuer, one := range asked {
		if one.Budget == nil && before.guards(c.Resource) {
			one.Budget = before.budgets[issuer]
		}
		if one.Budget == nil {
			one.Budget = middleware.NewBudget()
		}
		asked[issuer], budgets[issuer] = one, one.Budget
	}
	c.Introspection = asked
	return budgets
}

// guards reports whether there is a gateway, and it is for a resource.
func (g *Gateway) guards(resource string) bool {
	canonical, err := metadata.Canonical(resource)
	return g != nil && err == nil && g.places.resource.String() == canonical
}

// askedKey is the context key of an asked.
type askedKey struct{}

// asked is the request that [PathVerify] is asked about: the zero value if nobody tells.
type asked struct{ method, url string }

// asks returns the configuration of a guard for PathVerify. Without the request of the client no
// proof can be checked, so that bound tokens are refused.
func asks(c middleware.Config) middleware.Config {
	c.DPoP.Request = func(r *http.Request) (method, url string) {
		about, _ := r.Context().Value(askedKey{}).(asked)
		return about.method, about.url
	}
	return c
}

// about returns the context of a request to PathVerify, with what a trusted proxy tells about the
// request of the client.
func (g *Gateway) about(r *http.Request) context.Context {
	var out asked
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	trusted := err == nil && slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) })
	method, uri := r.Header.Values(g.told.MethodHeader), r.Header.Values(g.told.URIHeader)
	if g.told.OriginalRequest != (OriginalRequest{}) && trusted && len(method) == 1 && len(uri) == 1 && strings.HasPrefix(uri[0], "/") {
		path, _, _ := strings.Cut(uri[0], "?")
		if g.has(path) {
			out = asked{method[0], g.places.resource.Scheme + "://" + g.places.resource.Host + path}
		}
	}
	return context.WithValue(r.Context(), askedKey{}, out)
}

// has reports whether an escaped path is that of the resource, or below it.
func (g *Gateway) has(path string) bool {
	parts, err := segments(path)
	if err != nil {
		return false
	}
	_, ok := g.places.public.rest(parts)
	return ok
}
