package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks of the trusted reverse proxies.
type proxies []netip.Prefix

// trusts reports whether an address is in one of the networks.
func (p proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr.Unmap()) })
}

// client returns the address of the client: that of the connection, or behind a trusted proxy
// the last address in X-Forwarded-For that is not a trusted proxy. The addresses before that
// are not trustworthy: any client can send them.
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

// host returns the Host that the client dialled: X-Forwarded-Host from a trusted proxy, else the
// Host header.
func (p proxies) host(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if forwarded := r.Header["X-Forwarded-Host"]; err == nil && len(forwarded) == 1 && p.trusts(peer.Addr()) {
		return forwarded[0]
	}
	return r.Host
}
