package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks of reverse proxies that are believed.
type proxies []netip.Prefix

// trusts reports whether a request came through one of them.
func (p proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr.Unmap()) })
}

// client returns the address that a request comes from: that of the connection, or, when a
// proxy that is believed made it, the last in X-Forwarded-For that is not such a proxy.
// What is left of it, anybody could have written.
func (p proxies) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap()
	if len(p) == 0 || !p.trusts(client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return client
		}
		if client = addr.Unmap(); !p.trusts(client) {
			return client
		}
	}
	return client
}

// host returns the Host by which the client dialled: what a proxy that is believed says,
// else the header of the request.
func (p proxies) host(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if forwarded := r.Header["X-Forwarded-Host"]; err == nil && len(forwarded) == 1 && p.trusts(peer.Addr()) {
		return forwarded[0]
	}
	return r.Host
}
