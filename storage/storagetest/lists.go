package storagetest

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// grantIDs returns the ids of a list of grants.
func grantIDs(list iter.Seq2[storage.Grant, error]) (ids []string, err error) {
	for g, e := range list {
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		ids = append(ids, g.ID)
	}
	return ids, err
}

func wantGrants(t *testing.T, what string, list iter.Seq2[storage.Grant, error], want ...string) {
	t.Helper()
	got, err := grantIDs(list)
	wantError(t, what, err, nil)
	wantEntries(t, what, got, want...)
}

// wantIndexed checks the ids in an index of the backend. An entry is a time in seconds, as eight
// digits, and an id; more may follow behind a NUL.
func (f *fixture) wantIndexed(t *testing.T, what, index string, want ...string) {
	t.Helper()
	var got []string
	for _, entry := range page(t, f.backend, index, "", 1000) {
		id, _, _ := strings.Cut(entry[8:], "\x00")
		got = append(got, id)
	}
	wantEntries(t, what, got, want...)
}

// granted returns n stored grants of one person and one client, created a second apart. Their
// codes are valid for an hour.
func (f *fixture) granted(t *testing.T, n int) (grants []storage.Grant, ids []string) {
	t.Helper()
	subject, client := unique("subject"), unique("client")
	for range n {
		f.clock.advance(time.Second)
		g, _ := f.prepare(t, true)
		g.Subject, g.ClientID, g.Expires = subject, client, f.clock.later()
		wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
		g.Lineage = f.lineage(t)
		grants, ids = append(grants, g), append(ids, g.ID)
	}
	return grants, ids
}

// testGrantLists: a list holds the grants of one person or client in the order of creation,
// whatever their state, and no others.
func testGrantLists(t *testing.T, f *fixture) {
	wantGrants(t, "the grants of nobody", f.UserGrants(t.Context(), "nobody"))
	mine, ids := f.granted(t, 3)
	f.clock.advance(time.Second)
	elsewhere, _ := f.prepare(t, true) // the same person, another client
	elsewhere.Subject = mine[0].Subject
	f.clock.advance(time.Second)
	somebody, _ := f.prepare(t, false) // the same client, another person
	somebody.ClientID = mine[0].ClientID
	for _, g := range []storage.Grant{somebody, elsewhere} { // stored in another order than created
		wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
	}
	somebody = f.read(t, somebody.ID)
	f.active(t)
	redeemed, err := f.Redeem(t.Context(), f.read(t, ids[2]), f.life())
	wantError(t, "Redeem", err, nil)
	_, err = f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate", err, nil)
	wantError(t, "Revoke", f.Revoke(t.Context(), ids[0], "test"), nil)
	for range 2 {
		wantGrants(t, "the person's", f.UserGrants(t.Context(), mine[0].Subject), ids[0], ids[1], ids[2], elsewhere.ID)
		wantGrants(t, "the client's", f.ClientGrants(t.Context(), mine[0].ClientID), ids[0], ids[1], ids[2], somebody.ID)
	}
	for g, err := range f.UserGrants(t.Context(), mine[0].Subject) {
		wantError(t, "UserGrants", err, nil)
		wantSame(t, "UserGrants", g, f.read(t, g.ID))
	}
	// Revoking all grants of a list empties it, and leaves the other lists as they are.
	wantError(t, "RevokeUser", f.RevokeUser(t.Context(), mine[0].Subject, "test"), nil)
	wantGrants(t, "the person's after RevokeUser", f.UserGrants(t.Context(), mine[0].Subject))
	wantGrants(t, "the client's after RevokeUser", f.ClientGrants(t.Context(), mine[0].ClientID), ids[0], ids[1], ids[2], somebody.ID)
	wantSame(t, "a grant of somebody else", f.read(t, somebody.ID), somebody)
}

// testGrantListsPages: a list is read page by page, and only as far as the caller iterates.
func testGrantListsPages(t *testing.T, f *fixture) {
	const full = 100
	grants, ids := f.granted(t, full+3)
	subject, client := grants[0].Subject, grants[0].ClientID
	wantGrants(t, "more than a page", f.UserGrants(t.Context(), subject), ids...)
	for _, id := range ids[full:] {
		f.backend.remove(t, grantKey(id))
	}
	f.clock.advance(time.Minute)
	for range 2 {
		wantGrants(t, "a full page", f.ClientGrants(t.Context(), client), ids[:full]...)
	}
	f.wantIndexed(t, "the index", clientGrants(client), ids[:full]...)
	for g, err := range f.UserGrants(t.Context(), subject) {
		if err != nil || g.ID != ids[0] {
			t.Errorf("the first is %q, %v; want %q", g.ID, err, ids[0])
		}
		break
	}
	f.wantIndexed(t, "a list that was not read to its end", userGrants(subject), ids...)
}

