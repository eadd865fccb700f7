package authz

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/internal/people"
	"gatehouse.example/storage"
)

// providerIDs returns the ids of the configured providers, never nil.
func (c Config) providerIDs() []string {
	ids := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		ids[i] = p.ID
	}
	return ids
}

// allowMistakes returns the mistakes in who may use what: names that nobody can have.
func (c Config) allowMistakes() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		if account.CheckGroup(name) != nil {
			errs = append(errs, fmt.Errorf("authz: groups: %q: %s", name, plain(account.ErrGroup)))
		}
		for _, member := range c.Groups[name] {
			errs = append(errs, named("groups: "+name, member, c.providerIDs()))
		}
	}
	for _, r := range c.Resources {
		errs = append(errs, r.allowMistakes(c.providerIDs())...)
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// allowMistakes returns the mistakes in who may use a resource and what it is told. Providers are
// those that there are, nil if that is not known: then any may be named.
func (r Resource) allowMistakes(providers []string) []error {
	errs := r.Allow.mistakes("resource "+r.URI, providers)
	for _, scope := range r.Scopes {
		errs = append(errs, scope.Allow.mistakes("resource "+r.URI+": scope "+scope.Name, providers)...)
	}
	for _, claim := range r.Claims {
		if !contains([]string{claimGroups, claimEmail, claimName}, claim) {
			errs = append(errs, fmt.Errorf("authz: resource %s: claims: %q is not groups, email or name", r.URI, claim))
		}
	}
	return errs
}

// mistakes returns the mistakes in an Allow. An empty list is one: whoever wrote it meant nobody,
// and it would let everybody in.
func (a Allow) mistakes(where string, providers []string) []error {
	var errs []error
	if a.Groups != nil && len(a.Groups) == 0 || a.People != nil && len(a.People) == 0 {
		errs = append(errs, fmt.Errorf("authz: %s: allow has an empty list: name somebody, or leave allow out for everybody", where))
	}
	for _, group := range a.Groups {
		errs = append(errs, groupMistake(where, group, providers))
	}
	for _, name := range a.People {
		errs = append(errs, named(where+": allow", name, providers))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// groupMistake returns an error if there can be no group of the name.
func groupMistake(where, group string, providers []string) error {
	switch provider, _, ok := account.OfProvider(group); {
	case ok && providers != nil && !contains(providers, provider):
		return unknownProvider(where+": allow: group", group, provider, providers)
	case !ok && strings.Contains(group, "/"):
		return fmt.Errorf("authz: %s: allow: group %q: a group of a provider is written as PROVIDER/GROUP", where, group)
	case !ok && account.CheckGroup(group) != nil:
		return fmt.Errorf("authz: %s: allow: group %q: %s", where, group, plain(account.ErrGroup))
	}
	return nil
}

// named returns an error if no person can have the name.
func named(where, name string, providers []string) error {
	canonical, err := account.RecordName(name)
	provider, _, ofProvider := account.OfProvider(name)
	switch {
	case err != nil && strings.Contains(name, "/"):
		return fmt.Errorf("authz: %s: %q is not the name of a person: that of a person of a provider is PROVIDER/HANDLE", where, name)
	case err != nil:
		return fmt.Errorf("authz: %s: %q is not the name of a person: %s", where, name, plain(err))
	case canonical != name:
		return fmt.Errorf("authz: %s: write the name %q as %s", where, name, canonical)
	case ofProvider && providers != nil && !contains(providers, provider):
		return unknownProvider(where+": person", name, provider, providers)
	}
	return nil
}

func unknownProvider(where, name, provider string, providers []string) error {
	known := "there are none"
	if len(providers) > 0 {
		known = "there are " + strings.Join(providers, ", ")
	}
	return fmt.Errorf("authz: %s %q: there is no provider %s (%s)", where, name, provider, known)
}

func plain(err error) string { return strings.TrimPrefix(err.Error(), "authz: ") }

// newDirectory returns what knows who people are, by the configuration and its store. What a
// provider said counts while a provider with that id and issuer is configured: another one that
// takes the id over does not inherit its groups.
func newDirectory(cfg Config, known providers) *people.Directory {
	return people.New(people.Config{Store: cfg.Store, Now: cfg.Now, Groups: cfg.Groups, Counts: func(i storage.Identity) bool {
		p := known.byID[i.Provider]
		return p != nil && p.Issues(i.Issuer)
	}})
}

// groups returns the groups that a resource and its scopes name.
func (r Resource) groups() []string {
	names := slices.Clone(r.Allow.Groups)
	for _, scope := range r.Scopes {
		names = append(names, scope.Allow.Groups...)
	}
	return names
}
