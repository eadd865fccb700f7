package dcr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

func (f *fixture) create(t testing.TB, id string) {
	t.Helper()
	c := storage.Client{ID: id, Source: storage.ClientRegistered, Metadata: metadata.Client{
		RedirectURIs: []string{"https://client.example.com/cb"}, TokenEndpointAuthMethod: "none", ClientName: id,
	}}
	if err := f.store.CreateClient(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

// assertResolves resolves a client and checks how often the store was read.
func (f *fixture) assertResolves(t *testing.T, id string, reads int64) {
	t.Helper()
	f.backend.gets.Store(0)
	client, err := f.Resolve(context.Background(), id)
	if err != nil || client.ID != id {
		t.Errorf("resolved %q: %v", client.ID, err)
	}
	if n := f.backend.gets.Load(); n != reads {
		t.Errorf("%d reads, want %d", n, reads)
	}
}

func TestResolveCaches(t *testing.T) {
	f := newFixture(t, nil)
	f.create(t, "one")
	f.assertResolves(t, "one", 1)
	f.assertResolves(t, "one", 0)
	f.clock.advance(5*time.Second - 1)
	f.assertResolves(t, "one", 0)
	f.clock.advance(1)
	f.assertResolves(t, "one", 1)
	f.clock.advance(-time.Minute)
	f.assertResolves(t, "one", 1)
	f.backend.down.Store(true)
	f.assertResolves(t, "one", 0)
	f.clock.advance(5 * time.Second)
	if _, err := f.Resolve(context.Background(), "one"); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	f.backend.down.Store(false)
	f.assertResolves(t, "one", 1)
}

// TestCurrentIsKept: what a page has read is what is resolved for the next seconds, also if it was kept
// before, and a change that another process made takes the place of what was kept.
func TestCurrentIsKept(t *testing.T) {
	f, ctx := newFixture(t, nil), context.Background()
	f.create(t, "one")
	current := func() storage.Client {
		t.Helper()
		client, err := f.Current(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	current()
	f.clock.advance(4 * time.Second)
	current()
	f.clock.advance(4 * time.Second)
	f.assertResolves(t, "one", 0)
	changed := current()
	changed.Metadata.ClientName = "changed"
	if err := f.store.UpdateClient(ctx, changed); err != nil {
		t.Fatal(err)
	}
	if client, err := f.Resolve(ctx, "one"); err != nil || client.Metadata.ClientName != "one" {
		t.Errorf("before it was read again: %q, %v", client.Metadata.ClientName, err)
	}
	if name := current().Metadata.ClientName; name != "changed" {
		t.Errorf("a page has read %q", name)
	}
	if client, err := f.Resolve(ctx, "one"); err != nil || client.Metadata.ClientName != "changed" {
		t.Errorf("after it was read again: %q, %v", client.Metadata.ClientName, err)
	}
}

func TestResolveAfterRegistering(t *testing.T) {
	f := newFixture(t, nil)
	a := f.post(t, with(`"client_name":"Notes","token_endpoint_auth_method":"client_secret_post"`))
	client, err := f.Resolve(context.Background(), a.text("client_id"))
	if err != nil {
		t.Fatal(err)
	}
	if client.Metadata.ClientName != "Notes" || client.Metadata.Public() || !client.Secret.Matches(a.text("client_secret")) {
		t.Errorf("resolved %+v", client)
	}
}

func TestResolveDoesNotCacheAbsence(t *testing.T) {
	f := newFixture(t, nil)
	for range 2 {
		if _, err := f.Resolve(context.Background(), "later"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	}
	f.create(t, "later")
	f.assertResolves(t, "later", 1)
}

func TestResolveRefusesIDsWithoutAskingTheStore(t *testing.T) {
	f := newFixture(t, nil)
	for _, id := range []string{
		"", " ", "a b", "a:b", "a/b", "a\x00", "a\n", "é", "%41", "a+b", "*", "https://client.example.com/c.json", "../x", strings.Repeat("a", 129), strings.Repeat("a", 1<<20),
	} {
		if _, err := f.Resolve(context.Background(), id); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%.40q: error %v", id, err)
		}
	}
	if n := f.backend.gets.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
	f.create(t, strings.Repeat("a", 128))
	f.assertResolves(t, strings.Repeat("a", 128), 1)
}

// TestCacheIsBounded: the client that was used first is read again after many others,
// the last ones are not.
func TestCacheIsBounded(t *testing.T) {
	f := newFixture(t, nil)
	const many = 2100
	for i := range many {
		f.create(t, fmt.Sprint("c", i))
		f.assertResolves(t, fmt.Sprint("c", i), 1)
	}
	f.assertResolves(t, "c0", 1)
	f.assertResolves(t, fmt.Sprint("c", many-1), 0)
	f.assertResolves(t, fmt.Sprint("c", many-1000), 0)
}

func TestStaticClients(t *testing.T) {
	secret := storage.HashSecret("0123456789abcdef")
	f := newFixture(t, func(c *dcr.Config) {
		c.Static = []storage.Client{
			{ID: "public", Source: storage.ClientRegistered, Metadata: metadata.Client{RedirectURIs: []string{"http://127.0.0.1/cb"}}},
			{ID: "confidential", Secret: secret, RegistrationToken: secret, Metadata: metadata.Client{
				RedirectURIs: []string{"https://client.example.com/cb"}, GrantTypes: []string{"authorization_code"}, TokenEndpointAuthMethod: "client_secret_post",
			}},
			{ID: "disabled", Disabled: true, Metadata: metadata.Client{RedirectURIs: []string{"https://client.example.com/cb"}}},
		}
	})
	f.create(t, "public") // the configured one wins
	tests := []struct {
		id, method, grants string
		disabled           bool
	}{
		{"public", "none", "authorization_code refresh_token", false},
		{"confidential", "client_secret_post", "authorization_code", false},
		{"disabled", "none", "authorization_code refresh_token", true},
	}
	for _, tt := range tests {
		f.assertResolves(t, tt.id, 0)
		c, _ := f.Resolve(context.Background(), tt.id)
		if c.Source != storage.ClientConfigured || c.Metadata.TokenEndpointAuthMethod != tt.method || c.Disabled != tt.disabled ||
			strings.Join(c.Metadata.GrantTypes, " ") != tt.grants || strings.Join(c.Metadata.ResponseTypes, " ") != "code" || c.RegistrationToken != nil {
			t.Errorf("resolved %+v", c)
		}
	}
}

// TestResolveConcurrently is for the race detector: callers resolve, append to what
// they got, and push each other out of the cache.
func TestResolveConcurrently(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 8 {
		f.create(t, fmt.Sprint("c", i))
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				id := fmt.Sprint("c", (i+worker)%8)
				client, err := f.Resolve(context.Background(), id)
				if err != nil || client.ID != id {
					t.Errorf("resolved %q: %v", client.ID, err)
				}
				uris := append(client.Metadata.RedirectURIs, "https://more.example.com/")
				if len(uris) != 2 || uris[0] != "https://client.example.com/cb" {
					t.Errorf("redirect URIs %q", uris)
				}
				f.clock.advance(100 * time.Millisecond)
			}
		})
	}
	group.Wait()
}
