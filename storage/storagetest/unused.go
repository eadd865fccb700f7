package storagetest

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// unusedLife is the lifetime of an unused client in these tests.
const unusedLife = 7 * 24 * time.Hour

// unused stores unused clients of one software with an end, created a second apart.
func (f *fixture) unused(t *testing.T, software string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		f.clock.advance(time.Second)
		c := storage.Client{ID: id, Source: storage.ClientRegistered, Software: software, Created: f.clock.Now(), Expires: f.clock.Now().Add(unusedLife)}
		wantError(t, "CreateClient", f.CreateClient(t.Context(), c), nil)
	}
}

// bound calls BoundUnused, which must remove want clients.
func (f *fixture) bound(t *testing.T, software string, limit, want int) {
	t.Helper()
	removed, _, err := f.BoundUnused(t.Context(), storage.Bound{Software: software, Most: limit})
	wantError(t, "BoundUnused", err, nil)
	if removed != want {
		t.Errorf("BoundUnused of %q to %d removed %d; want %d", software, limit, removed, want)
	}
}

// wantGone checks that a client reads as not found, and the reason of its removal; empty if that
// is not on record any more.
func (f *fixture) wantGone(t *testing.T, id, because string) {
	t.Helper()
	_, err := f.Client(t.Context(), id)
	wantError(t, "Client "+id, err, storage.ErrNotFound)
	var removed *storage.RemovedError
	if errors.As(err, &removed); removed == nil && because != "" || removed != nil && removed.Because != because {
		t.Errorf("client %s is gone with error %v; want the reason %q", id, err, because)
	}
}

// testUnused: an unused client ends when its record says so, and its key soon after. The first
// use makes it stay, at once, and moves it to the other list.
func testUnused(t *testing.T, f *fixture) {
	f.unused(t, "s", "b", "a", "c")
	if ttl := f.backend.last(t).TTL; ttl < unusedLife || ttl > unusedLife+time.Hour {
		t.Errorf("the key of a client that ends in %v lives for %v", unusedLife, ttl)
	}
	f.wantClients(t, "as they registered", "b", "a", "c")
	f.wantIndexed(t, "the unused ones", clientsUnused, "b", "a", "c")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "b", "a", "c")
	f.wantIndexed(t, "the used ones", clientsByUse)
	for i, entry := range page(t, f.backend, clientsUnused, "", 10) {
		if want := page(t, f.backend, softwareUnused("s"), "", 10)[i] + "\x00s"; entry != want {
			t.Errorf("an entry is %q; want %q, which names the software", entry, want)
		}
	}

	before := f.client(t, "a")
	removals := f.backend.removals()
	f.wantWrites(t, "the first use", 1, func() { f.use(t, "a") })
	if ttl := f.backend.last(t).TTL; ttl != 0 {
		t.Errorf("the key of a client that was used lives for %v; want no end", ttl)
	}
	// The entry that names the other lists is removed last.
	wantEntries(t, "lists that it left", f.backend.removals()[len(removals):], softwareUnused("s"), clientsUnused)
	before.LastUsed, before.Expires = f.clock.Now(), time.Time{}
	wantSame(t, "the client that was used", f.client(t, "a"), before)
	f.wantClients(t, "after one was used", "b", "c", "a")
	used, err := clientIDs(f.UsedClients(t.Context()))
	wantError(t, "UsedClients", err, nil)
	wantEntries(t, "UsedClients", used, "a")
	f.wantIndexed(t, "the unused ones after the use", clientsUnused, "b", "c")
	f.wantIndexed(t, "those of the software after the use", softwareUnused("s"), "b", "c")

	f.clock.advance(unusedLife - 2*time.Second - time.Millisecond) // "b" ends a millisecond later
	f.client(t, "b")
	f.clock.advance(time.Millisecond)
	f.wantGone(t, "b", "")
	f.client(t, "c")
	f.clock.advance(time.Hour)
	f.wantGone(t, "c", "")
	wantError(t, "UseClient of one that has ended", f.UseClient(t.Context(), "c", f.clock.Now()), storage.ErrNotFound)
	f.wantClients(t, "when the others ended", "a")
	f.wantIndexed(t, "while their keys are there", clientsUnused, "b", "c") // our clock may be wrong
	f.clock.advance(-2 * time.Hour)
	f.wantClients(t, "with the right clock", "b", "c", "a")
	f.clock.advance(2 * time.Hour)
	f.backend.remove(t, clientKey("b"))
	f.backend.remove(t, clientKey("c"))
	f.wantClients(t, "when their keys are gone", "a")
	f.wantIndexed(t, "the unused ones in the end", clientsUnused)
	f.wantIndexed(t, "those of the software in the end", softwareUnused("s"))
}

