package authz

import (
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// catalogue answers what the resources are and which scopes belong to which.
type catalogue struct {
	list     []Resource
	byURI    map[string]Resource
	fallback string // for requests without a resource parameter; "" if there is none
	byClient map[string]Resource
}

func newCatalogue(resources []Resource) catalogue {
	c := catalogue{list: resources, byURI: map[string]Resource{}, byClient: map[string]Resource{}}
	for _, r := range resources {
		c.byURI[r.URI] = r
		if r.Default || len(resources) == 1 {
			c.fallback = r.URI
		}
		if r.Introspection != nil {
			c.byClient[r.Introspection.ID] = r
		}
	}
	return c
}

func (c catalogue) introspectable() bool { return len(c.byClient) > 0 }

func (c catalogue) uris() []string {
	uris := make([]string, len(c.list))
	for i, r := range c.list {
		uris[i] = r.URI
	}
	return uris
}

// scopeNames are all scopes that a client may ask for, offline_access last.
func (c catalogue) scopeNames() []string {
	var names []string
	for _, r := range c.list {
		for _, s := range r.Scopes {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return append(names, offlineAccess)
}

// parseResources reads resource parameters (RFC 8707 section 2) into canonical URIs
// without repetition. The problem names the value that is wrong.
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

// requested returns the resources of an authorization request: those that were asked
// for, all of them ours, or the default one.
func (c catalogue) requested(raw []string) (uris []string, problem string) {
	uris, problem = parseResources(raw)
	if problem != "" {
		return nil, problem
	}
	for _, uri := range uris {
		if _, ok := c.byURI[uri]; !ok {
			return nil, fmt.Sprintf("resource %s is not known here; known are: %s", printable(uri), strings.Join(c.uris(), " "))
		}
	}
	if len(uris) > 0 {
		return uris, ""
	}
	if c.fallback == "" {
		return nil, "the resource parameter is required; known are: " + strings.Join(c.uris(), " ")
	}
	return []string{c.fallback}, ""
}

// scopes returns the scopes of an authorization request for resources: those that were
// asked for, each defined by one of the resources, or the default ones of all of them.
func (c catalogue) scopes(resources []string, raw string) (scopes []string, problem string) {
	asked, problem := parseScope(raw)
	if problem != "" {
		return nil, problem
	}
	for _, scope := range asked {
		if scope == offlineAccess {
			continue // accepted, and never put into a token
		}
		if !c.defines(resources, scope) {
			return nil, fmt.Sprintf("scope %s does not belong to %s", scope, strings.Join(resources, " or "))
		}
		scopes = append(scopes, scope)
	}
	if len(scopes) == 0 {
		scopes = c.defaultScopes(resources)
	}
	return scopes, ""
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

// maxScope bounds the name of a scope, in bytes: a request must not make us store or
// print long ones.
const maxScope = 128

func usableScope(name string) bool { return len(name) <= maxScope && metadata.ValidScope(name) }

func (c catalogue) defines(resources []string, scope string) bool {
	return slices.ContainsFunc(resources, func(uri string) bool {
		return slices.ContainsFunc(c.byURI[uri].Scopes, func(s Scope) bool { return s.Name == scope })
	})
}

func (c catalogue) defaultScopes(resources []string) []string {
	var out []string
	for _, uri := range resources {
		r := c.byURI[uri]
		names := r.DefaultScopes
		if names == nil {
			for _, s := range r.Scopes {
				names = append(names, s.Name)
			}
		}
		for _, name := range names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// of returns those scopes that one of the resources defines: a token carries only the
// scopes of the resources in its audience. Resources that are no longer configured
// define nothing.
func (c catalogue) of(resources, scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !c.defines(resources, scope) })
}
