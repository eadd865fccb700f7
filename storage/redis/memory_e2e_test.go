//go:build e2e

package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/storagetest"
)

// The bounds for the memory of a server that one record takes, with its entries in lists, in
// bytes. docs/operations.md uses these figures.
const (
	grantMemory   = 700  // by MEMORY USAGE, the shares of its two lists included
	grantTables   = 150  // of the tables of keys and ends, beside that
	clientMemory  = 1000 // that was used
	unusedMemory  = 1250 // unused, the only one of its software
	removedMemory = 500  // what is left of one that was removed
)

// TestMemory: the memory of clients, and of one after its first use.
func TestMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: server.URL()})
	defer b.Close()
	store, err := storage.New(b, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	const people = 2000
	clean := usedMemory(t, server)
	t.Logf("a client that nobody has used: %d bytes", perItem(t, server, unusedMemory, people, func(i int) { registers(t, store, i) }))
	wantMemory := func(what string, most int, change func(i int)) {
		t.Helper()
		for i := range people {
			change(i)
		}
		each := (usedMemory(t, server) - clean) / people
		if t.Logf("%s: %d bytes", what, each); each > most {
			t.Errorf("%s takes %d bytes; want at most %d", what, each, most)
		}
	}
	wantMemory("a client that was used", clientMemory, func(i int) {
		if err := store.UseClient(t.Context(), clientID(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMemoryOfGrants: the memory of a grant with everything, whatever the lengths of the lists in which it
// stands, and that rotation takes none.
func TestMemoryOfGrants(t *testing.T) {
	t.Parallel()
	for what, shape := range map[string]struct{ ofPerson, ofClient int }{
		"two of each person at one client":  {2, 4000},
		"a hundred of each of both":         {100, 100},
		"a thousand of each of both":        {1000, 1000},
		"a person and a client of its own":  {1, 1},
		"one of each person at one client":  {1, 4000},
		"all of one person, at two of each": {4000, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			memoryOfGrants(t, 4000, shape.ofPerson, shape.ofClient)
		})
	}
}

// memoryOfGrants stores n grants, so many of each person and of each client.
func memoryOfGrants(t *testing.T, n, ofPerson, ofClient int) {
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: server.URL()})
	defer b.Close()
	replicated := storagetest.NewFaults(b)
	replicated.SetLineage(storage.Lineage(strings.Repeat("0123456789", 4)))
	store, err := storage.New(replicated, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	granted(t, store, newID(t, store), newID(t, store)) // the first record of the store is that of its keys
	var people, clients []string
	for range (n + ofPerson - 1) / ofPerson {
		people = append(people, newID(t, store))
	}
	for range (n + ofClient - 1) / ofClient {
		clients = append(clients, newID(t, store))
	}
	var grants []storage.Grant
	t.Logf("a grant: %d bytes", perItem(t, server, grantMemory+grantTables, n, func(i int) {
		grants = append(grants, granted(t, store, people[i%len(people)], clients[i%len(clients)]))
	}))
	t.Logf("its rotations: %d bytes", perItem(t, server, 50, n, func(i int) {
		for range 2 {
			if grants[i], err = store.Rotate(t.Context(), grants[i], lifetime()); err != nil {
				t.Fatal(err)
			}
		}
	}))
	record := usage(t, server, "grant:"+grants[0].ID)
	atClient, atPerson := usage(t, server, "client-grants:"+clients[0])/ofClient, usage(t, server, "user-grants:"+people[0])/ofPerson
	t.Logf("its record: %d bytes, its entry at the client %d, at the person %d", record, atClient, atPerson)
	if got := record + atClient + atPerson; got > grantMemory {
		t.Errorf("a grant takes %d bytes; want at most %d", got, grantMemory)
	}
}

func newID(t *testing.T, store *storage.Store) string {
	t.Helper()
	id, err := store.NewID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// usage returns what a key takes, without its places in the tables of keys and ends.
func usage(t *testing.T, server *redistest.Server, key string) int {
	t.Helper()
	bytes, err := server.Client().MemoryUsage(t.Context(), "gatehouse:"+key, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(bytes)
}

// TestMemoryOfRemoved: the tombstone of a removed client is small.
func TestMemoryOfRemoved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: server.URL()})
	defer b.Close()
	store, err := storage.New(b, storage.Options{Issuer: "https://auth.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("what is left of a client: %d bytes", perItem(t, server, removedMemory, 2000, func(i int) {
		registers(t, store, i)
		if n, _, err := store.BoundUnused(t.Context(), storage.Bound{Most: 0}); n != 1 || err != nil {
			t.Fatalf("BoundUnused removed %d, %v", n, err)
		}
	}))
}

func clientID(i int) string { return fmt.Sprintf("client-%015d", i) }

// registers stores a client as registration does, of a software of its own.
func registers(t *testing.T, store *storage.Store, i int) {
	t.Helper()
	err := store.CreateClient(t.Context(), storage.Client{
		ID: clientID(i), Source: storage.ClientRegistered, Created: time.Now(), Expires: time.Now().Add(7 * 24 * time.Hour),
		RegistrationToken: storage.HashSecret("token"), Software: fmt.Sprintf("software-%013d", i),
		Metadata: metadata.Client{
			ClientName: "A client of a common length", RedirectURIs: []string{"http://127.0.0.1:33418/callback"},
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
			Scope: "notes:read notes:write",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func lifetime() storage.Lifetime {
	now := time.Now()
	return storage.Lifetime{Expires: now.Add(90 * 24 * time.Hour), IdleExpires: now.Add(30 * 24 * time.Hour), AccessUntil: now.Add(5 * time.Minute)}
}

// granted stores a grant as consent and redemption do.
func granted(t *testing.T, store *storage.Store, subject, client string) storage.Grant {
	t.Helper()
	const resource = "https://notes.example.com/mcp"
	scopes := []string{"notes:read", "notes:write"}
	g, _, err := store.PrepareGrant(storage.NewGrant{
		ClientID: client, Subject: subject, UserName: "reader", Access: storage.Access{{Resource: resource, Scopes: scopes}},
		Resources: []string{resource}, Scopes: scopes, AuthTime: time.Now().Add(-time.Hour), ClientName: "A client of a common length",
		From: "203.0.113.77", RedirectURI: "http://127.0.0.1:33418/callback", Challenge: strings.Repeat("c", 43), Refreshable: true, CodeTTL: time.Minute,
	})
	if err == nil {
		err = store.CreateGrant(t.Context(), g)
	}
	if err == nil {
		g, err = store.Grant(t.Context(), g.ID)
	}
	if err == nil {
		g, err = store.Redeem(t.Context(), g, lifetime(), resource)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// perItem makes n items and returns how much of the server's memory each takes.
func perItem(t *testing.T, server *redistest.Server, most, n int, item func(i int)) int {
	t.Helper()
	before := usedMemory(t, server)
	for i := range n {
		item(i)
	}
	each := (usedMemory(t, server) - before) / n
	if each > most {
		t.Errorf("each of %d costs %d bytes; want at most %d", n, each, most)
	}
	return each
}

// usedMemory returns what the server holds, without the buffers of connections, of which there are as many
// as were needed at once: they are closed before.
func usedMemory(t *testing.T, server *redistest.Server) (bytes int) {
	t.Helper()
	client := server.Client()
	if err := client.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	info, err := client.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if n, _ := fmt.Sscanf(line, "used_memory:%d", &bytes); n == 1 {
			return bytes
		}
	}
	t.Fatal("the server does not tell its memory")
	return 0
}
