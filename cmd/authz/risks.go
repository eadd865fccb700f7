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

// risks collects warnings about settings that weaken a program. Each names the setting, the
// possible consequence, and what to write instead.
type risks []string

func (r *risks) add(applies bool, format string, args ...any) {
	if applies {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// risks returns a warning for each setting that opens more than a server needs.
func (s *serveSettings) risks() []string {
	var r risks
	r.keys(s.MasterKeys)
	r.proxies(s.TrustedProxies)
	r.admin(s.AdminListen)
	r.store(s.Store)
	risk := s.proxyRisk()
	r.add(risk != "", "%s", risk)
	r.add(s.ClientDocuments == "allow", "client-documents allow: consent pages present every host of a client document as trusted: "+
		"write ask, or deny with the hosts you know under client-documents-allow")
	r.add(s.AccessTokenTTL > 0 && s.AccessTokenTTL <= earlyRefresh, "access-token-ttl %s: clients that refresh five minutes early do so at each call: write 10m, or use introspection where tokens have to end sooner", s.AccessTokenTTL)
	risk = s.consentSettings.risk()
	r.add(risk != "", "%s", risk)
	open := s.ClientDocuments == "ask" || s.ClientDocuments == "allow"
	r.add(s.Registration == string(authz.RegistrationClosed) && open, "registration closed: any client can still connect with a metadata document of its own (client-documents %s): "+
		"write client-documents: off, or deny with the hosts you know under client-documents-allow", s.ClientDocuments)
	if !s.Dev { // --dev lists these among its relaxations
		r = append(r, s.exposed()...)
	}
	return r
}

// earlyRefresh is the lifetime of an access token up to which clients that refresh five minutes
// before its end, as two widely used ones do, refresh at nearly every call.
const earlyRefresh = settings.Duration(6 * time.Minute)

// keys warns about master keys that are not random.
func (r *risks) keys(keys settings.MasterKeys) {
	for i, key := range keys {
		r.add(patterned(key), "master-keys: key %d follows a pattern, so an attacker can guess it and open everything that it seals: "+
			"put a new first key in front of it, made with: openssl rand -base64 32", i+1)
	}
}

// patterned reports whether a key of 32 bytes is not random: it repeats bytes, counts, or is
// text. The probability that a random key is taken for one is 10^-13.
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

// proxies warns about networks that are too wide to contain only the operator's proxies.
func (r *risks) proxies(texts []string) {
	trusted, _ := networks(texts) // a mistake is reported elsewhere
	for _, network := range trusted {
		r.add(wide(network), "trusted-proxies %s: any client in this network can choose the address that limits apply to: "+
			"name only the addresses of your proxies", network)
	}
}

// private are the networks from which no connection comes over the internet.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// wide reports whether a public network is wider than any that an operator of proxies publishes:
// /12 for IPv4, /24 for IPv6.
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

// admin warns about an admin listener that other machines can reach.
func (r *risks) admin(listen string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return // off, or a mistake that is reported elsewhere
	}
	r.add(everywhere(host), "admin-listen %s: any client that reaches an address of this machine can read status and metrics: "+
		"write 127.0.0.1:%s, or the one address that your probes use", listen, port)
}

// everywhere reports whether a host to listen on stands for all addresses of the machine or for
// a public one.
func everywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == ""
	}
	addr = addr.Unmap().WithZone("")
	public := addr.IsGlobalUnicast() && !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(addr) })
	return addr.IsUnspecified() || public
}

// store warns about connections to the store without TLS.
func (r *risks) store(url settings.StoreURL) {
	var beyond []string
	for _, server := range redis.PlainServers(string(url)) {
		if host, _, err := net.SplitHostPort(server); err == nil && !metadata.IsLoopbackHost(host) {
			beyond = append(beyond, server)
		}
	}
	r.add(len(beyond) > 0, "store %s: without TLS an attacker on the network path can read passwords and personal data, and change grants: "+
		"write rediss in place of redis", strings.Join(beyond, ", "))
}

// exposed returns a warning for each way in which the server can be reached without TLS.
func (s *serveSettings) exposed() []string {
	var r risks
	r.add(strings.HasPrefix(s.Issuer, "http:"), "issuer: http does not encrypt passwords and tokens, which is only safe on loopback: write an https issuer for clients on other machines")
	host, _, err := net.SplitHostPort(s.Listen)
	open := err == nil && !metadata.IsLoopbackHost(host)
	r.add(open && s.Dev, "listen %s is open to other machines, and the relaxations of --dev apply to them too: write 127.0.0.1", s.Listen)
	r.add(open && !s.Dev && s.TLSCert == "" && !s.orders(), "listen %s is open to other machines without TLS: only a proxy that ends TLS may reach it; "+
		"write tls-cert and tls-key, or listen on loopback", s.Listen)
	return r
}
