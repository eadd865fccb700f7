package safefetch

import (
	"net/netip"
)

// block is a range of addresses outside of the public internet.
type block struct {
	prefix netip.Prefix
	name   string
}

// special lists the blocks of the IANA IPv4 and IPv6 Special-Purpose Address Registries
// (RFC 6890, RFC 8190), and special blocks that these registries do not list (multicast,
// deprecated forms). Parts of a block that the registries mark as reachable are included:
// they are anycast services of the network, where no documents are published. The two forms
// of IPv6 addresses that stand for an IPv4 address, 0:0:0:0:0:ffff:0:0/96 (RFC 4291 section
// 2.5.5.2) and 64:ff9b::/96 (RFC 6052 section 2.1), are not listed: unwrap converts them.
var special = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791 section 3.2)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122 section 3.2.1.3)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "IETF protocol assignments (RFC 6890 section 2.1)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112 (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "AMT (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay anycast (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("255.255.255.255/32"), "limited broadcast (RFC 919 section 7)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved (RFC 1112 section 4)"},

	{netip.MustParsePrefix("::/128"), "unspecified (RFC 4291)"},
	{netip.MustParsePrefix("::1/128"), "loopback (RFC 4291)"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible (RFC 4291 section 2.5.5.1)"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated (RFC 2765 section 2.1)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local translation (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "discard only (RFC 6666)"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy prefix (RFC 9780)"},
	{netip.MustParsePrefix("2001::/32"), "Teredo (RFC 4380)"},
	{netip.MustParsePrefix("2001:2::/48"), "benchmarking (RFC 5180)"},
	{netip.MustParsePrefix("2001::/23"), "IETF protocol assignments (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "site local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

// refusal returns why an address is not of the public internet, or "" if it is.
func refusal(a netip.Addr) string {
	if !a.IsValid() {
		return "not an address"
	}
	if a.Zone() != "" {
		return "scoped to a zone (RFC 4007)"
	}
	a = unwrap(a)
	for i := range special {
		if special[i].prefix.Contains(a) {
			return special[i].name
		}
	}
	return refusal6(a)
}

// refusal6 returns why an IPv6 address outside of every special block is not of the public
// internet, or "" if it is.
func refusal6(a netip.Addr) string {
	if !a.Is6() {
		return ""
	}
	b := a.As16()
	switch {
	case b[0]>>5 != 1: // RFC 4291 section 2.4: IANA assigns global unicast addresses from 2000::/3
		return "not global unicast"
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		// An interface that tunnels to the IPv4 address in the last four bytes. No documents
		// are published behind one.
		return "ISATAP (RFC 5214 section 6.1)"
	}
	return ""
}

// unwrap returns the IPv4 address to which a connection to an IPv6 address goes: the kernel
// unwraps mapped addresses, and the gateway of an IPv6-only network those with the well-known
// prefix (RFC 6147). Every other address is returned unchanged. Teredo, 6to4, ISATAP and
// IPv4-compatible addresses contain an IPv4 address too, but are always refused.
func unwrap(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	if [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b} {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// refuses returns why this fetcher does not connect to an address, or "" if it does. Plain
// HTTP is allowed to loopback only.
func (f *Fetcher) refuses(a netip.Addr, plain bool) string {
	if f.config.InsecureAllowLoopback && a.Zone() == "" && a.Unmap().IsLoopback() {
		return ""
	}
	if plain {
		return "plain HTTP to another address than loopback"
	}
	for _, p := range f.config.Refuse {
		if p.Contains(a.Unmap()) || p.Contains(unwrap(a)) {
			return "refused by configuration"
		}
	}
	return refusal(a)
}
