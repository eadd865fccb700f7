package safefetch

import "net/netip"

// SpecialAddress returns why an address is not of the public internet, such as "loopback (RFC
// 1122 section 3.2.1.3)", and "" if it is. It is the rule by which a [Fetcher] refuses
// addresses, for programs that connect by themselves.
func SpecialAddress(a netip.Addr) string { return refusal(a) }