// testGrantListsStale: the entries of grants that are gone are removed when a list is read. Those
// of grants that are there stay, also when they have expired by a clock that is ahead.
func testGrantListsStale(t *testing.T, f *fixture) {
	grants, ids := f.granted(t, 4)
	subject, client := grants[0].Subject, grants[0].ClientID
	_, err := f.Redeem(t.Context(), f.read(t, ids[3]), f.life())
	wantError(t, "Redeem", err, nil)
	f.backend.remove(t, grantKey(ids[0]))
	f.backend.remove(t, grantKey(ids[2]))
	f.clock.advance(time.Hour) // the code of the second has expired, its key is there
	wantGrants(t, "the person's", f.UserGrants(t.Context(), subject), ids[3])
	f.wantIndexed(t, "the person's index", userGrants(subject), ids[1], ids[3])
	f.wantIndexed(t, "an index that nobody read", clientGrants(client), ids...)
	wantGrants(t, "the client's", f.ClientGrants(t.Context(), client), ids[3])
	f.wantIndexed(t, "the client's index", clientGrants(client), ids[1], ids[3])
	f.clock.advance(-time.Hour)
	wantGrants(t, "with the right clock", f.UserGrants(t.Context(), subject), ids[1], ids[3])
}

// testGrantListsYoung: the entry of a grant that is about to be stored stays, so that no
// revocation of all grants of a person misses it.
func testGrantListsYoung(t *testing.T, f *fixture) {
	g, _ := f.prepare(t, true)
	read := func(what string) {
		t.Helper()
		wantGrants(t, what, f.UserGrants(t.Context(), g.Subject))
		wantGrants(t, what, f.ClientGrants(t.Context(), g.ClientID))
		wantError(t, "TidyGrants", f.TidyGrants(t.Context(), g.Subject, g.ClientID), nil)
	}
	f.faults.beforePut(func() {
		read("a grant between its entry and its record")
		f.clock.advance(time.Minute - time.Millisecond)
		read("nearly a minute later")
	})
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
	wantGrants(t, "when it is stored", f.UserGrants(t.Context(), g.Subject), g.ID)
	wantGrants(t, "when it is stored", f.ClientGrants(t.Context(), g.ClientID), g.ID)

	f.backend.remove(t, grantKey(g.ID))
	read("a young grant that is gone")
	f.wantIndexed(t, "the entry of a young grant", userGrants(g.Subject), g.ID)
	f.clock.advance(time.Second)
	read("a grant that is gone for good")
	f.wantIndexed(t, "the person's index", userGrants(g.Subject))
	f.wantIndexed(t, "the client's index", clientGrants(g.ClientID))
}

// testGrantListsOld: entries from before lists were ordered by time are the id alone. They are
// listed and revoked, and reading does not remove them, because their age is unknown.
func testGrantListsOld(t *testing.T, f *fixture) {
	grants, ids := f.granted(t, 4)
	subject, client := grants[0].Subject, grants[0].ClientID
	for _, index := range []string{userGrants(subject), clientGrants(client)} {
		for _, entry := range page(t, f.backend, index, "", 10)[:3] {
			wantError(t, "IndexRemove", f.backend.IndexRemove(t.Context(), index, entry), nil)
			fill(t, f.backend, index, entry[8:])
		}
	}
	f.backend.remove(t, grantKey(ids[2]))
	f.clock.advance(50 * time.Second)
	for list, want := range map[string][]string{"the person's": {ids[0], ids[1], ids[3]}, "the client's": {ids[0], ids[1], ids[3]}} {
		walk := map[string]iter.Seq2[storage.Grant, error]{"the person's": f.UserGrants(t.Context(), subject), "the client's": f.ClientGrants(t.Context(), client)}[list]
		got, err := grantIDs(walk)
		wantError(t, list, err, nil)
		slices.Sort(got)
		slices.Sort(want)
		wantEntries(t, list, got, want...)
	}
	f.clock.advance(time.Hour)
	wantGrants(t, "when all have expired", f.UserGrants(t.Context(), subject))
	wantError(t, "TidyGrants", f.TidyGrants(t.Context(), subject, client), nil)
	if got := page(t, f.backend, userGrants(subject), "", 10); len(got) != 4 {
		t.Errorf("the index holds %q; want all four entries", got)
	}
	f.clock.advance(-time.Hour)
	wantError(t, "RevokeUser", f.RevokeUser(t.Context(), subject, "test"), nil)
	for _, i := range []int{0, 1, 3} {
		f.wantRevoked(t, grants[i])
	}
	wantEntries(t, "the person's index", page(t, f.backend, userGrants(subject), "", 10))
	wantError(t, "RevokeClient", f.RevokeClient(t.Context(), client, "test"), nil)
	wantEntries(t, "the client's index", page(t, f.backend, clientGrants(client), "", 10))
}

