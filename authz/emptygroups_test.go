package authz_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
)

// said returns how often the log says that nobody is in a group.
func (h *harness) said(group string) int {
	return strings.Count(h.log.String(), "group="+group+" ")
}

// TestEmptyGroups: groups that nothing can fill are named with the reason, others are not.
func TestEmptyGroups(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	if _, err := admin.AddGroup(t.Context(), h.store, "stored"); err != nil {
		t.Fatal(err)
	}
	r := wikiResource()
	r.Allow.Groups = []string{"stored", "listed", "missing", "company/staff", "google/staff", "nobody/staff"}
	r.Scopes[0].Allow.Groups = []string{"missing"}
	from := authz.GroupSources{Store: h.store, Groups: map[string][]string{"listed": nil}, Providers: []upstream.Provider{
		{ID: "company", Preset: upstream.Okta}, {ID: "google", Preset: upstream.Google},
	}}
	for name, test := range map[string]struct {
		change func()
		want   map[string]string
	}{
		"all known": {func() {}, map[string]string{"missing": "authz group add missing", "google/staff": "Google names no groups", "nobody/staff": "there is no provider nobody; there are company, google"}},
		"no providers": {func() { from.Providers = []upstream.Provider{} }, map[string]string{
			"missing": "does not exist", "company/staff": "no provider is configured", "google/staff": "no provider is configured", "nobody/staff": "no provider is configured",
		}},
		"unknown": {func() { from.Providers, from.Groups = nil, nil }, map[string]string{"missing": "does not exist", "listed": "does not exist"}},
	} {
		before := from
		test.change()
		got, err := authz.EmptyGroups(t.Context(), from, r, r)
		if err != nil || len(got) != len(test.want) {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		for _, g := range got {
			if why := test.want[g.Group]; why == "" || !strings.Contains(g.Why, why) || len(g.Resources) != 1 || g.Resources[0] != wiki {
				t.Errorf("%s: %+v", name, g)
			}
		}
		from = before
	}
	h.faults.SetDown(true)
	from.Store = h.storeWithin(time.Second)
	if _, err := authz.EmptyGroups(t.Context(), from, r); err == nil {
		t.Error("a store that does not answer has all groups")
	}
}

// TestAbsentPeople: people of a provider that there is not are named with the resources that name
// them, others are not.
func TestAbsentPeople(t *testing.T) {
	t.Parallel()
	r, other := wikiResource(), wikiResource()
	r.Allow.People = []string{"ada", "company/ada@example.com", "nobody/ada"}
	r.Scopes[0].Allow.People = []string{"nobody/ada", "left/ben"}
	other.URI, other.Allow.People = "https://other.example.com/mcp", []string{"nobody/ada"}
	providers := []upstream.Provider{{ID: "company", Preset: upstream.Okta}}
	var got []string
	for _, p := range authz.AbsentPeople(providers, r, r, other) {
		got = append(got, p.Person+" "+strings.Join(p.Resources, " ")+": "+p.Why)
	}
	want := []string{
		"left/ben " + wiki + ": there is no provider left; there are company",
		"nobody/ada " + wiki + " https://other.example.com/mcp: there is no provider nobody; there are company",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := authz.AbsentPeople([]upstream.Provider{}, other); len(got) != 1 || !strings.Contains(got[0].Why, "no provider is configured") {
		t.Errorf("without a provider: %+v", got)
	}
	if got := authz.AbsentPeople(nil, r); got != nil {
		t.Errorf("with providers that are not known: %+v", got)
	}
}

// TestEmptyGroupsWhileRunning: a running server says once that nobody is in a group that a new
// resource names, or can be a person whom it names, and again when that was otherwise in between.
func TestEmptyGroupsWhileRunning(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	r := wikiResource()
	r.Allow = authz.Allow{Groups: []string{"editors", "nowhere/staff"}, People: []string{"ada", "nowhere/staff"}}
	look := func() {
		h.clock.advance(time.Minute)
		h.get("/.well-known/oauth-authorization-server")
	}
	h.add(authz.NewResource{Resource: r})
	for range 3 {
		look()
	}
	if h.said("editors") != 1 || h.said("nowhere/staff") != 1 || strings.Count(h.log.String(), "person=nowhere/staff ") != 1 || strings.Contains(h.log.String(), "person=ada") || !strings.Contains(h.log.String(), wiki) {
		t.Fatalf("the log: %s", h.log)
	}
	if err := h.store.CreateGroup(t.Context(), storage.Group{Name: "editors", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	look()
	if h.said("editors") != 1 {
		t.Errorf("the log: %s", h.log)
	}
	h.must(admin.RemoveGroup(t.Context(), h.store, "editors"))
	look()
	if h.said("editors") != 2 || h.said("nowhere/staff") != 1 {
		t.Errorf("the log: %s", h.log)
	}
}

// TestGroupsUnreadWhileRunning: that the groups of a new resource cannot be read keeps it from
// nothing, is no failure to read resources, and is said once; what was not said then is said later.
func TestGroupsUnreadWhileRunning(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	r := wikiResource()
	r.Scopes[0].Allow.Groups = []string{"editors"}
	look := func() string {
		h.clock.advance(time.Minute)
		return h.get("/.well-known/oauth-authorization-server").body
	}
	h.add(authz.NewResource{Resource: r})
	unread := func() int { return strings.Count(h.log.String(), "it is not known whether the groups and people") }
	for again := range 2 {
		h.meter.failReads("group")
		for range 3 {
			if !strings.Contains(look(), wiki) {
				t.Error("the resource does not count")
			}
		}
		if log := h.log.String(); unread() != again+1 || strings.Contains(log, "resources in the store cannot be read") || h.said("editors") != again {
			t.Errorf("while groups cannot be read: %s", log)
		}
		h.meter.failReads("")
		look()
		if log := h.log.String(); h.said("editors") != 1 || unread() != again+1 || strings.Contains(log, "can be read again") {
			t.Errorf("when they can be read again: %s", log)
		}
	}
}
