package people_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse.example/authz/internal/people"
	"gatehouse.example/storage"
)

// TestGroupsOfTheConfigurationStay: what else a person joins changes nothing of the groups that the
// configuration lists, neither then nor afterwards.
func TestGroupsOfTheConfigurationStay(t *testing.T) {
	t.Parallel()
	for listed := range 8 {
		configured, want := map[string][]string{}, []string{}
		for _, group := range []string{"m", "n", "o", "p", "q", "r", "s", "t"}[:listed] {
			configured[group], want = []string{"ada"}, append(want, group)
		}
		w := newWorld(t, configured)
		must(t, w.CreateGroup(t.Context(), storage.Group{Name: "admins", ID: "1"}))
		joined := storage.User{Name: "ada", Groups: []storage.Membership{{Group: "admins", ID: "1"}}}
		if got := w.of(t, joined); !slices.Equal(got, append([]string{"admins"}, want...)) {
			t.Errorf("joined: %v", got)
		}
		if got := w.of(t, storage.User{Name: "ada"}); !slices.Equal(got, want) {
			t.Errorf("not joined any more: %v, want %v", got, want)
		}
	}
}

// TestProviderSpeaksForItself: a group of a provider is named by its id alone, so that no id that holds
// a slash, or is empty, makes it one of another provider.
func TestProviderSpeaksForItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	everybody := people.New(people.Config{Store: w.Store, Now: func() time.Time { return w.now }, Counts: func(storage.Identity) bool { return true }})
	for _, provider := range []string{"company/it", "", "/", "company/", "Company"} {
		ada := storage.User{Name: "ada", Identities: []storage.Identity{{Provider: provider, Groups: []string{"admins", "company/admins"}}}}
		if p, err := everybody.Of(t.Context(), ada); err != nil || len(p.Groups) != 0 {
			t.Errorf("%q: %v, %v", provider, p.Groups, err)
		}
	}
}

// TestGroupsAgeFromTheQuestion: what a slow store answers is as old as the question, both for a group
// that is asked for by itself and for one that comes with a grant.
func TestGroupsAgeFromTheQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, w.CreateGroup(t.Context(), storage.Group{Name: "g", ID: "1"}))
	ada := storage.User{Name: "ada", Subject: "s", Groups: []storage.Membership{{Group: "g", ID: "1"}}}
	must(t, w.CreateUser(t.Context(), ada))
	id := w.grant(t, "ada", "s")
	w.Directory.Remember(id, ada)
	for name, ask := range map[string]func(){
		"by itself": func() { w.of(t, ada) },
		"with a grant": func() {
			_, h, err := w.Directory.Grant(t.Context(), id, func(storage.Grant) bool { return true })
			if must(t, err); !h.In("g") {
				t.Error("ada is not in the group")
			}
		},
	} {
		w.now = w.now.Add(time.Minute)
		w.slow = 2 * time.Second
		asked := w.now
		ask()
		w.slow = 0
		w.now = asked.Add(people.MaxAge - 1)
		w.trips = 0
		if w.of(t, ada); w.trips != 0 {
			t.Errorf("%s: it is asked for again before", name)
		}
		w.now = asked.Add(people.MaxAge)
		if w.of(t, ada); w.trips != 1 {
			t.Errorf("%s: it counts for longer", name)
		}
	}
}

// TestDamagedPerson: a person whose record cannot be read has not gone.
func TestDamagedPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ada := storage.User{Name: "ada", Subject: "s"}
	must(t, w.CreateUser(t.Context(), ada))
	id := w.grant(t, "ada", "s")
	_, err := w.faults.Put(t.Context(), storage.Put{Key: "gatehouse:user:ada", Data: []byte{99}, If: storage.Always, Operation: storage.Version{1}})
	must(t, err)
	for _, seen := range []bool{false, true} {
		if seen {
			w.Directory.Remember(id, ada)
		}
		_, h, err := w.Directory.Grant(t.Context(), id, func(storage.Grant) bool { return true })
		if !errors.Is(err, storage.ErrRecord) || h.Gone {
			t.Errorf("seen before: %t: %+v, %v", seen, h, err)
		}
	}
}
