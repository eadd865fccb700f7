package authz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// parseResources reads resource parameters (RFC 8707 section 2) into canonical URIs without
// repetition. The problem names the invalid value.
func parseResources(raw []string) (uris []string, problem string) {
	for _, value := range raw {
		uri, err := metadata.Canonical(value)
		if err != nil {
			return nil, fmt.Sprintf("resource %q is not an absolute http or https URI without a fragment", printable(value))
		}
		if !slices.Contains(uris, uri) {
			uris = append(uris, uri)
		}
	}
	return uris, ""
}

// requested returns the resources of an authorization request: those that it names, all of
// which must be configured, or the default one.
func (s *resourceSet) requested(raw []string) (uris []string, problem string) {
	uris, problem = parseResources(raw)
	if problem != "" {
		return nil, problem
	}
	for _, uri := range uris {
		if _, ok := s.find(uri); !ok {
			return nil, fmt.Sprintf("resource %s is not known here; %s", printable(uri), s.knownResources())
		}
	}
	if len(uris) > 0 {
		return uris, ""
	}
	if s.defaultURI == "" {
		return nil, "the resource parameter is required; " + s.knownResources()
	}
	return []string{s.defaultURI}, ""
}

// maxNamed is the greatest number of resources that an error names.
const maxNamed = 10

// knownResources returns a clause with resources that an authorization request can name.
func (s *resourceSet) knownResources() string {
	uris := s.uris()
	switch {
	case len(uris) == 0:
		return "ask the people who run this server for the URIs that it knows"
	case len(uris) > maxNamed:
		return "known are, among others: " + strings.Join(uris[:maxNamed], " ")
	}
	return "known are: " + strings.Join(uris, " ")
}

// asked returns what an authorization request asks for. A named scope counts at each of the
// resources that defines it, and at least one must. Without a named scope, each resource has
// its own default scopes.
func (s *resourceSet) asked(resources []string, raw string) (access storage.Access, problem string) {
	names, problem := parseScope(raw)
	if problem != "" {
		return nil, problem
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == offlineAccess }) // accepted, but never put into a token
	for _, name := range names {
		if !slices.ContainsFunc(resources, func(uri string) bool { return s.defines(uri, name) }) {
			return nil, fmt.Sprintf("scope %s does not belong to %s", name, strings.Join(resources, " or "))
		}
	}
	for _, uri := range resources {
		r, _ := s.find(uri)
		wanted := names
		if len(names) == 0 {
			wanted = r.defaults()
		}
		access = append(access, storage.Permission{Resource: uri, Scopes: r.among(wanted)})
	}
	return access, ""
}

// parseScope reads a scope parameter (RFC 6749 section 3.3) without repetition.
func parseScope(raw string) (scopes []string, problem string) {
	for scope := range strings.SplitSeq(raw, " ") {
		switch {
		case scope == "" || slices.Contains(scopes, scope):
		case !usableScope(scope):
			return nil, fmt.Sprintf("scope %q is not a scope name", printable(scope))
		default:
			scopes = append(scopes, scope)
		}
	}
	return scopes, ""
}

// maxScope is the greatest length of a scope name in bytes: a request must not make the
// server store or print long ones.
const maxScope = 128

func usableScope(name string) bool { return len(name) <= maxScope && metadata.ValidScope(name) }

// defines reports whether a resource is configured and has a scope.
func (s *resourceSet) defines(resource, scope string) bool {
	r, _ := s.find(resource)
	return slices.ContainsFunc(r.Scopes, func(known Scope) bool { return known.Name == scope })
}

// defaults returns the scopes of a request that names none.
func (r Resource) defaults() []string {
	if r.DefaultScopes != nil {
		return r.DefaultScopes
	}
	names := make([]string, len(r.Scopes))
	for i, s := range r.Scopes {
		names[i] = s.Name
	}
	return names
}

// among returns the given scopes that the resource defines, in its order.
func (r Resource) among(scopes []string) []string {
	var names []string
	for _, s := range r.Scopes {
		if slices.Contains(scopes, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// allowedBy returns what a grant allows, without resources that were removed from the store since
// then, also if they have come back.
func (s *resourceSet) allowedBy(g storage.Grant) storage.Access {
	return s.lasting(g.Allowed(s.defines), g.Created)
}

// lasting returns a, which was allowed or asked for at a time, without resources that were removed
// from the store since then.
func (s *resourceSet) lasting(a storage.Access, at time.Time) storage.Access {
	if !slices.ContainsFunc(a, func(p storage.Permission) bool { return s.endedSince(p.Resource, at) }) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(p storage.Permission) bool { return s.endedSince(p.Resource, at) })
}

// served returns the part of a that is configured: resources with the scopes that they
// define. It leaves out a resource that was allowed with scopes of which none is defined any more:
// a token without scopes is good for operations that nobody decided about.
func (s *resourceSet) served(a storage.Access) storage.Access {
	if !slices.ContainsFunc(a, s.servesLess) {
		return a // in most cases
	}
	var now storage.Access
	for _, p := range a {
		r, known := s.find(p.Resource)
		scopes := r.among(p.Scopes)
		if known && (len(p.Scopes) == 0 || len(scopes) > 0) {
			now = append(now, storage.Permission{Resource: p.Resource, Scopes: scopes})
		}
	}
	return now
}

// servesLess reports whether a permission is not configured as it is.
func (s *resourceSet) servesLess(p storage.Permission) bool {
	e := s.entry(p.Resource)
	return e == nil || e.disabled || !e.inOrder(p.Scopes)
}

// inOrder reports whether the resource defines scopes in the order that they have here.
func (r *Resource) inOrder(scopes []string) bool {
	at := 0
	for i := range r.Scopes {
		if at < len(scopes) && r.Scopes[i].Name == scopes[at] {
			at++
		}
	}
	return at == len(scopes)
}

// tokenScopes returns the scopes that one token for all resources of a can carry. A token
// does not express at which resource a scope counts, so a scope is left out if it is allowed
// at one resource and not at another that also defines it.
func (s *resourceSet) tokenScopes(a storage.Access) []string {
	return slices.DeleteFunc(a.Scopes(), func(scope string) bool {
		return slices.ContainsFunc(a, func(p storage.Permission) bool {
			return s.defines(p.Resource, scope) && !slices.Contains(p.Scopes, scope)
		})
	})
}
