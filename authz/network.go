package authz

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the addresses of proxies whose X-Forwarded-For is believed. Without any,
// the header is what anybody may send and means nothing (RFC 9700 section 4.13).
type proxies []netip.Prefix

func (p proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// client is the address of whoever sent the request to the first proxy that is believed.
// Each proxy adds to the end of the header who sent the request to it, so the header is
// read from its end up to the first address that is no proxy of ours; what stands before
// that was made up by the sender.
func (p proxies) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := plain(peer.Addr())
	if len(p) == 0 || !p.trusts(addr) {
		return addr
	}
	senders := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, sender := range slices.Backward(senders) {
		said, ok := parseSender(strings.TrimSpace(sender))
		if !ok {
			break
		}
		addr = said
		if !p.trusts(addr) {
			break
		}
	}
	return addr
}

// parseSender reads an address of the header, which some proxies write with a port.
func parseSender(s string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return plain(addr), true
	}
	addr, err := netip.ParseAddrPort(s)
	return plain(addr.Addr()), err == nil
}

// plain is an address in its one form.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