// testFirstUse: whatever the time of the use and whatever message is lost, the first use makes a
// client stay and leaves it in one list.
func testFirstUse(t *testing.T, f *fixture) {
	f.unused(t, "s", "walked")
	f.faults.beforePut(func() { f.wantClients(t, "between the entry of a use and its record", "walked") })
	f.use(t, "walked")
	f.wantIndexed(t, "the used ones after somebody read them meanwhile", clientsByUse, "walked")
	f.unused(t, "s", "early", "never", "reply", "request", "end")
	for id, at := range map[string]time.Time{"early": f.clock.Now().Add(-time.Hour), "never": {}} {
		c := f.client(t, id)
		wantError(t, "UseClient "+id, f.UseClient(t.Context(), id, at), nil)
		if got := f.client(t, id); !got.Expires.IsZero() || !got.LastUsed.Equal(c.Created) {
			t.Errorf("%s: used at %v, ends at %v; want its creation, and no end", id, got.LastUsed, got.Expires)
		}
	}
	f.faults.LoseReplies(2)
	f.use(t, "reply")
	f.faults.LoseRequests(2)
	f.use(t, "request")
	f.faults.beforePut(func() { f.faults.LoseRequests(1) })
	wantUnavailable(t, "UseClient whose end is lost", f.UseClient(t.Context(), "end", f.clock.Now()))
	f.wantIndexed(t, "after the end of a use was lost", clientsUnused, "end")
	f.use(t, "end")
	f.wantClients(t, "all of them", "walked", "early", "never", "end", "reply", "request")
	for _, index := range []string{clientsUnused, softwareUnused("s")} {
		f.wantIndexed(t, index, index)
	}
	// A client without an end has the same entry before and after its first use.
	f.registered(t, "configured")
	f.use(t, "configured")
	if f.client(t, "configured").LastUsed.IsZero() {
		t.Error("the first use of a client that stays was not recorded")
	}
	f.wantClients(t, "with one that stays anyway", "walked", "early", "never", "end", "reply", "request", "configured")
}

// testUpdateClient: an update replaces the metadata of a client, and neither its creation, use
// and end nor its lists.
func testUpdateClient(t *testing.T, f *fixture) {
	f.unused(t, "s", "a", "b")
	f.use(t, "b")
	for _, id := range []string{"a", "b"} {
		read := f.client(t, id)
		f.clock.advance(time.Hour)
		changed := read
		changed.Metadata.ClientName, changed.RegistrationToken, changed.Disabled = "another name", storage.HashSecret("next"), true
		want := changed
		changed.ID, changed.Source, changed.Software = "c", storage.ClientConfigured, "another"
		changed.Created, changed.LastUsed, changed.Expires = f.clock.Now(), f.clock.Now(), f.clock.later()
		changed.Removed = &storage.Removal{Because: "test"}
		f.faults.LoseReplies(1)
		wantError(t, "UpdateClient", f.UpdateClient(t.Context(), changed), nil)
		wantSame(t, "the client after the update", f.client(t, id), want)
		if put := f.backend.last(t); read.Expires.IsZero() != (put.TTL == 0) || put.TTL > unusedLife || put.Listed != nil {
			t.Errorf("after the update its key lives for %v, and it was listed again: %q", put.TTL, put.Listed)
		}
		wantError(t, "UpdateClient of what was read before", f.UpdateClient(t.Context(), read), storage.ErrConflict)
		wantSame(t, "the client after a conflict", f.client(t, id), want)
	}
	f.wantClients(t, "after the updates", "a", "b")
	f.wantIndexed(t, "the unused ones", clientsUnused, "a")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "a")
	f.wantIndexed(t, "the used ones", clientsByUse, "b")
	f.wantWrites(t, "changing what was not read", 0, func() {
		wantError(t, "UpdateClient of what was not read", f.UpdateClient(t.Context(), storage.Client{ID: "new"}), storage.ErrConflict)
		wantError(t, "RemoveClient of what was not read", f.RemoveClient(t.Context(), storage.Client{ID: "new"}, "test"), storage.ErrConflict)
	})
	read := f.client(t, "a")
	f.backend.remove(t, clientKey("a"))
	wantError(t, "UpdateClient of one that is gone", f.UpdateClient(t.Context(), read), storage.ErrConflict)
	wantError(t, "RemoveClient of one that is gone", f.RemoveClient(t.Context(), read, "test"), storage.ErrConflict)
	f.wantGone(t, "a", "")
}

