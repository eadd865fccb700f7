package storage_test

import (
	"fmt"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// timed is an embedded store with a clock that the test sets.
type timed struct {
	*storage.Store
	backend storage.Backend
	now     time.Time
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	s := &timed{now: now()}
	clock := func() time.Time { return s.now }
	var err error
	if s.backend, err = redis.Open(t.Context(), redis.Options{URL: "embedded:", Now: clock}); err != nil {
		t.Fatal(err)
	}
	s.Store, err = storage.New(s.backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// created stores a grant whose code is valid for a minute.
func (s *timed) created(t *testing.T) storage.Grant {
	t.Helper()
	g, _ := prepare(t, s.Store)
	g.CodeExpires, g.Expires = s.now.Add(time.Minute), s.now.Add(time.Minute)
	if err := s.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	g, err := s.Grant(t.Context(), g.ID)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// entries returns the number of entries in each list of the test's person and client.
func (s *timed) entries(t *testing.T) [2]int {
	t.Helper()
	var n [2]int
	for i, index := range []string{"gatehouse:user-grants:subject", "gatehouse:client-grants:client"} {
		entries, err := s.backend.IndexPage(t.Context(), index, "", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		n[i] = len(entries)
	}
	return n
}

// TestTidyKeepsListsShort: lists that are never read stay as short as the number of living
// grants, if they are tidied for each grant that is created, and tidying empties them in the end.
// Without it they keep every entry.
func TestTidyKeepsListsShort(t *testing.T) {
	const step = 10 * time.Second
	for _, test := range []struct {
		name              string
		tidy              bool
		made, least, most int
	}{
		{"tidied", true, 1000, 10, 20}, // a key lives for two minutes, and a little longer
		{"not tidied", false, 200, 200, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newTimed(t)
			tidy := func() {
				if err := s.TidyGrants(t.Context(), "subject", "client"); err != nil {
					t.Fatal(err)
				}
			}
			longest := 0
			for i := range test.made {
				s.now = s.now.Add(step)
				s.created(t)
				if test.tidy {
					tidy()
				}
				if i%50 == 49 {
					n := s.entries(t)
					longest = max(longest, n[0], n[1])
				}
			}
			if longest < test.least || longest > test.most {
				t.Errorf("the lists of %d grants had %d entries; want %d to %d", test.made, longest, test.least, test.most)
			}
			s.now = s.now.Add(time.Hour)
			for range longest {
				tidy()
			}
			if n := s.entries(t); n != [2]int{} {
				t.Errorf("when all are gone the lists have %d entries", n)
			}
		})
	}
}

// TestTidyKeepsWhatLives: tidying removes no living grant, wherever it is in a list, and reading
// removes the entries that tidying did not reach.
func TestTidyKeepsWhatLives(t *testing.T) {
	s := newTimed(t)
	for i := range 50 {
		s.now = s.now.Add(10 * time.Second)
		g := s.created(t)
		if i%7 == 0 {
			life := storage.Lifetime{Expires: s.now.Add(time.Hour), IdleExpires: s.now.Add(time.Hour), AccessUntil: s.now.Add(time.Minute)}
			if _, err := s.Redeem(t.Context(), g, life); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.TidyGrants(t.Context(), "subject", "client"); err != nil {
			t.Fatal(err)
		}
	}
	s.now = s.now.Add(20 * time.Minute)
	living := 0
	for g, err := range s.UserGrants(t.Context(), "subject") {
		if err != nil || g.State != storage.GrantActive {
			t.Errorf("a grant is %s, %v", g.State, err)
		}
		living++
	}
	if n := s.entries(t); living != 8 || n[0] != living {
		t.Errorf("%d grants are listed and there are %d entries; want 8", living, n[0])
	}
}

// TestRotatedFamily: after a thousand rotations a family occupies the space that it occupied
// after one, but for a few bytes of its generation and its times.
func TestRotatedFamily(t *testing.T) {
	s := newTimed(t)
	g, err := s.Redeem(t.Context(), s.created(t), life())
	if err != nil {
		t.Fatal(err)
	}
	size := func() int {
		item, err := s.backend.Get(t.Context(), "gatehouse:grant:"+g.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(item.Data)
	}
	first := 0
	for i := range 1000 {
		s.now = s.now.Add(time.Hour)
		l := life()
		l.IdleExpires, l.AccessUntil = s.now.Add(30*24*time.Hour), s.now.Add(5*time.Minute)
		if g, err = s.Rotate(t.Context(), g, l); err != nil {
			t.Fatalf("rotation %d: %v", i+1, err)
		}
		if i == 0 {
			first = size()
		}
	}
	if last := size(); last > first+6 || last < first-6 || g.Generation != 1000 || s.entries(t) != [2]int{1, 1} {
		t.Errorf("%d bytes after one rotation, %d after %d; %d entries", first, last, g.Generation, s.entries(t))
	}
}

// registers stores a client of one of so many softwares that ends in a week.
func (s *timed) registers(t *testing.T, i, softwares int) {
	t.Helper()
	c := storage.Client{
		ID: fmt.Sprintf("client-%d", i), Source: storage.ClientRegistered, Software: fmt.Sprintf("software-%d", i%softwares),
		Created: s.now, Expires: s.now.Add(7 * 24 * time.Hour),
	}
	if err := s.CreateClient(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// holds returns how many unused clients are listed, how many of these softwares have lists, and
// how many of the first n clients have records: living ones, and tombstones of removed ones.
func (s *timed) holds(t *testing.T, n, softwares int) (listed, lists, living, left int) {
	t.Helper()
	length := func(index string) int {
		n, err := s.backend.IndexLen(t.Context(), index)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range softwares {
		lists += min(1, length(fmt.Sprintf("gatehouse:software-unused:software-%d", i)))
	}
	for i := range n {
		if _, err := s.backend.Get(t.Context(), fmt.Sprintf("gatehouse:client:client-%d", i)); err == nil {
			left++
		}
		if _, err := s.Client(t.Context(), fmt.Sprintf("client-%d", i)); err == nil {
			living, left = living+1, left-1
		}
	}
	return length("gatehouse:clients:unused"), lists, living, left
}

// TestRegistrationsAreBounded: however many unused clients register, at most as many records as
// the bound are left, and the tombstones of the others end within an hour. The lists are as
// short, those of softwares too.
func TestRegistrationsAreBounded(t *testing.T) {
	const step, made, limit, perSoftware = time.Minute, 1000, 50, 5
	for _, test := range []struct {
		name             string
		softwares        int
		living, ofOthers int
	}{
		{"one software that registers on every connect", 1, perSoftware, 65}, // an hour of them, and a minute
		{"a software for each", made, limit, 65},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newTimed(t)
			for i := range made {
				s.now = s.now.Add(step)
				s.registers(t, i, test.softwares)
				for software, limit := range map[string]int{fmt.Sprintf("software-%d", i%test.softwares): perSoftware, "": limit} {
					if _, _, err := s.BoundUnused(t.Context(), storage.Bound{Software: software, Most: limit}); err != nil {
						t.Fatal(err)
					}
				}
			}
			listed, lists, living, left := s.holds(t, made, test.softwares)
			if listed != test.living || lists != min(test.living, test.softwares) || living != test.living || left > test.ofOthers {
				t.Errorf("%d clients live and are listed %d times, in the lists of %d softwares, and %d are remembered", living, listed, lists, left)
			}
			s.now = s.now.Add(2 * time.Hour)
			if _, _, living, left := s.holds(t, made, 0); living != test.living || left != 0 {
				t.Errorf("two hours later %d clients live and %d are remembered", living, left)
			}
		})
	}
}

// TestRegistrationsEnd: clients that register now and then and are not used leave nothing in the
// store, also if they are never too many: no record, no entry, no list.
func TestRegistrationsEnd(t *testing.T) {
	const made = 300
	s := newTimed(t)
	for i := range made {
		s.now = s.now.Add(12 * time.Hour)
		s.registers(t, i, made)
		if _, _, err := s.BoundUnused(t.Context(), storage.Bound{Most: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	if listed, lists, living, left := s.holds(t, made, made); living != 14 || listed > 15 || lists != listed || left > 1 { // the last minute of one
		t.Errorf("%d clients live, %d are listed, of %d softwares, and %d are remembered", living, listed, lists, left)
	}
}
