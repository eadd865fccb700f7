package authz

import (
	"slices"
	"strings"

	"gatehouse.example/storage"
)

// narrowed is which part of a grant an access token is for.
type narrowed struct {
	audience []string
	scopes   []string
}

// narrow reads resource (RFC 8707 section 2.2) and, where the grant type has it, scope
// (OAuth 2.1 section 4.3.1). Both may ask for less than the grant holds, never for more. A
// token carries the scopes that were allowed at its resources and are defined there still.
// The grant itself keeps everything.
func (s *Server) narrow(g storage.Grant, f form, scope string) (narrowed, error) {
	granted := s.resources.served(g.Allowed(s.resources.defines))
	named, problem := parseResources(f.all("resource"))
	if problem != "" {
		return narrowed{}, refuse(codeInvalidTarget, "%s", problem)
	}
	if len(named) == 0 {
		var err error
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
	return narrowed{audience: named, scopes: scopes}, err
}

// unnamed returns the resources of a token request that names none: a token that is good at
// two resources can be used by each at the other, so clients have to ask for that. It is
// those of the first token of the grant, as far as they are there still, and never another
// one instead: the client would send the token to the wrong resource. Before there was a
// token it is the sole resource.
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
		return nil, refuse(codeInvalidTarget, "the resource is no longer served here")
	case len(usual) > 0:
		return nil, refuse(codeInvalidTarget, "the resource of this grant's tokens, %s, has ended; name another one with the parameter resource: %s",
			printable(strings.Join(usual, " ")), strings.Join(granted.Resources(), " "))
	}
	return nil, refuse(codeInvalidTarget, "the grant is for several resources; name the one that the token is for with the parameter resource: %s",
		strings.Join(granted.Resources(), " "))
}

// narrowScopes returns the scopes of a token for some of the resources that were granted.
func (s *Server) narrowScopes(granted, access storage.Access, raw string) ([]string, error) {
	asked, problem := parseScope(raw)
	if problem != "" {
		return nil, refuse(codeInvalidScope, "%s", problem)
	}
	asked = slices.DeleteFunc(asked, func(name string) bool { return name == offlineAccess })
	all, possible := granted.Scopes(), s.resources.together(access)
	for _, name := range asked {
		if !slices.Contains(all, name) {
			return nil, refuse(codeInvalidScope, "scope %s was not granted", name)
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
