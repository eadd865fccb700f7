package storage_test

import (
	"strconv"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// timed is an embedded store whose clock the test moves.
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

// created stores a grant whose code lives for a minute.
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

// entries is how many entries each list of the test's person and client has.
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

// TestTidyKeepsListsShort: lists that nobody reads stay as short as the grants that are
// there make them, if they are tidied for each grant that is made, and are emptied by
// tidying in the end. Without it they keep everything.
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

// TestTidyKeepsWhatLives: tidying forgets no grant that lives, wherever it stands in a
// list, and reading removes what tidying did not reach.
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

// TestRotatedFamily: after a thousand rotations a family takes the room that it took after
// one, but for the digits of its generation.
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
		return len(item.Data) - len(strconv.Itoa(int(g.Generation)))
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
	if last := size(); last != first || g.Generation != 1000 || s.entries(t) != [2]int{1, 1} {
		t.Errorf("%d bytes after one rotation, %d after %d; %d entries", first, last, g.Generation, s.entries(t))
	}
}