// testRemoveClient: a client that is removed reads as not found, with the reason as long as that
// is on record, and is not restored.
func testRemoveClient(t *testing.T, f *fixture) {
	f.unused(t, "s", "a", "b", "c")
	f.use(t, "b")
	read := map[string]storage.Client{}
	for _, id := range []string{"a", "b"} {
		read[id] = f.client(t, id)
		c := read[id]
		c.LastUsed, c.Software = time.Time{}, "" // what was read decides
		f.faults.LoseReplies(1)
		wantError(t, "RemoveClient", f.RemoveClient(t.Context(), c, "nobody likes it"), nil)
	}
	f.wantClients(t, "after two were removed", "c")
	f.wantIndexed(t, "the unused ones", clientsUnused, "c")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "c")
	f.wantIndexed(t, "the used ones", clientsByUse)
	_, err := f.Client(t.Context(), "a")
	var removed *storage.RemovedError
	if !errors.As(err, &removed) || !removed.At.Equal(f.clock.Now()) || removed.Because != "nobody likes it" {
		t.Errorf("Client returned error %v; want when and why it was removed", err)
	}
	for id, c := range read {
		wantError(t, "UpdateClient", f.UpdateClient(t.Context(), c), storage.ErrConflict)
		wantError(t, "RemoveClient again", f.RemoveClient(t.Context(), c, "test"), storage.ErrConflict)
		wantError(t, "CreateClient", f.CreateClient(t.Context(), c), storage.ErrConflict)
		wantError(t, "UseClient", f.UseClient(t.Context(), id, f.clock.Now()), storage.ErrNotFound)
		f.wantGone(t, id, "nobody likes it")
	}
	f.wantClients(t, "after nothing brought them back", "c")
	f.clock.advance(time.Hour)
	f.wantGone(t, "a", "")
	f.wantGone(t, "b", "nobody likes it")
	f.clock.advance(30*24*time.Hour - time.Hour)
	f.wantGone(t, "b", "")
}

// testRemoveLost: a removal whose outcome was unknown has one outcome, and the next attempt
// returns it.
func testRemoveLost(t *testing.T, f *fixture) {
	f.unused(t, "s", "reply", "request", "end", "kept")
	lost := map[string]struct {
		lose func(int)
		want bool
	}{"reply": {f.faults.LoseReplies, true}, "request": {f.faults.LoseRequests, false}}
	for id, test := range lost {
		c := f.client(t, id)
		ctx, cancel := f.untilLost(t)
		test.lose(1 << 30)
		wantUnavailable(t, "RemoveClient with a lost "+id, f.RemoveClient(ctx, c, "test"))
		test.lose(0)
		cancel()
		err := f.RemoveClient(t.Context(), c, "test")
		if test.want {
			wantError(t, "RemoveClient again", err, storage.ErrConflict)
		} else {
			wantError(t, "RemoveClient again", err, nil)
		}
		f.wantGone(t, id, "test")
	}
	f.faults.beforePut(func() { f.faults.LoseRequests(1) })
	wantUnavailable(t, "RemoveClient whose end is lost", f.RemoveClient(t.Context(), f.client(t, "end"), "test"))
	f.wantGone(t, "end", "test")
	f.wantIndexed(t, "after the end of removals was lost", clientsUnused, "reply", "end", "kept")
	f.wantClients(t, "whatever was lost", "kept")
	f.wantIndexed(t, "when that was read", clientsUnused, "kept")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "kept")
}

