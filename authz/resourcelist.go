package authz

import (
	"context"
	"errors"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// ResourceList is the resources of a configuration and of a store together, as a [Server] with
// both sees them. Use it to tell an operator what a server does with a resource URI.
type ResourceList struct {
	configured []Resource
	stored     []storedResource
	set        *resourceSet
}

// ReadResources reads the resources of a store. configured are those of the server, or nil if they
// are not known; a mistake in them is an error.
func ReadResources(ctx context.Context, store *storage.Store, configured []Resource) (ResourceList, error) {
	if err := errors.Join(validateResources(configured)...); err != nil {
		return ResourceList{}, err
	}
	stored, err := readResources(ctx, store)
	if err != nil {
		return ResourceList{}, err
	}
	return ResourceList{configured: configured, stored: stored, set: newResourceSet(configured, stored)}, nil
}

// Problems returns the resources of the store that do not count, or not as they stand there.
func (l ResourceList) Problems() []ResourceProblem { return l.set.problems }

// Refuses returns why a resource would not count if it were stored now, in place of the one with
// its ID; "" if it would.
func (l ResourceList) Refuses(r storage.Resource) string {
	others := make([]storedResource, 0, len(l.stored)+1)
	for _, other := range l.stored {
		if other.ID != r.ID {
			others = append(others, other)
		}
	}
	set := newResourceSet(l.configured, append(others, storedResource{Resource: r}))
	for _, p := range set.problems {
		if p.URI == r.URI {
			return strings.TrimSuffix(p.Why, addAgain) // it is not there yet
		}
	}
	return ""
}

// ResourceMatch is what a server knows about a resource URI.
type ResourceMatch struct {
	// Resource is the resource under that URI, without its introspection secret.
	Resource Resource
	// Entry is the entry that the URI belongs to: the same URI, or a pattern.
	Entry string
	// Pattern says that Entry is a pattern, Stored that it is in the store and not in the
	// configuration, and Disabled that nobody can use it now.
	Pattern, Stored, Disabled bool
	// ClientID is the client_id of the resource server at /introspect, "" if it cannot
	// introspect.
	ClientID string
	// DerivedSecret is its secret there if Entry is a pattern. Other secrets are not known.
	DerivedSecret string
}

// Lookup returns what a server does with a resource parameter. The error says that it is not a
// resource URI; ok is false if no entry has it.
func (l ResourceList) Lookup(raw string) (m ResourceMatch, ok bool, err error) {
	uri, err := metadata.Canonical(raw)
	if err != nil {
		return ResourceMatch{}, false, err
	}
	e := l.set.entry(uri)
	if e == nil {
		return ResourceMatch{}, false, nil
	}
	m = ResourceMatch{Resource: e.Resource, Entry: e.URI, Pattern: e.pattern, Stored: e.stored, Disabled: e.disabled}
	m.Resource.URI, m.Resource.Introspection = uri, nil
	switch {
	case e.pattern && e.key != "":
		m.ClientID, m.DerivedSecret = uri, DeriveSecret(e.key, uri)
	case !e.pattern && len(e.secret) > 0:
		m.ClientID = e.clientID()
	}
	return m, true, nil
}
