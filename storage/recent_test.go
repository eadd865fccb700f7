package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// counted is a store whose round trips are counted, with a clock and faults.
type counted struct {
	*storage.Store
	faults *storagetest.Faults
	trips  atomic.Int64
	now    atomic.Int64
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	s := &counted{}
	s.now.Store(now().Unix())
	clock := func() time.Time { return time.Unix(s.now.Load(), 0) }
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", Now: clock, OnRoundTrip: func() { s.trips.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	s.faults = storagetest.NewFaults(backend)
	if s.Store, err = storage.New(s.faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// allow stores n grants of a client, one each second.
func (s *counted) allow(t *testing.T, client string, n int, lives time.Duration) (ids []string) {
	t.Helper()
	for range n {
		s.now.Add(1)
		g, _, err := s.PrepareGrant(storage.NewGrant{ClientID: client, Subject: "subject", Resources: []string{"https://notes.example.com/mcp"}, CodeTTL: lives})
		if err == nil {
			err = s.CreateGrant(t.Context(), g)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
	}
	return ids
}

func (s *counted) alive(t *testing.T, ids ...string) (n int) {
	t.Helper()
	for _, id := range ids {
		g, err := s.Grant(t.Context(), id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		if err == nil && g.State != storage.GrantRevoked {
			n++
		}
	}
	return n
}

// walk returns the ids of all pages.
func (s *counted) walk(t *testing.T, limit int) (ids []string, pages int) {
	t.Helper()
	for before := ""; pages < 10000; {
		page, err := s.RecentGrants(t.Context(), "subject", before, limit)
		if err != nil || len(page.Items) > limit {
			t.Fatalf("a page of %d, %v", len(page.Items), err)
		}
		for _, g := range page.Items {
			ids = append(ids, g.ID)
		}
		pages++
		if page.Next == "" {
			return ids, pages
		}
		before = page.Next
	}
	t.Fatal("the pages do not end")
	return nil, 0
}

// TestRecentGrants: pages hold every live grant once, the newest first, whatever has ended in
// between and wherever pages end.
func TestRecentGrants(t *testing.T) {
	s := newCounted(t)
	if ids, pages := s.walk(t, 5); len(ids) != 0 || pages != 1 {
		t.Errorf("of nothing there are %d on %d pages", len(ids), pages)
	}
	var want []string
	for i := range 40 {
		long := s.allow(t, "client", i%3, time.Hour)
		s.allow(t, "client", i%5, time.Minute)
		want = append(want, long...)
		if len(long) == 2 {
			if err := s.Revoke(t.Context(), long[0], "test"); err != nil {
				t.Fatal(err)
			}
			want = slices.DeleteFunc(want, func(id string) bool { return id == long[0] })
		}
	}
	s.now.Add(600) // the short ones are gone
	slices.Reverse(want)
	for _, limit := range []int{1, 2, 3, 7, 25, 26, 27, 39, 40, 1000} {
		if got, _ := s.walk(t, limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d have %d grants, want %d in the order of their creation, reversed", limit, len(got), len(want))
		}
	}
}

// TestRecentGrantsCostTheSame: a page costs two round trips, however many grants there are.
func TestRecentGrantsCostTheSame(t *testing.T) {
	s := newCounted(t)
	for _, more := range []int{60, 2000} {
		s.allow(t, "client", more, time.Hour)
		before := s.trips.Load()
		page, err := s.RecentGrants(t.Context(), "subject", "", 50)
		if err != nil || len(page.Items) != 50 || page.Next == "" {
			t.Fatalf("%d, %q, %v", len(page.Items), page.Next, err)
		}
		if n := s.trips.Load() - before; n != 2 {
			t.Errorf("a page of a list with %d more took %d round trips", more, n)
		}
	}
}

// TestEndGrants: the grants of one client end, or all, and those of others stay.
func TestEndGrants(t *testing.T) {
	s := newCounted(t)
	one, two := s.allow(t, "one", 130, time.Hour), s.allow(t, "two", 130, time.Hour)
	if n, err := s.EndGrants(t.Context(), "subject", "one", "test"); n != 130 || err != nil || s.alive(t, one...) != 0 || s.alive(t, two...) != 130 {
		t.Errorf("%d ended, %v; %d and %d are alive", n, err, s.alive(t, one...), s.alive(t, two...))
	}
	if n, err := s.EndGrants(t.Context(), "subject", "one", "test"); n != 0 || err != nil {
		t.Errorf("again: %d ended, %v", n, err)
	}
	if n, err := s.EndGrants(t.Context(), "other", "", "test"); n != 0 || err != nil || s.alive(t, two...) != 130 {
		t.Errorf("those of another person: %d ended, %v", n, err)
	}
	if n, err := s.EndGrants(t.Context(), "subject", "", "test"); n != 130 || err != nil || s.alive(t, two...) != 0 {
		t.Errorf("all: %d ended, %v, %d alive", n, err, s.alive(t, two...))
	}
	if ids, pages := s.walk(t, 10); len(ids) != 0 || pages != 1 {
		t.Errorf("the list still has %d on %d pages", len(ids), pages)
	}
}

// TestEndGrantsInParts: with a fault in the middle it says how many have ended, and repeating it
// ends the rest.
func TestEndGrantsInParts(t *testing.T) {
	s := newCounted(t)
	ids := s.allow(t, "client", 250, time.Hour)
	s.faults.DownAfter(120)
	n, err := s.EndGrants(t.Context(), "subject", "", "test")
	s.faults.SetDown(false)
	if !errors.Is(err, storage.ErrUnavailable) || n == 0 || n >= 250 {
		t.Fatalf("%d ended, %v", n, err)
	}
	if alive := s.alive(t, ids...); alive > 250-n {
		t.Errorf("%d are said to have ended and %d are alive", n, alive)
	}
	if _, err := s.EndGrants(t.Context(), "subject", "", "test"); err != nil || s.alive(t, ids...) != 0 {
		t.Errorf("repeated: %v, %d alive", err, s.alive(t, ids...))
	}
}

// TestEndGrantsForestalls: a grant that is listed and about to be stored never comes to life if it
// is of the client that ends, and does if it is of another.
func TestEndGrantsForestalls(t *testing.T) {
	for client, want := range map[string]error{"": storage.ErrConflict, "client": storage.ErrConflict, "another": nil} {
		s := newCounted(t)
		g, _, err := s.PrepareGrant(storage.NewGrant{ClientID: "client", Subject: "subject", CodeTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		entry := fmt.Sprintf("%08x%s", g.Created.Unix(), g.ID)
		for _, index := range []string{"gatehouse:user-grants:subject", "gatehouse:client-grants:client"} {
			if err := s.faults.IndexAdd(t.Context(), index, entry); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.EndGrants(t.Context(), "subject", client, "test"); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateGrant(t.Context(), g); !errors.Is(err, want) {
			t.Errorf("after ending %q the grant is stored with error %v, want %v", client, err, want)
		}
	}
}

// TestRecentSessions: sessions of an earlier epoch are not on the page.
func TestRecentSessions(t *testing.T) {
	s := newCounted(t)
	for i := range 9 {
		s.now.Add(1)
		session := storage.Session{Subject: "subject", Epoch: i % 3, AuthTime: time.Unix(s.now.Load(), 0), Expires: now().Add(time.Hour)}
		if err := s.CreateSession(t.Context(), fmt.Sprint(i), session); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.RecentSessions(t.Context(), "subject", 2, "", 2)
	if err != nil || len(page.Items) != 2 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := s.RecentSessions(t.Context(), "subject", 2, page.Next, 2)
	if err != nil || len(rest.Items) != 1 || rest.Next != "" || rest.Items[0].AuthTime.After(page.Items[1].AuthTime) {
		t.Errorf("%+v, %v", rest, err)
	}
	if again, err := s.SessionByID(t.Context(), rest.Items[0].ID()); err != nil || again.ID() != rest.Items[0].ID() {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestRecentConsents: pages of decisions, those of some clients, and forgetting all.
func TestRecentConsents(t *testing.T) {
	s := newCounted(t)
	for _, client := range []string{"a", "b", "c"} {
		s.now.Add(1)
		c := storage.Consent{Subject: "subject", ClientID: client, Given: []storage.Remembered{{RedirectHost: "app.example.org", At: now()}}}
		if err := s.PutConsent(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.RecentConsents(t.Context(), "subject", "", 2)
	if err != nil || len(page.Items) != 2 || page.Items[0].ClientID != "c" || page.Next == "" {
		t.Errorf("%+v, %v", page, err)
	}
	some, err := s.ConsentsOf(t.Context(), "subject", []string{"x", "b"})
	if err != nil || len(some) != 1 || some["b"].ClientID != "b" {
		t.Errorf("%+v, %v", some, err)
	}
	if err := s.ForgetConsents(t.Context(), "subject"); err != nil {
		t.Fatal(err)
	}
	if page, err = s.RecentConsents(t.Context(), "subject", "", 2); err != nil || len(page.Items) != 0 || page.Next != "" {
		t.Errorf("after forgetting: %+v, %v", page, err)
	}
}

// TestConsentsGivenAgain: a decision that is forgotten and given again, or that ends and is given again, is
// listed once, and its lists do not grow, neither that of the person nor that of the client. A decision of
// a record from before, which does not name its entry, is listed too.
func TestConsentsGivenAgain(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration
		again func(s *timed, ctx context.Context) error
		most  int // entries of a list
	}{
		"forgotten": {time.Hour, func(s *timed, ctx context.Context) error { return s.DeleteConsent(ctx, "subject", "client") }, 1},
		"ended":     {3 * time.Hour, func(*timed, context.Context) error { return nil }, 1},
		"forgotten, many times in a minute": {time.Second, func(s *timed, ctx context.Context) error {
			return s.DeleteConsent(ctx, "subject", "client")
		}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTimed(t)
			ctx := t.Context()
			for range 150 {
				s.now = s.now.Add(test.pause)
				given := storage.Remembered{RedirectHost: "app.example.org", At: s.now, Until: s.now.Add(2 * time.Hour)}
				mustDo(t, test.again(s, ctx), s.PutConsent(ctx, storage.Consent{Subject: "subject", ClientID: "client", Given: []storage.Remembered{given}}))
				mustDo(t, s.TidyConsents(ctx, "subject", "client"))
			}
			for _, list := range []string{"user-consents:subject", "client-consents:client"} {
				if n, err := s.backend.IndexLen(ctx, storage.KeyPrefix+list); err != nil || n > test.most {
					t.Errorf("%s has %d entries, %v; want at most %d", list, n, err, test.most)
				}
			}
			listed := 0
			for _, err := range s.Consents(ctx, "subject") {
				mustDo(t, err)
				listed++
			}
			page, err := s.RecentConsents(ctx, "subject", "", 100)
			mustDo(t, err)
			if listed != 1 || len(page.Items) != 1 {
				t.Errorf("it is listed %d times, and %d times on a page", listed, len(page.Items))
			}
			c := page.Items[0]
			c.Listed = time.Time{} // as a program of the release before leaves it
			mustDo(t, s.PutConsent(ctx, c))
			if page, err = s.RecentConsents(ctx, "subject", "", 100); err != nil || len(page.Items) == 0 {
				t.Errorf("without the time of its entry it is not listed: %v", err)
			}
		})
	}
}
