package keyring_test

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

func newGated(t testing.TB) *gated {
	t.Helper()
	g := &gated{Backend: newBackend(t)}
	g.hold(0)
	return g
}

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"", "ES256", "EdDSA", "RS256"} {
		ring := open(t, config(newEmptyStore(t), algorithm))
		want := someClaims()
		want.Issuer = issuer
		got, err := ring.Verify(sign(t, ring))
		if err != nil || got.Issuer != issuer || !slices.Equal(got.Audience, want.Audience) || got.GrantID != want.GrantID ||
			got.Subject != want.Subject || got.ClientID != want.ClientID || got.Scope != want.Scope || got.Expires != want.Expires {
			t.Errorf("%s: %+v, %v", algorithm, got, err)
		}
	}
}

// TestAudience: a string for one resource, an array for several, and never none (RFC 7519
// section 4.1.3, RFC 9068 section 2.2).
func TestAudience(t *testing.T) {
	t.Parallel()
	for want, audience := range map[string]keyring.Audience{
		`"a"`: {"a"}, `["a","b"]`: {"a", "b"},
	} {
		got, err := json.Marshal(audience)
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v", audience, got, err)
		}
		var back keyring.Audience
		if err := json.Unmarshal(got, &back); err != nil || !slices.Equal(back, audience) {
			t.Errorf("%s: %v, %v", got, back, err)
		}
	}
	for _, bad := range []string{`1`, `{}`, `[1]`, `true`, `["a",null,1]`} {
		var a keyring.Audience
		if err := json.Unmarshal([]byte(bad), &a); err == nil {
			t.Errorf("%s is taken as %v", bad, a)
		}
	}
	ring := open(t, config(newEmptyStore(t), ""))
	nobody := someClaims()
	nobody.Audience = nil
	if token, err := ring.Sign(nobody); err == nil {
		t.Errorf("a token for nobody: %s", token)
	}
}

// TestPublished: the document contains the public keys, each identified by its RFC 7638
// thumbprint, and nothing private.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		ring := open(t, config(newEmptyStore(t), algorithm))
		var set jose.JSONWebKeySet
		if err := json.Unmarshal([]byte(jwks(t, ring)), &set); err != nil || len(set.Keys) != 1 {
			t.Fatalf("%s: %d keys, %v", algorithm, len(set.Keys), err)
		}
		key := set.Keys[0]
		thumbprint, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if !key.IsPublic() || key.Algorithm != algorithm || key.Use != "sig" || key.KeyID != base64.RawURLEncoding.EncodeToString(thumbprint) {
			t.Errorf("%s: %+v", algorithm, key)
		}
	}
}

// TestOpenTogether: of several processes that start with an empty store one makes the keys,
// and all use them.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	gate := newGated(t)
	rings := make([]*keyring.Ring, 16)
	gate.hold(int64(len(rings))) // all have read that there is none
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			ring, err := keyring.Open(context.Background(), config(gate.store(t), "")) // a store of its own, as a process has
			if err != nil {
				t.Error(err)
				return
			}
			rings[i] = ring
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	token := sign(t, rings[0])
	for i, ring := range rings {
		if jwks(t, ring) != jwks(t, rings[0]) {
			t.Errorf("%d has other keys", i)
		}
		if _, err := ring.Verify(token); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	backend := newBackend(t)
	open(t, config(newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}}), ""))
	for name, o := range map[string]struct {
		options storage.Options
		want    error
	}{
		"another master key": {storage.Options{Issuer: issuer, MasterKeys: [][]byte{bytes.Repeat([]byte{8}, 32)}}, storage.ErrRecord},
		"another issuer":     {storage.Options{Issuer: issuer + "/tenant", MasterKeys: [][]byte{masterKey}}, storage.ErrRecord},
		"no master key":      {storage.Options{Issuer: issuer}, storage.ErrNoMasterKey},
	} {
		if _, err := keyring.Open(ctx, config(newStore(t, backend, o.options), "")); !errors.Is(err, o.want) || !strings.Contains(err.Error(), "master key") {
			t.Errorf("%s: %v, want %v", name, err, o.want)
		}
	}
	empty := newStore(t, newBackend(t), storage.Options{Issuer: issuer})
	if _, err := keyring.Open(ctx, config(empty, "")); !errors.Is(err, storage.ErrNoMasterKey) {
		t.Errorf("no master key, nothing stored: %v", err)
	}
	for _, algorithm := range []string{"HS256", "none", "RS512", "es256"} {
		store := newEmptyStore(t)
		if _, err := keyring.Open(ctx, config(store, algorithm)); err == nil || !strings.Contains(err.Error(), algorithm) {
			t.Errorf("%s: %v", algorithm, err)
		}
		if _, err := store.KeySet(ctx); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: something was stored: %v", algorithm, err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	ring := open(b, config(newEmptyStore(b), ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Sign(someClaims()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	ring := open(b, config(newEmptyStore(b), ""))
	token := sign(b, ring)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}

// TestIDsCanBeNamed: the id of a key can be passed to commands without looking like a flag.
func TestIDsCanBeNamed(t *testing.T) {
	for range 400 {
		store := newEmptyStore(t)
		open(t, config(store, "EdDSA"))
		set, err := store.KeySet(t.Context())
		if err != nil || len(set.Keys) == 0 {
			t.Fatalf("%v: %v", err, set)
		}
		for _, key := range set.Keys {
			if key.ID[0] == '-' {
				t.Fatalf("the id %s", key.ID)
			}
		}
	}
}
