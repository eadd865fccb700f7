package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gatehouse.example/internal/arrival"
	"gatehouse.example/internal/headername"
	"gatehouse.example/internal/lookalike"
	"gatehouse.example/internal/requestid"
)

// Router is several gateways behind one address. It passes a request to the gateway of the
// resource that it is for: the one with the same host and the longest path. It is safe for
// concurrent use.
//
// The host is the Host of the request, or X-Forwarded-Host from a trusted proxy. An unknown host is
// answered with 421 and an unknown path with 404. A path that belongs to one resource as it is
// written, and to another for a server that ignores case or parameters, is answered with 400. So is,
// where a host has several resources, one with a segment that such a server takes for none.
//
// /healthz and /jwks.json answer for any host. At /verify, the resource follows from the original
// URL that a trusted proxy sends: in X-Original-URL, or in X-Forwarded-Host and X-Forwarded-Uri. If
// it sends both, they must agree.
type Router struct {
	gates   []*Gateway
	hosts   map[string][]*Gateway // those with the longest paths first
	trusted []netip.Prefix
	keys    http.Handler // nil without assertions
	certs   []string     // the headers with certificates of clients, of any of the gateways, folded
}

// NewRouter returns a router. An error names two resources that a client or server could take for
// each other: their URLs differ in the scheme, in case, in a slash at the end, in escapes or in
// parameters only. The gateways must have the same trusted proxies and the same keys for assertions.
func NewRouter(gates ...*Gateway) (*Router, error) {
	if len(gates) == 0 {
		return nil, errors.New("gateway: router: there is no gateway")
	}
	t := &Router{gates: slices.Clone(gates), hosts: map[string][]*Gateway{}, trusted: gates[0].trusted}
	var keys *AssertionKeys
	for i, g := range gates {
		if !slices.Equal(g.trusted, t.trusted) {
			return nil, fmt.Errorf("gateway: router: resource %s: it has other trusted proxies than %s", g.places.resource, gates[0].places.resource)
		}
		for _, other := range gates[:i] {
			if confusable(g.places, other.places) {
				return nil, fmt.Errorf("gateway: router: the resources %s and %s can be taken for each other", other.places.resource, g.places.resource)
			}
		}
		if g.asserter != nil {
			if keys != nil && keys != g.asserter.keys {
				return nil, fmt.Errorf("gateway: router: resource %s: it has other keys for assertions: share AssertionKeys", g.places.resource)
			}
			keys, t.keys = g.asserter.keys, g.asserter.keys
		}
		if g.told.certHeader != "" {
			t.certs = append(t.certs, headername.Fold(g.told.certHeader))
		}
		for _, host := range g.places.hosts() {
			t.hosts[host] = append(t.hosts[host], g)
		}
	}
	for _, at := range t.hosts {
		slices.SortStableFunc(at, func(a, b *Gateway) int { return len(b.places.public.parts) - len(a.places.public.parts) })
	}
	return t, nil
}

// Stop makes /healthz answer 503, so that load balancers send no new requests.
func (t *Router) Stop() {
	for _, g := range t.gates {
		g.Stop()
	}
}

// ServeHTTP implements http.Handler.
func (t *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = requestid.Begin(w, r)
	parts, err := segments(r.URL.EscapedPath())
	if err != nil || r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		t.gates[0].ServeHTTP(w, r) // every gateway refuses these
		return
	}
	switch path := plainPath(parts); {
	case path == PathHealth:
		t.gates[0].ServeHTTP(w, r)
	case path == PathKeys && t.keys != nil:
		r, _ = arrival.Bound(w, r, t.gates[0].bodyTime)
		t.keys.ServeHTTP(w, r)
	case path == PathVerify:
		t.verify(w, r)
	default:
		t.route(w, r, path, parts)
	}
}

// The answers to requests that are for no resource.
var (
	misdirected = refusal{status: http.StatusMisdirectedRequest, description: "No resource here has this host. Dial the URL of a resource; a proxy in front has to pass the host on."}
	nothing     = refusal{status: http.StatusNotFound, description: "There is nothing here."}
	twoReadings = refusal{status: http.StatusBadRequest, description: "The path could be read as that of another resource."}
)

// route passes a request to the gateway of its resource.
func (t *Router) route(w http.ResponseWriter, r *http.Request, path string, parts []segment) {
	at := t.hosts[strings.ToLower(t.host(r))]
	var g *Gateway
	why := nothing
	switch {
	case len(at) == 0:
		why = misdirected
	case path == pathWellKnown || strings.HasPrefix(path, pathWellKnown+"/"):
		g = described(at, r.URL.EscapedPath())
	default:
		g, why = find(at, parts)
	}
	if g == nil {
		t.refuse(w, r, why)
		return
	}
	g.ServeHTTP(w, t.withoutCertificates(r, g.told.certHeader))
}

