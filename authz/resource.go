package authz

import (
	"errors"
	"fmt"

	"gatehouse.example/authz/internal/uripattern"
	"gatehouse.example/metadata"
)

// Resource is a protected server that tokens are issued for.
type Resource struct {
	// URI is the resource identifier (RFC 8707 section 2) in canonical form, or a pattern for
	// many, such as https://mcp.example.com/{tenant}/mcp. A name in braces stands for one segment
	// of 1 to 128 letters, digits and -._~ that is not "." or "..". Each URI that matches is a
	// resource of its own: tokens, grants and pages name it and never the pattern. A resource
	// with that very URI counts before a pattern, and of two patterns the one that has the plain
	// segments where they differ.
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
	// ID is the client_id. With a pattern it is empty: each URI that matches has itself.
	ID string
	// Secret must have at least 32 random characters: its length, and not a limit on
	// attempts, prevents guessing. With a pattern, each URI that matches has its own secret,
	// [DeriveSecret] of this one.
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
			if err := r.introspectionFault(clients); err != nil {
				errs = append(errs, err)
			}
			clients[i.ID] = true
		}
	}
	if defaults > 1 {
		errs = append(errs, errors.New("authz: more than one resource is the default"))
	}
	return append(errs, patternMistakes(resources)...)
}

// introspectionFault returns the mistake in the credentials of a resource server, where others
// have those client_ids.
func (r Resource) introspectionFault(taken map[string]bool) error {
	i := r.Introspection
	switch {
	case uripattern.Is(r.URI) && i.ID != "" && i.ID != r.URI:
		return fmt.Errorf("authz: resource %s: leave out the introspection client_id: for a pattern it is the URI of each resource", r.URI)
	case i.ID == "" && !uripattern.Is(r.URI) || i.Secret == "":
		return fmt.Errorf("authz: resource %s: introspection needs a client_id and a secret", r.URI)
	case taken[i.ID] && i.ID != "":
		return fmt.Errorf("authz: resource %s: introspection client_id %q is used twice", r.URI, i.ID)
	}
	return nil
}

// patternMistakes returns the mistakes of patterns beside other resources.
func patternMistakes(resources []Resource) (errs []error) {
	var patterns uripattern.Tree[string]
	for _, r := range resources {
		p, err := uripattern.Parse(r.URI)
		if err != nil {
			continue // not a pattern, or its mistake was reported
		}
		if r.Default {
			errs = append(errs, fmt.Errorf("authz: resource %s: a pattern cannot be the default", r.URI))
		}
		if other, ok := patterns.Ambiguous(p); ok {
			errs = append(errs, fmt.Errorf("authz: resource %s: one URI can match it and the pattern %s, and neither is more specific: where they differ, one must have all the plain segments", r.URI, other))
		}
		patterns.Add(p, r.URI)
	}
	for _, r := range resources {
		if i := r.Introspection; i != nil && i.ID != r.URI {
			if pattern, ok := patterns.Find(i.ID); ok {
				errs = append(errs, fmt.Errorf("authz: resource %s: introspection client_id %q belongs to the pattern %s", r.URI, i.ID, pattern))
			}
		}
	}
	return errs
}

// uriFault returns the mistake in the URI or pattern.
func (r Resource) uriFault() error {
	uri := r.URI
	if uripattern.Is(uri) {
		p, err := uripattern.Parse(uri)
		if err != nil {
			return fmt.Errorf("authz: resource %q: %w", uri, err)
		}
		uri = p.Example()
	}
	canonical, err := metadata.Canonical(uri)
	switch {
	case err != nil:
		return fmt.Errorf("authz: resource %q: %w", r.URI, err)
	case canonical != uri:
		return fmt.Errorf("authz: resource %q: write it in its canonical form, %s", r.URI, canonical)
	}
	if err := metadata.ValidResource(uri); err != nil {
		return fmt.Errorf("authz: resource %q: %w", r.URI, err)
	}
	return nil
}

func (r Resource) validate(uris map[string]bool, meanings map[string]string) []error {
	var errs []error
	if err := r.uriFault(); err != nil {
		errs = append(errs, err)
	} else if uris[r.URI] {
		errs = append(errs, fmt.Errorf("authz: resource %s is listed twice", r.URI))
	}
	known := map[string]bool{}
	for _, s := range r.Scopes {
		if !usableScope(s.Name) || s.Name == offlineAccess {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is not a usable scope name", r.URI, s.Name))
		}
		other, ok := meanings[s.Name]
		if ok && (known[s.Name] || other != s.Description) {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is already defined with another meaning", r.URI, s.Name))
		}
		if known[s.Name] = true; !ok {
			meanings[s.Name] = s.Description
		}
	}
	for _, name := range r.DefaultScopes {
		if !known[name] {
			errs = append(errs, fmt.Errorf("authz: resource %s: default scope %q is not one of its scopes", r.URI, name))
		}
	}
	return errs
}
