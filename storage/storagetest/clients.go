package storagetest

import (
	"errors"
	"iter"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// clientIDs returns the ids of a list of clients.
func clientIDs(list iter.Seq2[storage.Client, error]) (ids []string, err error) {
	for c, e := range list {
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		ids = append(ids, c.ID)
	}
	return ids, err
}

// wantClients checks the list of clients, and that every entry of its index names one of them.
func (f *fixture) wantClients(t *testing.T, what string, want ...string) {
	t.Helper()
	got, err := clientIDs(f.Clients(t.Context()))
	wantError(t, what, err, nil)
	wantEntries(t, what, got, want...)
}

// registered stores unused clients without an end, a second apart.
func (f *fixture) registered(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		f.clock.advance(time.Second)
		c := storage.Client{ID: id, Source: storage.ClientRegistered, Secret: storage.HashSecret(id), Created: f.clock.Now(), Disabled: id == "b"}
		wantError(t, "CreateClient", f.CreateClient(t.Context(), c), nil)
	}
}

// registeredUsed stores clients and uses each at once.
func (f *fixture) registeredUsed(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		f.registered(t, id)
		f.use(t, id)
	}
}

// use records that a client is used now.
func (f *fixture) use(t *testing.T, id string) {
	t.Helper()
	wantError(t, "UseClient", f.UseClient(t.Context(), id, f.clock.Now()), nil)
}

func (f *fixture) client(t *testing.T, id string) storage.Client {
	t.Helper()
	c, err := f.Client(t.Context(), id)
	if err != nil {
		t.Fatalf("Client %q: %v", id, err)
	}
	return c
}

// testClients: clients are listed by their last use, the longest unused first; an unused one by
// its creation.
func testClients(t *testing.T, f *fixture) {
	f.wantClients(t, "before there is any")
	f.registered(t, "b", "c", "a")
	f.wantClients(t, "as they registered", "b", "c", "a")
	before := f.client(t, "b")
	f.clock.advance(25 * time.Hour)
	f.use(t, "b")
	f.clock.advance(time.Second)
	f.use(t, "c")
	f.wantClients(t, "after two were used", "a", "b", "c")
	f.wantIndexed(t, "the index", clientsByUse, "a", "b", "c")
	before.LastUsed = f.clock.Now().Add(-time.Second)
	wantSame(t, "the client that was used", f.client(t, "b"), before)
	for c, err := range f.Clients(t.Context()) {
		wantError(t, "Clients", err, nil)
		wantSame(t, "Clients", c, f.client(t, c.ID))
	}
	// A client from before there were lists is not listed until it is used.
	f.registered(t, "old")
	f.edit(t, clientKey("old"), func(members map[string]any) { delete(members, "last_used") })
	wantError(t, "IndexRemove", f.backend.IndexRemove(t.Context(), clientsByUse, page(t, f.backend, clientsByUse, "", 10)[3]), nil)
	f.wantClients(t, "without the old one", "a", "b", "c")
	f.clock.advance(time.Second)
	f.use(t, "old")
	f.wantClients(t, "when the old one was used", "a", "b", "c", "old")
}

func testClientsPages(t *testing.T, f *fixture) {
	var ids []string
	for i := range 103 {
		ids = append(ids, name("client %03d", i))
	}
	f.registered(t, ids...)
	f.wantClients(t, "two pages", ids...)
	f.clock.advance(25 * time.Hour)
	f.use(t, ids[50])
	moved := append(append(ids[:50:50], ids[51:]...), ids[50])
	f.wantClients(t, "after one was used", moved...)
	for c, err := range f.Clients(t.Context()) {
		if err != nil || c.ID != ids[0] {
			t.Errorf("the longest unused is %q, %v; want %q", c.ID, err, ids[0])
		}
		break
	}
}

// wantWrites checks the number of writes of an operation.
func (f *fixture) wantWrites(t *testing.T, what string, want int, do func()) {
	t.Helper()
	before := f.faults.Puts()
	do()
	if n := f.faults.Puts() - before; n != want {
		t.Errorf("%s: %d writes; want %d", what, n, want)
	}
}

