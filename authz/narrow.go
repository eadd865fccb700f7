package authz

import (
	"slices"
	"strings"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/authz/internal/people"
	"gatehouse.example/storage"
)

// narrowed is the part of a grant that an access token is for.
type narrowed struct {
	audience []string
	scopes   []string
	about    keyring.About // the person, as far as every resource of the audience may know
}

// narrow reads resource (RFC 8707 section 2.2) and, if the grant type has it, scope (OAuth
// 2.1 section 4.3.1). Both may ask for less than the grant allows, never for more. A token
// carries the scopes that were allowed at its resources and are still defined there. The
// grant does not change. Whose grant it is now decides too; see [resourceSet.goodFor].
func (s *resourceSet) narrow(g storage.Grant, h people.Holder, f form, scope string) (narrowed, error) {
	consented := s.allowedBy(g)
	granted, err := s.goodFor(consented, h)
	if err != nil {
		return narrowed{}, err
	}
	named, problem := parseResources(f.all("resource"))
	if problem != "" {
		return narrowed{}, refuse(codeInvalidTarget, "%s", problem)
	}
	if len(granted) == 0 {
		if served := s.served(consented); len(served) > 0 {
			return narrowed{}, lostAll(served)
		}
	}
	if len(named) == 0 {
		if named, err = unnamed(g, granted); err != nil {
			return narrowed{}, err
		}
	}
	var access storage.Access
	for _, uri := range named {
		p, ok := granted.At(uri)
		if !ok {
			return narrowed{}, refuse(codeInvalidTarget, "resource %s was not granted, or has ended since", printable(uri))
		}
		access = append(access, p)
	}
	scopes, err := s.narrowScopes(granted, access, scope)
	return narrowed{audience: named, scopes: scopes, about: about(h, s.told(named), maxTokenGroups)}, err
}

// unnamed returns the resources of a token request that names none. A token for two resources
// can be used by each of them at the other, so clients must ask for one explicitly. The
// default is the audience of the grant's first token, as far as it is still served, and never
// another resource instead: the client would send the token to the wrong one. Before the
// first token the default is the only resource of the grant.
func unnamed(g storage.Grant, granted storage.Access) ([]string, error) {
	usual := g.Audience
	if len(usual) == 0 && len(g.Resources) == 1 {
		usual = g.Resources
	}
	left := slices.DeleteFunc(slices.Clone(usual), func(uri string) bool { _, ok := granted.At(uri); return !ok })
	switch {
	case len(left) > 0:
		return left, nil
	case len(granted) == 0:
		return nil, refuse(codeInvalidTarget, "the resource is no longer configured at this server")
	case len(usual) > 0:
		return nil, refuse(codeInvalidTarget, "the resource of this grant's tokens, %s, has ended; name another one with the parameter resource: %s",
			printable(strings.Join(usual, " ")), strings.Join(granted.Resources(), " "))
	}
	return nil, refuse(codeInvalidTarget, "the grant is for several resources; name the one that the token is for with the parameter resource: %s",
		strings.Join(granted.Resources(), " "))
}

// narrowScopes returns the scopes of a token for access, a part of the granted resources. raw
// is the scope parameter.
func (s *resourceSet) narrowScopes(granted, access storage.Access, raw string) ([]string, error) {
	asked, problem := parseScope(raw)
	if problem != "" {
		return nil, refuse(codeInvalidScope, "%s", problem)
	}
	asked = slices.DeleteFunc(asked, func(name string) bool { return name == offlineAccess })
	all, possible := granted.Scopes(), s.tokenScopes(access)
	for _, name := range asked {
		if !slices.Contains(all, name) {
			return nil, refuse(codeInvalidScope, "scope %s was not granted, or is not open to the person any more", name)
		}
		if !slices.Contains(possible, name) {
			return nil, refuse(codeInvalidScope, "scope %s does not belong into a token for %s", name, strings.Join(access.Resources(), " and "))
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	return possible, nil
}
