package middleware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gatehouse.example/internal/requestid"
)

// GuardsConfig configures [Guards]. Guards is required.
type GuardsConfig struct {
	// Guards are the guards, one for each resource. No other resource is ever served.
	Guards []*Guard
	// ResourceFor returns the resource that a request is for: [Config.Resource] of one of the
	// guards. An error, or anything else, is refused with 404, and the error is for the log only.
	// The default is the resource whose host and path are those of the request, so set it where
	// a resource has paths below its own.
	//
	// The request that it gets has no body, no Authorization and no forwarding headers. Its Host
	// is the host that the client dialled, in lower case: X-Forwarded-Host from TrustedProxies,
	// else the Host header. It comes from the client: it may select a resource, and proves nothing.
	ResourceFor func(*http.Request) (string, error)
	// TrustedProxies are the networks of the reverse proxies whose X-Forwarded-Host counts. Set
	// the same in the guards.
	TrustedProxies []netip.Prefix
	// Observe is called for requests that are for none of the resources. [Config.Observe] of the
	// guards is called for all others.
	Observe func(*http.Request, Event)
}

// Guards are the guards of several resources behind one handler, such as those of several hosts or
// tenants. The resource of a request decides which guard judges it: whose audience, metadata,
// challenge, policy, caches and sessions. [ResourceFrom] returns it to the handler. Guards is safe
// for concurrent use.
type Guards struct {
	all     []*Guard
	by      map[string]*Guard // by resource
	at      map[string]*Guard // by host and path
	choose  func(*http.Request) (string, error)
	proxies proxies
	watch   func(*http.Request, Event)
}

// errNoResource is the reason of a refusal.
var errNoResource = errors.New("middleware: the request is for none of the resources")

// NewGuards checks the configuration and returns the guards as one. To make them accept tokens of
// the same issuers, give all of them the same [Config.SharedIssuers].
func NewGuards(c GuardsConfig) (*Guards, error) {
	s := &Guards{
		all: slices.Clone(c.Guards), by: make(map[string]*Guard), at: make(map[string]*Guard),
		choose: c.ResourceFor, proxies: slices.Clone(c.TrustedProxies), watch: c.Observe,
	}
	if len(s.all) == 0 {
		return nil, errors.New("middleware: guards: there is none")
	}
	for _, g := range s.all {
		switch {
		case g == nil || g.resource == "":
			return nil, errors.New("middleware: guards: one of them is empty: make them with New")
		case s.by[g.resource] != nil:
			return nil, fmt.Errorf("middleware: guards: %s has two", g.resource)
		case s.choose == nil && s.at[g.place] != nil:
			return nil, fmt.Errorf("middleware: guards: %s and %s have one host and path: set ResourceFor", g.resource, s.at[g.place].resource)
		}
		s.by[g.resource] = g
		s.at[g.place] = g
	}
	return s, nil
}

// Protect is [Guard.Protect] of the guard of each request. A request for none of the resources is
// refused with 404 before anything else.
func (s *Guards) Protect(next http.Handler) http.Handler {
	return s.each(func(g *Guard) http.Handler { return g.Protect(next) }, s.guardFor)
}

// RequireScope is [Guard.RequireScope] of the guard that let the request through.
func (s *Guards) RequireScope(scopes ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return s.each(func(g *Guard) http.Handler { return g.RequireScope(scopes...)(next) }, func(r *http.Request) (*Guard, error) {
			if p, ok := r.Context().Value(passKey{}).(*pass); ok && slices.Contains(s.all, p.guard) {
				return p.guard, nil
			}
			return s.guardFor(r)
		})
	}
}

// Metadata is [Guard.Metadata] of all resources, at [Guards.MetadataPaths]. The path decides, and
// the host where several resources have the same path. It is 404 where that leaves several, as at
// the root of a host with several resources.
func (s *Guards) Metadata() http.Handler {
	return s.each((*Guard).Metadata, func(r *http.Request) (*Guard, error) {
		path := r.URL.EscapedPath()
		found := slices.DeleteFunc(slices.Clone(s.all), func(g *Guard) bool { return !slices.Contains(g.metaPaths, path) })
		if len(found) > 1 {
			host := withoutPort(s.proxies.host(r))
			found = slices.DeleteFunc(found, func(g *Guard) bool { return g.host != host })
		}
		if len(found) != 1 {
			return nil, errNoResource
		}
		return found[0], nil
	})
}

// MetadataPaths returns the paths at which [Guards.Metadata] serves documents.
func (s *Guards) MetadataPaths() []string {
	var out []string
	for _, g := range s.all {
		out = append(out, g.metaPaths...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ResourceFrom returns the resource of a request that passed a guard: [Config.Resource]. Use it, and
// never the Host of the request, to find out whose data a request is about.
func ResourceFrom(ctx context.Context) (string, bool) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok {
		return "", false
	}
	return p.guard.resource, true
}

// each returns a handler that calls one of the handlers that it makes for the guards.
func (s *Guards) each(handler func(*Guard) http.Handler, choose func(*http.Request) (*Guard, error)) http.Handler {
	handlers := make(map[*Guard]http.Handler, len(s.all))
	for _, g := range s.all {
		handlers[g] = handler(g)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, err := choose(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		handlers[g].ServeHTTP(w, r)
	})
}

// refuse answers a request for none of the resources.
func (s *Guards) refuse(w http.ResponseWriter, r *http.Request, err error) {
	r = requestid.Begin(w, r)
	if s.watch != nil {
		s.watch(r, Event{Status: http.StatusNotFound, Err: err, Remote: s.proxies.client(r)})
	}
	writeJSON(w, http.StatusNotFound, problem{Description: "There is no such resource here."})
}

// guardFor returns the guard of the resource that a request is for.
func (s *Guards) guardFor(r *http.Request) (*Guard, error) {
	host, ok := plainHost(s.proxies.host(r))
	if !ok {
		return nil, errNoResource
	}
	if s.choose == nil {
		if g := s.at[placeOf(host, r.URL.EscapedPath())]; g != nil {
			return g, nil
		}
		return nil, errNoResource
	}
	resource, err := s.choose(onlyPlace(r, host))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoResource, err)
	}
	if g := s.by[resource]; g != nil {
		return g, nil
	}
	return nil, errNoResource
}

// onlyPlace returns the request for [GuardsConfig.ResourceFor].
func onlyPlace(r *http.Request, host string) *http.Request {
	out, u := new(http.Request), *r.URL
	*out = *r
	u.Scheme, u.Host, u.User = "", "", nil // of a request in absolute form; Host has its host
	out.URL, out.Host, out.Body, out.ContentLength = &u, host, http.NoBody, 0
	out.Header = maps.Clone(r.Header)
	maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return placing(strings.ToLower(name)) })
	return out
}

// placing reports whether a header is one with which proxies say where a request went, and which
// clients can send too, or has the token or its proof.
func placing(name string) bool {
	switch name {
	case "authorization", "dpop", "forwarded", "x-host", "x-rewrite-url":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "x-original-")
}
