package authz

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/internal/people"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
)

// GroupSources is where the groups of people come from, for [EmptyGroups].
type GroupSources struct {
	// Store has the groups that the operator made.
	Store *storage.Store
	// Groups and Providers are those of [Config]. Nil Providers are not known, and any may be named.
	Groups    map[string][]string
	Providers []upstream.Provider
}

// EmptyGroup is a group in a rule about people that nobody can be in.
type EmptyGroup struct {
	// Group is its name, Resources the URIs of the resources that name it.
	Group     string
	Resources []string
	// Why is a sentence for the operator, with what to do.
	Why string
}

// EmptyGroups returns the groups that resources or their scopes name and that nothing can fill: own
// groups that do not exist, and groups of a provider that there is not, or that names none. Such a
// rule lets nobody in. Use it to tell an operator; nothing refuses such a resource, because groups
// may be made later. An error is that of the store.
func EmptyGroups(ctx context.Context, from GroupSources, resources ...Resource) ([]EmptyGroup, error) {
	users := map[string][]string{} // of a group: the resources
	var own []string
	for _, r := range resources {
		for _, name := range r.groups() {
			if !slices.Contains(users[name], r.URI) {
				users[name] = append(users[name], r.URI)
			}
			if !strings.Contains(name, "/") {
				own = append(own, name)
			}
		}
	}
	missing, _, err := people.Missing(ctx, from.Store, nil, slices.DeleteFunc(own, func(name string) bool {
		_, configured := from.Groups[name]
		return configured
	}))
	if err != nil {
		return nil, fmt.Errorf("authz: groups: %w", err)
	}
	var empty []EmptyGroup
	for _, name := range slices.Sorted(maps.Keys(users)) {
		why := from.neverNamed(name)
		if slices.Contains(missing, name) {
			why = "it does not exist; make it with: authz group add " + name
		}
		if why != "" {
			empty = append(empty, EmptyGroup{Group: name, Resources: users[name], Why: why})
		}
	}
	return empty, nil
}

// neverNamed returns why no provider ever names a group that is written as that of a provider.
func (from GroupSources) neverNamed(group string) string {
	id, _, ok := account.OfProvider(group)
	if !ok || from.Providers == nil {
		return ""
	}
	ids := Config{Providers: from.Providers}.providerIDs()
	i := slices.Index(ids, id)
	switch {
	case i < 0:
		return noProvider(id, ids)
	case !from.Providers[i].NamesGroups():
		return from.Providers[i].Title() + " names no groups in a sign-in; make a group here with: authz group add"
	}
	return ""
}

// rulesOfChanged is reportRules for resources that were read again. What fails there keeps no
// resource from counting: the log says so once, and the rules are looked at with the next reading.
func (s *Server) rulesOfChanged(ctx context.Context, set *resourceSet) {
	err := s.reportRules(ctx, set)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !s.rulesUnread:
		s.cfg.Logger.WarnContext(ctx, "it is not known whether the groups and people in the rules of resources exist", "error", err)
	}
	s.rulesUnread = err != nil
}

// reportRules warns of groups in rules about people that nobody can be in, and of people whom no
// provider can sign in, each once while that holds. It is called at the start and whenever the
// resources of the store were read again.
func (s *Server) reportRules(ctx context.Context, set *resourceSet) error {
	var used []Resource
	for _, e := range set.entries {
		if !e.disabled {
			used = append(used, e.Resource)
		}
	}
	providers := s.cfg.Providers
	if providers == nil {
		providers = []upstream.Provider{} // known: there are none
	}
	empty, err := EmptyGroups(ctx, GroupSources{Store: s.cfg.Store, Groups: s.cfg.Groups, Providers: providers}, used...)
	if err != nil {
		return err
	}
	now := map[string]bool{}
	warn := func(sentence, kind, name string, resources []string) {
		now[kind+" "+name] = true
		if !s.unfilledRules[kind+" "+name] {
			s.cfg.Logger.WarnContext(ctx, sentence, kind, name, "resources", resources[:min(len(resources), 10)])
		}
	}
	for _, g := range empty {
		warn("nobody is in a group that may use something: "+g.Why, "group", g.Group, g.Resources)
	}
	for _, p := range AbsentPeople(providers, used...) {
		warn("nobody can be a person who may use something: "+p.Why, "person", p.Person, p.Resources)
	}
	s.unfilledRules = now
	return nil
}

// reportGroupsTwice says which groups are in the configuration and in the store: the verbs see the
// store only.
func (s *Server) reportGroupsTwice(ctx context.Context) error {
	_, twice, err := people.Missing(ctx, s.cfg.Store, s.cfg.Groups, nil)
	if err != nil {
		return fmt.Errorf("authz: groups: %w", err)
	}
	for _, name := range twice {
		s.cfg.Logger.InfoContext(ctx, "a group is in the configuration and in the store: the members of both are its members", "group", name)
	}
	return nil
}
