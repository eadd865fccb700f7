package people_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gatehouse.example/authz/internal/people"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// world is a store with a clock, a count of its round trips, and a directory over it.
type world struct {
	*storage.Store
	*people.Directory
	faults *storagetest.Faults
	now    time.Time
	slow   time.Duration // that a round trip takes
	trips  int
}

func newWorld(t *testing.T, groups map[string][]string) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", Now: clock, OnRoundTrip: func() { w.trips++; w.now = w.now.Add(w.slow) }})
	if err != nil {
		t.Fatal(err)
	}
	w.faults = storagetest.NewFaults(backend)
	w.Store, err = storage.New(w.faults, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Store.Close() })
	w.Directory = people.New(people.Config{Store: w.Store, Now: clock, Groups: groups, Counts: func(i storage.Identity) bool { return i.Provider == "company" }})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) of(t *testing.T, u storage.User) []string {
	t.Helper()
	p, err := w.Of(t.Context(), u)
	must(t, err)
	if !slices.IsSorted(p.Groups) || len(slices.Compact(slices.Clone(p.Groups))) != len(p.Groups) {
		t.Errorf("groups out of order or twice: %v", p.Groups)
	}
	for _, group := range p.Groups {
		if !p.In(group) {
			t.Errorf("a member of %s is not in it", group)
		}
	}
	return p.Groups
}

// TestGroupsOfAPerson: memberships by id, groups of the configuration, and groups of a provider
// that counts, each once.
func TestGroupsOfAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string][]string{"listed": {"ada", "ben"}, "both": {"ada"}, "empty": nil, "other": {"ben"}})
	for _, g := range []string{"joined", "both", "replaced"} {
		must(t, w.CreateGroup(t.Context(), storage.Group{Name: g, ID: g + "-id"}))
	}
	ada := storage.User{Name: "ada", Groups: []storage.Membership{
		{Group: "joined", ID: "joined-id"}, {Group: "both", ID: "both-id"}, {Group: "replaced", ID: "earlier"}, {Group: "gone", ID: "x"}, {Group: "void", ID: ""},
	}, Identities: []storage.Identity{
		{Provider: "company", Groups: []string{"joined", "a/b", "a/b", ""}}, {Provider: "other", Groups: []string{"joined"}},
	}}
	want := []string{"both", "company/a/b", "company/joined", "joined", "listed"}
	if got := w.of(t, ada); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.of(t, storage.User{Name: "nobody"}); len(got) != 0 {
		t.Errorf("nobody is in %v", got)
	}
}

// TestToldWhileAProviderCounts: what a provider stated of a person is told while one with which they sign in is
// configured, as its groups count. After that nobody vouches for it.
func TestToldWhileAProviderCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for counts, ada := range map[bool]storage.User{
		true:  {Name: "ada", FullName: "Ada L", Email: "ada@example.com", Identities: []storage.Identity{{Provider: "other"}, {Provider: "company"}}},
		false: {Name: "ada", FullName: "Ada L", Email: "ada@example.com", Identities: []storage.Identity{{Provider: "other"}}},
	} {
		p, err := w.Of(t.Context(), ada)
		must(t, err)
		if (p.Email == "ada@example.com") != counts || (p.FullName == "Ada L") != counts || !counts && p.Email+p.FullName != "" {
			t.Errorf("a provider counts: %t: told are %q and %q", counts, p.Email, p.FullName)
		}
	}
}

// TestGroupsAreCurrent: what is known of a group counts for less than five seconds, also that
// there is none; and not after the clock was set back.
func TestGroupsAreCurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ada := storage.User{Name: "ada", Groups: []storage.Membership{{Group: "g", ID: "1"}}}
	check := func(what string, in bool, trips int) {
		t.Helper()
		w.trips = 0
		if got := w.of(t, ada); (len(got) == 1) != in || w.trips != trips {
			t.Errorf("%s: %v after %d round trips; want in %t after %d", what, got, w.trips, in, trips)
		}
	}
	check("no group", false, 1)
	must(t, w.CreateGroup(t.Context(), storage.Group{Name: "g", ID: "1"}))
	check("a group that is new", false, 0)
	w.now = w.now.Add(people.MaxAge)
	check("later", true, 1)
	w.now = w.now.Add(people.MaxAge - 1)
	must(t, w.DeleteGroup(t.Context(), "g"))
	check("a group that was just removed", true, 0)
	w.now = w.now.Add(1)
	check("later", false, 1)
	must(t, w.CreateGroup(t.Context(), storage.Group{Name: "g", ID: "1"}))
	w.now = w.now.Add(-time.Hour)
	check("the clock was set back", true, 1)
	w.now = w.now.Add(time.Hour)
	must(t, w.DeleteGroup(t.Context(), "g"))
	check("and forward", false, 1)
	w.faults.SetDown(true)
	check("the store is down, and the group known", false, 0)
	w.now = w.now.Add(people.MaxAge)
	if _, err := w.Of(t.Context(), ada); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("the store is down: %v", err)
	}
}

