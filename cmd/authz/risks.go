package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/storage/redis"
)

// risks collects sentences about settings that weaken a program: what is set, what may
// happen, what to write instead.
type risks []string

func (r *risks) add(applies bool, format string, args ...any) {
	if applies {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// risks returns what the settings of a server open that they need not.
func (s *serveSettings) risks() []string {
	var r risks
	r.keys(s.MasterKeys)
	r.proxies(s.TrustedProxies)
	r.admin(s.AdminListen)
	r.store(s.Store)
	risk := s.proxyRisk()
	r.add(risk != "", "%s", risk)
	r.add(s.ClientDocuments == "allow", "client-documents allow: consent pages vouch for every host that a stranger names: "+
		"write ask, or deny with the hosts you know under client-documents-allow")
	r.add(s.AccessTokenTTL > 0 && s.AccessTokenTTL <= earlyRefresh, "access-token-ttl %s: clients that refresh five minutes early do so at each call: write 10m, or introspection where tokens have to end sooner", s.AccessTokenTTL)
	open := s.ClientDocuments == "ask" || s.ClientDocuments == "allow"
	r.add(s.Registration == string(authz.RegistrationClosed) && open, "registration closed: any client still gets in with a metadata document of its own (client-documents %s): "+
		"write client-documents: off, or deny with the hosts you know under client-documents-allow", s.ClientDocuments)
	if !s.Dev { // it tells of these among what it relaxes
		r = append(r, s.exposed()...)
	}
	return r
}

// earlyRefresh is the life of a token with which clients that refresh five minutes before its
// end, as two widely used ones do, refresh at nearly every call.
const earlyRefresh = settings.Duration(6 * time.Minute)

// keys judges master keys that are not random.
func (r *risks) keys(keys settings.MasterKeys) {
	for i, key := range keys {
		r.add(patterned(key), "master-keys: key %d follows a pattern, so whoever guesses it opens what it seals: "+
			"put one in front that is made with: openssl rand -base64 32", i+1)
	}
}

// patterned reports whether no random source would have made a key of 32 bytes: it repeats
// bytes, counts, or is text. A random one does so once in 10^13.
func patterned(key []byte) bool {
	var values, steps [256]bool
	distinct, stepped, text := 0, 0, true
	for i, b := range key {
		if !values[b] {
			values[b] = true
			distinct++
		}
		if step := b - key[max(i-1, 0)]; i > 0 && !steps[step] {
			steps[step] = true
			stepped++
		}
		text = text && b >= ' ' && b <= '~'
	}
	return distinct <= len(key)/2 || stepped <= len(key)/4 || text
}

// proxies judges networks that nobody's proxies fill: then strangers are believed.
func (r *risks) proxies(texts []string) {
	trusted, _ := networks(texts) // a mistake is reported elsewhere
	for _, network := range trusted {
		r.add(wide(network), "trusted-proxies %s: whoever comes from there is believed when it says from where it comes, and limits count a stranger as anybody: "+
			"name the addresses of your proxies alone", network)
	}
}

// private are networks that no stranger comes from by himself.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// wide reports whether a network is wider than what any operator of proxies publishes: /12
// of IPv4, /24 of IPv6.
func wide(network netip.Prefix) bool {
	for _, p := range private {
		if p.Contains(network.Addr()) && p.Bits() <= network.Bits() {
			return false
		}
	}
	most := 24
	if network.Addr().Is4() {
		most = 12
	} else if network.Addr().Is4In6() {
		most = 96 + 12
	}
	return network.Bits() < most
}

// admin judges the address of an admin listener.
func (r *risks) admin(listen string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return // it is off, or a mistake
	}
	r.add(everywhere(host), "admin-listen %s: whoever reaches any address of this machine reads how the server does: "+
		"write 127.0.0.1:%s, or the one address that your probes use", listen, port)
}

// everywhere reports whether a host to listen on stands for strangers: for all addresses of
// the machine, or for a public one.
func everywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == ""
	}
	addr = addr.Unmap().WithZone("")
	public := addr.IsGlobalUnicast() && !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(addr) })
	return addr.IsUnspecified() || public
}

// store judges the way to the store.
func (r *risks) store(url settings.StoreURL) {
	var beyond []string
	for _, server := range redis.PlainServers(string(url)) {
		if host, _, err := net.SplitHostPort(server); err == nil && !metadata.IsLoopbackHost(host) {
			beyond = append(beyond, server)
		}
	}
	r.add(len(beyond) > 0, "store %s: without TLS whoever is on the way to it reads passwords and personal data, and changes grants: "+
		"write rediss in place of redis", strings.Join(beyond, ", "))
}

// exposed returns a sentence for each way in which the server can be reached without TLS.
func (s *serveSettings) exposed() []string {
	var r risks
	r.add(strings.HasPrefix(s.Issuer, "http:"), "issuer: http does not encrypt passwords and tokens, which only loopback can bear: write an https issuer for anybody else")
	host, _, err := net.SplitHostPort(s.Listen)
	open := err == nil && !metadata.IsLoopbackHost(host)
	r.add(open && s.Dev, "listen %s is open to other machines, and so is everything that --dev relaxes: write 127.0.0.1", s.Listen)
	r.add(open && !s.Dev && s.TLSCert == "", "listen %s is open to other machines without TLS: only a proxy that ends TLS may reach it; "+
		"write tls-cert and tls-key, or listen on loopback", s.Listen)
	return r
}
