package storage

import (
	"slices"
	"strings"
)

// Permission is what may be done at one resource: what its scopes allow or, without scopes, the
// operations that need none.
type Permission struct {
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
}

// Access is pairs of resource and scope: what a client asks for, what a person allows, what a
// token is for. It has each resource once, in the order in which pages show them.
type Access []Permission

// At returns the permission at a resource, and whether there is one.
func (a Access) At(resource string) (Permission, bool) {
	i := slices.IndexFunc(a, func(p Permission) bool { return p.Resource == resource })
	if i < 0 {
		return Permission{}, false
	}
	return a[i], true
}

// Resources returns the resources in order.
func (a Access) Resources() []string {
	return a.appendResources(make([]string, 0, len(a)))
}

func (a Access) appendResources(uris []string) []string {
	for _, p := range a {
		uris = append(uris, p.Resource)
	}
	return uris
}

// Scopes returns every scope once, at whatever resource it counts.
func (a Access) Scopes() []string { return a.appendScopes(nil) }

func (a Access) appendScopes(names []string) []string {
	first := len(names)
	for _, p := range a {
		for _, name := range p.Scopes {
			if !slices.Contains(names[first:], name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// String returns the pairs for a log.
func (a Access) String() string {
	parts := make([]string, len(a))
	for i, p := range a {
		parts[i] = strings.Join(append([]string{p.Resource}, p.Scopes...), " ")
	}
	return strings.Join(parts, ", ")
}

// without returns a copy of a without a resource.
func (a Access) without(resource string) Access {
	return slices.DeleteFunc(slices.Clone(a), func(p Permission) bool { return p.Resource == resource })
}

// Allowed returns what was consented and has not ended. In a record from before there were pairs,
// each granted scope counts under each granted resource that defines it now, and a resource that
// defines none of them is granted without scopes.
func (g Grant) Allowed(defines func(resource, scope string) bool) Access {
	return accessOf(g.Access, g.Resources, g.Scopes, defines)
}

// Asked returns what the client asked for. A record from before there were pairs is read
// like [Grant.Allowed].
func (t Transaction) Asked(defines func(resource, scope string) bool) Access {
	return accessOf(t.Access, t.Resources, t.Scopes, defines)
}

func accessOf(pairs Access, resources, scopes []string, defines func(resource, scope string) bool) Access {
	if len(pairs) > 0 {
		return pairs
	}
	for _, resource := range resources {
		undefined := func(scope string) bool { return !defines(resource, scope) }
		pairs = append(pairs, Permission{Resource: resource, Scopes: slices.DeleteFunc(slices.Clone(scopes), undefined)})
	}
	return pairs
}
