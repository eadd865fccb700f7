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
	case i < 0 && len(ids) == 0:
		return "no provider is configured; list " + id + " under sign-in.providers"
	case i < 0:
		return fmt.Sprintf("there is no provider %s; there are %s", id, strings.Join(ids, ", "))
	case !from.Providers[i].NamesGroups():
		return from.Providers[i].Title() + " names no groups in a sign-in; make a group here with: authz group add"
	}
	return ""
}

// groupsOfChanged is reportGroups for resources that were read again. What fails there keeps no
// resource from counting: the log says so once, and the groups are looked at with the next reading.
func (s *Server) groupsOfChanged(ctx context.Context, set *resourceSet) {
	err := s.reportGroups(ctx, set)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !s.groupsUnread:
		s.cfg.Logger.WarnContext(ctx, "it is not known whether somebody is in the groups that resources name", "error", err)
	}
	s.groupsUnread = err != nil
}

// reportGroups warns of groups in rules about people that nobody can be in, each once while that
// holds. It is called at the start and whenever the resources of the store were read again.
func (s *Server) reportGroups(ctx context.Context, set *resourceSet) error {
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
	for _, g := range empty {
		now[g.Group] = true
		if !s.emptyGroups[g.Group] {
			s.cfg.Logger.WarnContext(ctx, "nobody is in a group that may use something: "+g.Why, "group", g.Group, "resources", g.Resources[:min(len(g.Resources), 10)])
		}
	}
	s.emptyGroups = now
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