// testClientUse: a use costs one write a day, however many uses there are, and however many
// processes record it.
func testClientUse(t *testing.T, f *fixture) {
	f.registeredUsed(t, "a", "c")
	c := f.client(t, "a")
	for what, at := range map[string]time.Time{
		"again when it was used": c.Created, "before that": c.Created.Add(-48 * time.Hour), "an hour later": c.Created.Add(time.Hour),
		"nearly a day later": c.Created.Add(storage.UseStep - time.Millisecond), "never": {},
	} {
		f.wantWrites(t, what, 0, func() { wantError(t, what, f.UseClient(t.Context(), "a", at), nil) })
	}
	f.wantIndexed(t, "the index", clientsByUse, "a", "c")
	f.clock.advance(storage.UseStep - time.Second) // the other client was used a second later
	f.wantWrites(t, "a day later", 1, func() { f.use(t, "a") })
	f.wantWrites(t, "and again", 0, func() { f.use(t, "a") })
	f.wantIndexed(t, "the index after a day", clientsByUse, "c", "a")

	// Many processes record different uses.
	f.clock.advance(48 * time.Hour)
	errs := together(runners, func(i int) error {
		return f.UseClient(t.Context(), []string{"a", "c"}[i%2], f.clock.Now().Add(time.Duration(i)*time.Second))
	})
	wantError(t, "many uses", errors.Join(errs...), nil)
	f.clock.advance(runners*time.Second + time.Minute)
	got, err := clientIDs(f.Clients(t.Context()))
	if err != nil || len(got) != 2 || got[0] == got[1] {
		t.Errorf("after many uses the list is %q, %v; want each of two clients once", got, err)
	}
	f.wantIndexed(t, "the index after many uses", clientsByUse, got...)
}

// testClientUseRefused: a use neither restores a client nor creates one.
func testClientUseRefused(t *testing.T, f *fixture) {
	f.wantWrites(t, "the use of a client that is not there", 0, func() {
		wantError(t, "UseClient of nobody", f.UseClient(t.Context(), "nobody", f.clock.Now()), storage.ErrNotFound)
	})
	f.registeredUsed(t, "a", "c")
	f.clock.advance(48 * time.Hour)
	f.faults.beforePut(func() { f.backend.remove(t, clientKey("a")) })
	wantError(t, "UseClient of one that is removed meanwhile", f.UseClient(t.Context(), "a", f.clock.Now()), storage.ErrNotFound)
	_, err := f.Client(t.Context(), "a")
	wantError(t, "Client that was removed while it was used", err, storage.ErrNotFound)
	f.wantClients(t, "without it", "c")
	f.wantIndexed(t, "a young entry", clientsByUse, "c", "a")
	f.clock.advance(time.Minute)
	f.wantClients(t, "a minute later", "c")
	f.wantIndexed(t, "the index a minute later", clientsByUse, "c")

	f.clock.advance(48 * time.Hour)
	kept := f.backend.item(t, clientKey("c"))
	f.backend.overwrite(t, clientKey("c"), append([]byte{3}, kept.Data[1:]...))
	wantError(t, "UseClient of one that cannot be read", f.UseClient(t.Context(), "c", f.clock.Now()), storage.ErrRecord)
	if got := f.backend.item(t, clientKey("c")); got.Data[0] != 3 {
		t.Error("a record that cannot be read was overwritten")
	}
}

// testClientUseLost: whatever request or reply of a use is lost, each client is listed once.
func testClientUseLost(t *testing.T, f *fixture) {
	f.registeredUsed(t, "a", "c")
	for what, lose := range map[string]func(int){"reply": f.faults.LoseReplies, "request": f.faults.LoseRequests} {
		f.clock.advance(25 * time.Hour)
		lose(1)
		before := f.Retries()
		f.use(t, "a")
		if again := f.Retries() - before; again != 1 {
			t.Errorf("after a lost %s %d writes were sent again", what, again)
		}
		f.wantIndexed(t, "after a lost "+what, clientsByUse, "c", "a")
		f.wantClients(t, "after a lost "+what, "c", "a")
	}
	for what, lose := range map[string]func(int){"replies": f.faults.LoseReplies, "requests": f.faults.LoseRequests} {
		f.clock.advance(25 * time.Hour)
		ctx, cancel := f.untilLost(t)
		lose(1 << 30)
		wantUnavailable(t, "UseClient with lost "+what, f.UseClient(ctx, "a", f.clock.Now()))
		lose(0)
		cancel()
		f.wantClients(t, "with lost "+what, "c", "a")
		f.clock.advance(time.Minute)
		f.wantClients(t, "a minute after lost "+what, "c", "a")
		f.wantIndexed(t, "a minute after lost "+what, clientsByUse, "c", "a")
	}
	// The use is recorded and the old entry stays: reading the list removes it.
	f.clock.advance(25 * time.Hour)
	f.faults.beforePut(func() { f.faults.LoseRequests(1) })
	wantUnavailable(t, "UseClient whose end is lost", f.UseClient(t.Context(), "c", f.clock.Now()))
	f.wantIndexed(t, "after the end of a use was lost", clientsByUse, "c", "a", "c")
	f.wantClients(t, "after the end of a use was lost", "a", "c")
	f.wantIndexed(t, "when that was read", clientsByUse, "a", "c")
}

