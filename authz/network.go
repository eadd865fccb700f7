package authz

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the addresses of proxies whose X-Forwarded-For is trusted. Without any, the
// header is ignored, because every client can send it (RFC 9700 section 4.13).
type proxies []netip.Prefix

func (p proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// client returns the address from which the first trusted proxy received the request. Each
// proxy appends the address of its own client to X-Forwarded-For, so client reads the header
// from its end to the first address that is not a trusted proxy. Any earlier address may be
// invented by the sender.
func (p proxies) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, forwarded := canonicalAddr(peer.Addr()), r.Header["X-Forwarded-For"]
	if len(forwarded) == 0 || !p.trusts(addr) {
		return addr
	}
	senders := strings.Split(strings.Join(forwarded, ","), ",")
	for _, sender := range slices.Backward(senders) {
		next, ok := parseSender(strings.TrimSpace(sender))
		if !ok {
			break
		}
		addr = next
		if !p.trusts(addr) {
			break
		}
	}
	return addr
}

// parseSender parses an address in the header. Some proxies write it with a port.
func parseSender(s string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return canonicalAddr(addr), true
	}
	addr, err := netip.ParseAddrPort(s)
	return canonicalAddr(addr.Addr()), err == nil
}

// canonicalAddr returns the IPv4 form of a mapped address, without a zone.
func canonicalAddr(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