// testBoundUnused: the oldest unused clients are removed, of one software or of all, and none
// that was used or has no end.
func testBoundUnused(t *testing.T, f *fixture) {
	f.bound(t, "", 0, 0)
	f.registered(t, "stays")
	f.unused(t, "s", "s1", "s2", "s3", "s4")
	f.unused(t, "r", "r1", "r2")
	f.unused(t, "", "n1")
	f.use(t, "s1")
	f.bound(t, "s", 3, 0)
	f.bound(t, "s", 2, 1)
	f.wantGone(t, "s2", "too many others like it were registered after it, and it had not been used")
	f.wantClients(t, "after one software was bound", "s3", "s4", "r1", "r2", "n1", "stays", "s1")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "s3", "s4")
	f.bound(t, "", 2, 3)
	f.wantClients(t, "after all were bound", "r2", "n1", "stays", "s1")
	f.wantIndexed(t, "the software that has none", softwareUnused("s"))
	f.wantIndexed(t, "the other software", softwareUnused("r"), "r2")
	f.bound(t, "nobody's", 0, 0)
	f.bound(t, "", -1, 2)
	f.wantClients(t, "when none may be unused", "stays", "s1")

	var many []string
	for i := range 250 {
		many = append(many, name("client %03d", i))
	}
	f.unused(t, "s", many...)
	f.bound(t, "s", 20, 230)
	f.wantIndexed(t, "after more than two pages", clientsUnused, many[230:]...)
}

// testBoundUnusedMeanwhile: a client that changes while it is being removed is read again: one
// that was used stays.
func testBoundUnusedMeanwhile(t *testing.T, f *fixture) {
	f.unused(t, "s", "used", "updated", "removed", "new")
	f.faults.beforePut(func() { f.use(t, "used") })
	f.bound(t, "s", 3, 0)
	f.wantClients(t, "with one that was used meanwhile", "updated", "removed", "new", "used")
	f.faults.beforePut(func() { wantError(t, "UpdateClient", f.UpdateClient(t.Context(), f.client(t, "updated")), nil) })
	f.bound(t, "", 2, 1)
	f.wantClients(t, "with one that was updated meanwhile", "removed", "new", "used")
	f.faults.beforePut(func() { wantError(t, "RemoveClient", f.RemoveClient(t.Context(), f.client(t, "removed"), "test"), nil) })
	f.bound(t, "", 1, 0)
	f.wantGone(t, "removed", "test")
	f.wantClients(t, "with one that was removed meanwhile", "new", "used")
	for _, index := range []string{clientsUnused, softwareUnused("s")} {
		f.wantIndexed(t, index, index, "new")
	}
	// Entries are written before records: a young one without a record is left alone.
	f.faults.beforePut(func() { f.bound(t, "", 0, 1) })
	f.unused(t, "s", "born")
	f.wantClients(t, "with one that was being made", "born", "used")
}

// testBoundUnusedStale: entries of clients that are gone are removed with those of their
// software, also when there are few; a record that cannot be read stays and is reported.
func testBoundUnusedStale(t *testing.T, f *fixture) {
	f.unused(t, "s", "a")
	f.unused(t, "r", "b", "c", "d")
	stale := page(t, f.backend, clientsUnused, "", 10)
	f.backend.remove(t, clientKey("a"))
	f.use(t, "b")
	fill(t, f.backend, clientsUnused, stale[1]) // as if its removal had been lost
	f.bound(t, "", 10, 0)
	f.wantIndexed(t, "a young entry without a client", clientsUnused, "a", "b", "c", "d")
	f.clock.advance(time.Minute)
	f.bound(t, "", 10, 0)
	f.wantIndexed(t, "a minute later", clientsUnused, "c", "d")
	f.wantIndexed(t, "the software of which none is left", softwareUnused("s"))
	f.client(t, "b")
	fill(t, f.backend, clientsUnused, stale[:2]...)
	f.bound(t, "", 1, 1) // two entries and a client too many
	f.wantClients(t, "when too many were stale", "d", "b")

	f.unused(t, "s", "e", "f")
	kept := f.backend.item(t, clientKey("d"))
	f.backend.overwrite(t, clientKey("d"), append([]byte{3}, kept.Data[1:]...))
	removed, _, err := f.BoundUnused(t.Context(), storage.Bound{Most: 2})
	wantError(t, "BoundUnused with one that cannot be read", err, storage.ErrRecord)
	if removed != 0 {
		t.Errorf("with one that cannot be read %d were removed; want 0", removed)
	}
	removed, _, err = f.BoundUnused(t.Context(), storage.Bound{Most: 0})
	wantError(t, "BoundUnused with one that cannot be read", err, storage.ErrRecord)
	if got := f.backend.item(t, clientKey("d")); removed != 2 || got.Data[0] != 3 {
		t.Errorf("%d were removed, and what cannot be read has version %d", removed, got.Data[0])
	}
	f.wantIndexed(t, "what cannot be read", clientsUnused, "d")
}