// withoutCertificates returns a request without the headers in which a proxy sends certificates of
// clients to the other resources, in every spelling.
func (t *Router) withoutCertificates(r *http.Request, own string) *http.Request {
	others := slices.DeleteFunc(slices.Clone(t.certs), func(name string) bool { return name == headername.Fold(own) })
	if len(others) == 0 {
		return r
	}
	out := new(http.Request)
	*out = *r
	out.Header = r.Header.Clone()
	strip(out.Header, headername.NewSet(others...).Has)
	return out
}

// refuse answers a request that is for no resource. Its body must arrive in time, too.
func (t *Router) refuse(w http.ResponseWriter, r *http.Request, why refusal) {
	r, _ = arrival.Bound(w, r, t.gates[0].bodyTime)
	t.gates[0].refuse(w, r, why)
}

// host returns the host that the client dialled, "" if a trusted proxy names several.
func (t *Router) host(r *http.Request) string {
	forwarded := r.Header["X-Forwarded-Host"]
	switch {
	case len(forwarded) == 0 || !t.trusts(r):
		return r.Host
	case len(forwarded) > 1:
		return ""
	}
	return forwarded[0]
}

// trusts reports whether a request comes from a trusted proxy.
func (t *Router) trusts(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(t.trusted, func(network netip.Prefix) bool { return network.Contains(peer.Addr().Unmap()) })
}

// described returns the gateway whose metadata is at a path, nil for none. The path without a
// resource is that of the only resource of a host, or of the one without a path.
func described(at []*Gateway, path string) *Gateway {
	for _, g := range at {
		if paths := g.MetadataPaths(); path == paths[0] || len(at) == 1 && slices.Contains(paths, path) {
			return g
		}
	}
	return nil
}

// find returns the gateway with the longest path that a path is at or below, or the answer if there
// is none, or another one for a server that reads the path loosely. The gateways are those of one
// host, the longest paths first.
func find(at []*Gateway, parts []segment) (*Gateway, refusal) {
	i := slices.IndexFunc(at, func(g *Gateway) bool { _, ok := g.places.public.rest(parts); return ok })
	if i < 0 {
		return nil, nothing
	}
	folded := fold(parts)
	if len(at) > 1 && vanishes(parts, folded) {
		return nil, twoReadings
	}
	for _, reading := range [][]segment{folded, resolved(parts)} {
		loose := slices.IndexFunc(at, func(g *Gateway) bool {
			_, ok := prefix{parts: fold(g.places.public.parts)}.rest(reading)
			return ok
		})
		if loose != i {
			return nil, twoReadings
		}
	}
	return at[i], refusal{}
}

// fold returns segments as a server could read them that ignores case, parameters, and dots and
// spaces at the end.
func fold(parts []segment) []segment {
	out := make([]segment, len(parts))
	for i, part := range parts {
		name, _, _ := strings.Cut(part.plain, ";")
		out[i].plain = lookalike.Fold(lookalike.Trim(name))
	}
	return out
}

// resolved returns segments as a server could read them that normalizes text before it looks for
// slashes and dots.
func resolved(parts []segment) (out []segment) {
	for part := range strings.SplitSeq(lookalike.Path("/"+plainPath(parts)), "/") {
		if part != "" {
			out = append(out, segment{plain: part})
		}
	}
	return out
}

// vanishes reports whether a segment is empty only for a loose reader, who then takes the next one
// for its own, or reads dots. Only the last one may have nothing but parameters.
func vanishes(parts, folded []segment) bool {
	for i, part := range parts {
		last := i == len(parts)-1
		if folded[i].plain == "" && part.plain != "" && !(last && strings.HasPrefix(part.plain, ";")) {
			return true
		}
	}
	return false
}

// confusable reports whether two resources are the same for a reader who ignores the scheme and
// what [fold] ignores.
func confusable(a, b places) bool {
	same := slices.ContainsFunc(a.hosts(), func(host string) bool { return slices.Contains(b.hosts(), host) })
	return same && slices.Equal(fold(a.public.parts), fold(b.public.parts))
}

// hosts returns the values of Host for the resource: with and without the default port, and with
// and without the dot at the end of a name.
func (p places) hosts() []string {
	name, port := p.resource.Hostname(), p.resource.Port()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	name = strings.TrimSuffix(name, ".")
	if port != "" {
		return []string{name + ":" + port, name + ".:" + port}
	}
	port = map[string]string{"http": ":80", "https": ":443"}[p.resource.Scheme]
	return []string{name, name + port, name + ".", name + "." + port}
}
