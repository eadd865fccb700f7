package dcr_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// good is the metadata of a client that an operator adds.
var good = metadata.Client{RedirectURIs: []string{"https://client.example.com/cb"}}

func (f *fixture) add(t testing.TB, c storage.Client) (storage.Client, string) {
	t.Helper()
	added, secret, err := dcr.Add(context.Background(), f.store, c)
	if err != nil {
		t.Fatal(err)
	}
	return added, secret
}

func TestAdd(t *testing.T) {
	f := newFixture(t, nil)
	method := func(method string) metadata.Client {
		m := good
		m.TokenEndpointAuthMethod = method
		return m
	}
	keys := method("private_key_jwt")
	keys.JWKS = json.RawMessage(keyP256)
	for name, tt := range map[string]struct {
		client storage.Client
		method string
		secret bool
	}{
		"nothing said":    {storage.Client{Metadata: good}, "none", false},
		"named":           {storage.Client{ID: "notes", Metadata: good, Source: storage.ClientRegistered}, "none", false},
		"confidential":    {storage.Client{Metadata: method("client_secret_basic")}, "client_secret_basic", true},
		"post":            {storage.Client{Metadata: method("client_secret_post")}, "client_secret_post", true},
		"its own secret":  {storage.Client{Metadata: method("client_secret_post"), Secret: storage.HashSecret("x")}, "client_secret_post", true},
		"private_key_jwt": {storage.Client{Metadata: keys}, "private_key_jwt", false},
	} {
		c, secret := f.add(t, tt.client)
		stored, err := f.Resolve(context.Background(), c.ID)
		if err != nil || stored.Source != storage.ClientConfigured || stored.Metadata.TokenEndpointAuthMethod != tt.method || !stored.Expires.IsZero() || stored.Created.IsZero() ||
			strings.Join(stored.Metadata.GrantTypes, " ") != "authorization_code refresh_token" {
			t.Errorf("%s: %+v: %v", name, stored, err)
		}
		if (secret != "") != tt.secret || tt.secret && (!stored.Secret.Matches(secret) || !strings.HasPrefix(secret, "gate_cs_") || stored.Secret.Matches("x")) {
			t.Errorf("%s: secret %q", name, secret)
		}
		if tt.client.ID != "" && c.ID != tt.client.ID {
			t.Errorf("%s: id %s", name, c.ID)
		}
	}
	f.backend.writes.Store(0)
	for name, c := range map[string]storage.Client{
		"bad id": {ID: "a b", Metadata: good}, "no redirect URI": {}, "no keys": {Metadata: method("private_key_jwt")}, "unknown method": {Metadata: method("x")},
	} {
		if _, secret, err := dcr.Add(context.Background(), f.store, c); err == nil || secret != "" {
			t.Errorf("%s: %q, %v", name, secret, err)
		}
	}
	if n := f.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
	if _, _, err := dcr.Add(context.Background(), f.store, storage.Client{ID: "notes", Metadata: good}); !errors.Is(err, storage.ErrConflict) || !strings.Contains(err.Error(), "taken") {
		t.Errorf("error %v", err)
	}
}

// TestDisable: a disabled client has no grants, cannot manage itself, and stays so.
func TestDisable(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.Background()
	m := f.register(t, "")
	g := f.grant(t, m.id, time.Hour)
	for range 2 {
		if err := dcr.Disable(ctx, f.store, m.id); err != nil {
			t.Fatal(err)
		}
	}
	f.assertRevoked(t, g, true)
	if c, err := f.Current(ctx, m.id); err != nil || !c.Disabled {
		t.Errorf("%+v: %v", c, err)
	}
	if a := f.put(t, m.id, m.update(""), m.bearer()); a.status != 401 || !f.stored(t, m.id).Disabled {
		t.Errorf("status %d: %s", a.status, a.raw)
	}
}

// TestRemove: the client is gone and its grants are revoked, also when that takes two
// attempts.
func TestRemove(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.Background()
	c, _ := f.add(t, storage.Client{Metadata: good})
	g := f.grant(t, c.ID, time.Hour)
	f.backend.before(func() { f.backend.before(func() { f.faults.SetDown(true) }) })
	if err := dcr.Remove(ctx, f.store, c.ID); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	f.faults.SetDown(false)
	f.assertRevoked(t, g, false)
	if err := dcr.Remove(ctx, f.store, c.ID); err != nil {
		t.Error(err)
	}
	f.assertRevoked(t, g, true)
	if _, err := f.Current(ctx, c.ID); !isRemoved(err, "the people who run this server removed it") {
		t.Errorf("error %v", err)
	}
}

// TestOperatorsMistakes: an unknown client is ErrNotFound, and an unavailable store is not.
func TestOperatorsMistakes(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.Background()
	m := f.register(t, "")
	for name, do := range map[string]func(context.Context, *storage.Store, string) error{"disable": dcr.Disable, "remove": dcr.Remove} {
		if err := do(ctx, f.store, "unknown"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		f.faults.SetDown(true)
		if err := do(ctx, f.store, m.id); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		f.faults.SetDown(false)
	}
	f.backend.before(func() { f.put(t, m.id, m.update(`"client_name":"New"`), m.bearer()) })
	if err := dcr.Disable(ctx, f.store, m.id); err != nil {
		t.Error(err)
	}
	if c := f.stored(t, m.id); !c.Disabled || c.Metadata.ClientName != "New" {
		t.Errorf("stored %+v", c)
	}
}