// testClientsStale: entries that name no client, or another time than that of its last use, are
// removed when the list is read, unless they are young.
func testClientsStale(t *testing.T, f *fixture) {
	f.registeredUsed(t, "a", "b", "c", "d")
	stale := page(t, f.backend, clientsByUse, "", 10)
	f.clock.advance(25 * time.Hour)
	f.use(t, "a")
	fill(t, f.backend, clientsByUse, stale[0]) // as if its removal had been lost
	f.backend.remove(t, clientKey("b"))
	f.clock.advance(time.Second)
	f.registeredUsed(t, "e", "f")
	f.backend.remove(t, clientKey("e"))
	f.wantClients(t, "at once", "c", "d", "a", "f")
	f.wantIndexed(t, "at once", clientsByUse, "c", "d", "a", "e", "f")
	f.clock.advance(time.Minute)
	f.wantClients(t, "a minute later", "c", "d", "a", "f")
	f.wantIndexed(t, "a minute later", clientsByUse, "c", "d", "a", "f")

	f.backend.overwrite(t, clientKey("c"), []byte{3})
	got, err := clientIDs(f.Clients(t.Context()))
	wantError(t, "Clients with one that cannot be read", err, storage.ErrRecord)
	wantEntries(t, "those that can be read", got, "d", "a", "f")
	f.wantIndexed(t, "nothing is forgotten that is there", clientsByUse, "c", "d", "a", "f")
}

// testBeginUse: a use of a client that was read costs one write. Removing it from the lists of
// unused clients is done later, or by reading them.
func testBeginUse(t *testing.T, f *fixture) {
	f.unused(t, "s", "a", "b")
	c, err := f.Client(t.Context(), "a")
	wantError(t, "Client", err, nil)
	before := f.faults.Puts()
	rest, err := f.BeginUse(t.Context(), c, f.clock.Now())
	wantError(t, "BeginUse", err, nil)
	if n := f.faults.Puts() - before; n != 1 || rest == nil {
		t.Fatalf("%d writes, something left: %t; want 1, true", n, rest != nil)
	}
	f.wantIndexed(t, "the unused ones before the rest is done", clientsUnused, "a", "b")
	f.wantIndexed(t, "the used ones", clientsByUse, "a")
	wantError(t, "the rest", rest(t.Context()), nil)
	f.wantIndexed(t, "the unused ones when it is done", clientsUnused, "b")
	f.wantIndexed(t, "those of the software", softwareUnused("s"), "b")
	f.clock.advance(time.Minute)
	again, err := f.BeginUse(t.Context(), c, f.clock.Now()) // with an outdated reading
	wantError(t, "BeginUse again", err, nil)
	if c, err = f.Client(t.Context(), "a"); err != nil || again != nil || c.LastUsed.IsZero() || !c.Expires.IsZero() {
		t.Errorf("after a second use: %+v, %v, something left: %t", c, err, again != nil)
	}
	before = f.faults.Puts()
	_, err = f.BeginUse(t.Context(), c, f.clock.Now())
	if n := f.faults.Puts() - before; n != 0 || err != nil {
		t.Errorf("a use on the same day: %d writes, %v; want none", n, err)
	}
	b, err := f.Client(t.Context(), "b")
	wantError(t, "Client", err, nil)
	wantError(t, "RemoveClient", f.RemoveClient(t.Context(), b, "test"), nil)
	_, err = f.BeginUse(t.Context(), b, f.clock.Now())
	wantError(t, "BeginUse of one that was removed", err, storage.ErrNotFound)

	f.unused(t, "s", "d")
	_, err = f.BeginUse(t.Context(), f.client(t, "d"), f.clock.Now())
	wantError(t, "BeginUse", err, nil)
	f.wantClients(t, "before anybody has done the rest", "a", "d")
	f.wantIndexed(t, "the unused ones when they were read", clientsUnused)
}
