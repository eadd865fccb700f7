package keyring_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// TestSignsAsTheLibrary: a token has the bytes that the JOSE library makes of the same header, claims
// and key, up to the signature where that has a random part; the library verifies it.
func TestSignsAsTheLibrary(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		store := newEmptyStore(t)
		ring := open(t, config(store, algorithm))
		f := activeKey(t, store)
		claims := someClaims()
		token, err := ring.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		claims.Issuer = issuer
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		theirs := f.sign(jose.SignatureAlgorithm(algorithm), f.key, map[jose.HeaderKey]any{"typ": "at+jwt"}, string(payload))
		if algorithm == "ES256" {
			if a, b := token[:strings.LastIndex(token, ".")], theirs[:strings.LastIndex(theirs, ".")]; a != b {
				t.Errorf("%s: %s, the library %s", algorithm, a, b)
			}
		} else if token != theirs {
			t.Errorf("%s: %s, the library %s", algorithm, token, theirs)
		}
		parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.Verify(f.key.Public()); err != nil || string(got) != string(payload) {
			t.Errorf("%s: the library reads %s, %v", algorithm, got, err)
		}
	}
}

// TestShortNumbersOfSignatures: the two numbers of a signature have 32 bytes each, also where one has
// leading zeros, which is so for one signature in 128.
func TestShortNumbersOfSignatures(t *testing.T) {
	t.Parallel()
	ring := open(t, config(newEmptyStore(t), "ES256"))
	for i := range 600 {
		claims := someClaims()
		claims.ID = strconv.Itoa(i)
		token, err := ring.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		if signature := token[strings.LastIndex(token, ".")+1:]; len(signature) != 86 {
			t.Fatalf("a signature of %d characters", len(signature))
		}
	}
}

// TestOneSignatureOfAToken: the same claims make the same token with each algorithm, so no signature
// depends on a source of chance (RFC 6979, RFC 8032, RFC 8017 section 8.2).
func TestOneSignatureOfAToken(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		ring := open(t, config(newEmptyStore(t), algorithm))
		if first, second := sign(t, ring), sign(t, ring); first != second {
			t.Errorf("%s: %s and %s", algorithm, first, second)
		}
	}
}

// TestVerifiedAgain: a token that was verified is not checked a second time, by any of many at once,
// and ends when it ends.
func TestVerifiedAgain(t *testing.T) {
	var mu sync.Mutex
	now := start
	cfg := config(newEmptyStore(t), "")
	cfg.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	ring := open(t, cfg)
	token := sign(t, ring)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if c, err := ring.Verify(token); err != nil || c.GrantID != "grant" || c.Audience[0] != resource {
					t.Errorf("%+v, %v", c, err)
				}
			}
		})
	}
	all.Wait()
	if allocations := testing.AllocsPerRun(100, func() { _, _ = ring.Verify(token) }); allocations > 4 {
		t.Errorf("%v allocations: it was checked again", allocations)
	}
	mu.Lock()
	now = start.Add(5 * time.Minute)
	mu.Unlock()
	if c, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) || c.GrantID != "" {
		t.Errorf("after its end: %+v, %v", c, err)
	}
}

// TestAlgorithmOfAKey: a key is not used for the algorithm of another kind of key.
func TestAlgorithmOfAKey(t *testing.T) {
	t.Parallel()
	store := newEmptyStore(t)
	open(t, config(store, "ES256"))
	set, err := store.KeySet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := store.OpenKey(set.Keys[0].ID, set.Keys[0].Private)
	if err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []string{"EdDSA", "RS256", "HS256", "none", ""} {
		other := strings.Replace(string(raw), `"alg":"ES256"`, `"alg":"`+algorithm+`"`, 1)
		if set.Keys[0].Private, err = store.SealKey(set.Keys[0].ID, []byte(other)); err != nil {
			t.Fatal(err)
		}
		if err := store.SwapKeySet(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(t.Context(), config(store, "")); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%q: %v", algorithm, err)
		}
		if set, err = store.KeySet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