// testGrantListsUnread: a record that cannot be read is reported, keeps its entry, and hides no
// other.
func testGrantListsUnread(t *testing.T, f *fixture) {
	grants, ids := f.granted(t, 3)
	subject := grants[0].Subject
	f.backend.overwrite(t, grantKey(ids[1]), []byte{3})
	f.clock.advance(50 * time.Second)
	got, err := grantIDs(f.UserGrants(t.Context(), subject))
	wantError(t, "UserGrants", err, storage.ErrRecord)
	wantEntries(t, "those that can be read", got, ids[0], ids[2])
	f.clock.advance(time.Hour)
	wantError(t, "TidyGrants", f.TidyGrants(t.Context(), subject, grants[0].ClientID), nil)
	f.wantIndexed(t, "the index", userGrants(subject), ids...)

	f.clock.advance(-time.Hour)
	for down, want := range map[string]int{"from the beginning": 1, "after one grant": 2} {
		f.faults.SetDown(want == 1)
		calls := 0
		for g, err := range f.UserGrants(t.Context(), subject) {
			if calls++; calls < want {
				wantError(t, "UserGrants", err, nil)
				f.faults.SetDown(true)
				continue
			}
			wantUnavailable(t, "UserGrants", err)
			if g.ID != "" {
				t.Errorf("down %s: the list goes on with %q", down, g.ID)
			}
		}
		f.faults.SetDown(false)
		if calls != want {
			t.Errorf("down %s: the list had %d entries; want %d and then nothing", down, calls, want)
		}
	}
}

// testTidyGrants: tidying checks the oldest entries of both lists, and removes those of grants
// that are gone.
func testTidyGrants(t *testing.T, f *fixture) {
	grants, ids := f.granted(t, 8)
	subject, client := grants[0].Subject, grants[0].ClientID
	tidy := func() {
		t.Helper()
		sent := f.faults.Puts()
		wantError(t, "TidyGrants", f.TidyGrants(t.Context(), subject, client), nil)
		if n := f.faults.Puts() - sent; n != 0 {
			t.Errorf("tidying wrote %d records", n)
		}
	}
	both := func(what string, want ...string) {
		t.Helper()
		f.wantIndexed(t, what+": the person's index", userGrants(subject), want...)
		f.wantIndexed(t, what+": the client's index", clientGrants(client), want...)
	}
	wantError(t, "Revoke", f.Revoke(t.Context(), ids[1], "test"), nil)
	f.clock.advance(time.Hour)
	tidy()
	both("grants that are there, revoked or expired", ids...)
	for _, id := range ids {
		if id != ids[1] {
			f.backend.remove(t, grantKey(id))
		}
	}
	f.faults.SetDown(true)
	wantUnavailable(t, "TidyGrants", f.TidyGrants(t.Context(), subject, client))
	f.faults.SetDown(false)
	both("while the store is down", ids...)
	wantError(t, "TidyGrants of others", f.TidyGrants(t.Context(), "nobody", "nothing"), nil)
	both("when others are tidied", ids...)
	tidy()
	both("the first time", ids[1], ids[4], ids[5], ids[6], ids[7])
	tidy()
	both("the second time", ids[1], ids[7])
	tidy()
	both("the third time", ids[1])
	tidy()
	both("the last time", ids[1])
}

// testGrantsCounted: the grants in the lists of all people are counted page by page, with those that
// are new and without those that were revoked; a scan or a list of all is not needed.
func testGrantsCounted(t *testing.T, f *fixture) {
	count := func(limit int) (sum int) {
		t.Helper()
		for after, first := "", true; first || after != ""; first = false {
			n, next, err := f.ListedGrants(t.Context(), after, limit)
			wantError(t, "ListedGrants", err, nil)
			sum, after = sum+n, next
		}
		return sum
	}
	before := count(1000) // the backend may be shared with other tests
	var subjects []string
	for i := range 5 {
		mine, _ := f.granted(t, i)
		subject := unique("subject")
		if i > 0 {
			subject = mine[0].Subject
		}
		subjects = append(subjects, subject)
		wantError(t, "CreateUser", f.CreateUser(t.Context(), storage.User{Name: unique("person"), Subject: subject}), nil)
	}
	for _, limit := range []int{1, 2, 5, 1000} {
		if got := count(limit) - before; got != 10 {
			t.Errorf("%d grants of 10 are counted, %d people at a time", got, limit)
		}
	}
	wantError(t, "RevokeUser", f.RevokeUser(t.Context(), subjects[4], "test"), nil)
	if got := count(2) - before; got != 6 {
		t.Errorf("%d grants of 6 are counted after a revocation", got)
	}
}