// TestManyMemberships: memberships above the bound do not count and are not read.
func TestManyMemberships(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ada := storage.User{Name: "ada"}
	for i := range 150 {
		name := fmt.Sprintf("g%03d", i)
		must(t, w.CreateGroup(t.Context(), storage.Group{Name: name, ID: name}))
		ada.Groups = append(ada.Groups, storage.Membership{Group: name, ID: name})
	}
	if got := w.of(t, ada); len(got) != 100 || got[99] != "g099" {
		t.Errorf("%d groups", len(got))
	}
}

// grant stores a grant of a person.
func (w *world) grant(t *testing.T, userName, subject string) string {
	t.Helper()
	g, _, err := w.PrepareGrant(storage.NewGrant{ClientID: "c", Subject: subject, UserName: userName, Resources: []string{"r"}, CodeTTL: time.Hour})
	must(t, err)
	must(t, w.CreateGrant(t.Context(), g))
	return g.ID
}

// TestGrantWithItsPerson: a grant comes with its person if it needs one, in one round trip when it
// was seen before, and the person is the one of the grant and may act.
func TestGrantWithItsPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, w.CreateGroup(t.Context(), storage.Group{Name: "g", ID: "1"}))
	ada := storage.User{Name: "ada", Subject: "s", Groups: []storage.Membership{{Group: "g", ID: "1"}}}
	must(t, w.CreateUser(t.Context(), ada))
	id, foreign := w.grant(t, "ada", "s"), w.grant(t, "ada", "another")
	needs := true
	check := func(what, id string, trips int, want people.Holder) {
		t.Helper()
		w.trips = 0
		g, h, err := w.Directory.Grant(t.Context(), id, func(storage.Grant) bool { return needs })
		must(t, err)
		if g.ID != id || h.Known != want.Known || h.Gone != want.Gone || !slices.Equal(h.Groups, want.Groups) || h.Name != want.Name || w.trips != trips {
			t.Errorf("%s: %+v after %d round trips; want %+v after %d", what, h, w.trips, want, trips)
		}
	}
	holds := people.Holder{Known: true, Person: people.Person{Name: "ada", Groups: []string{"g"}}}
	nobody := people.Holder{Known: true, Gone: true}
	needs = false
	check("needs no person", id, 1, people.Holder{})
	needs = true
	check("at first", id, 3, holds)
	check("again", id, 1, holds)
	w.now = w.now.Add(people.MaxAge)
	check("later, with the group", id, 1, holds)
	check("the grant of an earlier person", foreign, 2, nobody)
	check("the grant of an earlier person again", foreign, 2, nobody)
	needs = false
	check("seen, but needs no person any more", id, 1, people.Holder{})
	needs = true
	user, err := w.User(t.Context(), "ada")
	must(t, err)
	user.Disabled = true
	must(t, w.UpdateUser(t.Context(), user))
	check("disabled", id, 1, nobody)
	must(t, w.DeleteUser(t.Context(), "ada", user.Subject))
	check("removed", id, 2, nobody)
	must(t, w.CreateUser(t.Context(), storage.User{Name: "ada", Subject: "new"}))
	check("replaced", id, 2, nobody)
	w.Directory.Remember(id, storage.User{Name: "ben"}) // wrong: the grant is not ben's
	must(t, w.DeleteUser(t.Context(), "ada", "new"))
	must(t, w.CreateUser(t.Context(), ada))
	check("remembered under another name", id, 2, holds)
	check("remembered right", id, 1, holds)

	w.faults.SetDown(true)
	if _, _, err := w.Directory.Grant(t.Context(), id, func(storage.Grant) bool { return true }); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("the store is down: %v", err)
	}
	w.faults.SetDown(false)
	must(t, w.Revoke(t.Context(), id, "test"))
	w.now = w.now.Add(100 * 24 * time.Hour)
	for range 2 {
		if _, _, err := w.Directory.Grant(t.Context(), id, func(storage.Grant) bool { return true }); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a grant that is over: %v", err)
		}
	}
}

// TestMissing: groups that are nowhere, and groups that are in both places.
func TestMissing(t *testing.T) {
	t.Parallel()
	configured := map[string][]string{"both": nil, "file": {"ada"}}
	w := newWorld(t, configured)
	for _, name := range []string{"both", "store"} {
		must(t, w.CreateGroup(t.Context(), storage.Group{Name: name, ID: name}))
	}
	missing, twice, err := people.Missing(t.Context(), w.Store, configured, []string{"none", "store", "file", "both", "none"})
	if must(t, err); !slices.Equal(missing, []string{"none"}) || !slices.Equal(twice, []string{"both"}) {
		t.Errorf("missing %v, twice %v", missing, twice)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := people.Missing(over, w.Store, nil, []string{"none"}); err == nil {
		t.Error("a read without time succeeds")
	}
}
