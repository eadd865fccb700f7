package authz

import (
	"errors"
	"fmt"

	"gatehouse.example/metadata"
)

// Resource is a protected server that tokens are issued for.
type Resource struct {
	// URI is the resource identifier (RFC 8707 section 2) in canonical form.
	URI string
	// Name is the name that people see on the consent page.
	Name string
	// Default marks the resource of requests without a resource parameter. A single resource
	// is the default without it.
	Default bool
	// Scopes are the scopes of the resource, in the order in which people see them.
	Scopes []Scope
	// DefaultScopes are granted to requests without a scope; nil means all scopes.
	DefaultScopes []string
	// Introspection holds the credentials of the resource server at /introspect. With nil it
	// cannot introspect tokens.
	Introspection *IntrospectionClient
	// Allow names who may use the resource; the zero value allows every person.
	Allow Allow
	// Claims are what the resource learns about a person, in access tokens and at /introspect:
	// "groups", "email" and "name". Nothing else about a person is told.
	Claims []string
}

// Scope is a scope of a resource with the sentence that people read at consent.
type Scope struct {
	Name        string
	Description string
	// Allow names who may have the scope, among those who may use the resource.
	Allow Allow
}

// Allow names people. Values of one kind are alternatives, and each kind that has any must
// match. The zero value names everybody.
type Allow struct {
	// Groups are groups of this server by name, and groups of a provider as "PROVIDER/GROUP".
	Groups []string `json:"groups,omitempty"`
	// People are names of people as this server has them.
	People []string `json:"people,omitempty"`
}

// IntrospectionClient holds the credentials of a resource server. They are separate from
// those of OAuth clients and are accepted at /introspect only.
type IntrospectionClient struct {
	ID string
	// Secret must have at least 32 random characters: its length, and not a limit on
	// attempts, prevents guessing.
	Secret string
}

func validateResources(resources []Resource) []error {
	var errs []error
	uris, meanings, clients, defaults := map[string]bool{}, map[string]string{}, map[string]bool{}, 0
	for _, r := range resources {
		errs = append(errs, r.validate(uris, meanings)...)
		uris[r.URI] = true
		if r.Default {
			defaults++
		}
		if i := r.Introspection; i != nil {
			if i.ID == "" || i.Secret == "" {
				errs = append(errs, fmt.Errorf("authz: resource %s: introspection needs a client_id and a secret", r.URI))
			}
			if clients[i.ID] {
				errs = append(errs, fmt.Errorf("authz: resource %s: introspection client_id %q is used twice", r.URI, i.ID))
			}
			clients[i.ID] = true
		}
	}
	if defaults > 1 {
		errs = append(errs, errors.New("authz: more than one resource is the default"))
	}
	return errs
}

func (r Resource) validate(uris map[string]bool, meanings map[string]string) []error {
	var errs []error
	canonical, err := metadata.Canonical(r.URI)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("authz: resource %q: %w", r.URI, err))
	case canonical != r.URI:
		errs = append(errs, fmt.Errorf("authz: resource %q: write it in its canonical form, %s", r.URI, canonical))
	case uris[r.URI]:
		errs = append(errs, fmt.Errorf("authz: resource %s is listed twice", r.URI))
	}
	known := map[string]bool{}
	for _, s := range r.Scopes {
		if !usableScope(s.Name) || s.Name == offlineAccess {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is not a usable scope name", r.URI, s.Name))
		}
		if other, ok := meanings[s.Name]; ok && (known[s.Name] || other != s.Description) {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is already defined with another meaning", r.URI, s.Name))
		}
		known[s.Name], meanings[s.Name] = true, s.Description
	}
	for _, name := range r.DefaultScopes {
		if !known[name] {
			errs = append(errs, fmt.Errorf("authz: resource %s: default scope %q is not one of its scopes", r.URI, name))
		}
	}
	return errs
}