// raceUseAgainstRemove: of a use and a removal one wins: a removal that read the client before a
// recorded use fails, and so does a use of a removed client.
func raceUseAgainstRemove(t *testing.T, f *fixture) {
	id := unique("client")
	f.unused(t, "s", id)
	read := f.client(t, id)
	errs := together(runners, func(i int) error {
		if i%2 == 0 {
			return f.UseClient(t.Context(), id, f.clock.Now())
		}
		return f.RemoveClient(t.Context(), read, "race")
	})
	used, removed := 0, 0
	for i, err := range errs {
		switch {
		case err == nil && i%2 == 0:
			used++
		case err == nil:
			removed++
		case i%2 == 0:
			wantError(t, "UseClient", err, storage.ErrNotFound)
		default:
			wantError(t, "RemoveClient", err, storage.ErrConflict)
		}
	}
	_, err := f.Client(t.Context(), id)
	if there := err == nil; removed > 1 || there != (removed == 0) || there != (used == runners/2) || !there && used > 0 {
		t.Errorf("%d uses and %d removals of a client succeeded, and it reads with error %v", used, removed, err)
	}
}

// raceRemoveClient: of many removals exactly one wins.
func raceRemoveClient(t *testing.T, f *fixture) {
	id := unique("client")
	f.unused(t, "s", id)
	read := f.client(t, id)
	errs := together(runners, func(i int) error { return f.RemoveClient(t.Context(), read, name("runner %d", i)) })
	f.wantGone(t, id, name("runner %d", wantOneWinner(t, errs, storage.ErrConflict)))
}

// raceBoundUnused: however many calls bound a list while clients register and are used, those
// that were used stay, so do the newest of the others, and no list has more entries.
func raceBoundUnused(t *testing.T, f *fixture) {
	const limit = 5
	software := unique("software")
	ids := make([]string, runners)
	for i := range ids {
		ids[i] = name("%s %02d", software, i)
	}
	f.unused(t, software, ids...)
	used := make([]bool, runners)
	errs := together(2*runners, func(i int) (err error) {
		if i%2 == 0 {
			_, _, err = f.BoundUnused(t.Context(), storage.Bound{Software: software, Most: limit})
			return err
		}
		if i%8 != 7 {
			return nil
		}
		err = f.UseClient(t.Context(), ids[i/2], f.clock.Now())
		used[i/2] = err == nil
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return err
	})
	wantError(t, "bounding and using", errors.Join(errs...), nil)
	_, _, err := f.BoundUnused(t.Context(), storage.Bound{Software: software, Most: limit})
	wantError(t, "BoundUnused", err, nil)
	var want []string
	for i, id := range ids {
		c, err := f.Client(t.Context(), id)
		switch {
		case used[i] && (err != nil || c.LastUsed.IsZero()):
			t.Errorf("client %d was used and reads with error %v, last used at %v", i, err, c.LastUsed)
		case !used[i] && err == nil:
			want = append(want, id)
		case i >= runners-limit && err != nil:
			t.Errorf("client %d is one of the newest and reads with error %v", i, err)
		}
	}
	f.wantIndexed(t, "the list", softwareUnused(software), want...)
	if len(want) > limit {
		t.Errorf("%d unused clients are left; want at most %d", len(want), limit)
	}
}
