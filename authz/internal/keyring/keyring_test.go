package keyring_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const (
	issuer   = "https://auth.example.com"
	resource = "https://notes.example.com/mcp"
)

var (
	masterKey = bytes.Repeat([]byte{7}, 32)
	start     = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

func newBackend(t testing.TB) storage.Backend {
	t.Helper()
	backend, err := redis.Open(context.Background(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend
}

func newStore(t testing.TB, backend storage.Backend, o storage.Options) *storage.Store {
	t.Helper()
	store, err := storage.New(backend, o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func ourStore(t testing.TB) *storage.Store {
	t.Helper()
	return newStore(t, newBackend(t), storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}, WriteTime: time.Minute})
}

// gated is a backend whose next readers of the key set go on only when there are so many.
type gated struct {
	storage.Backend
	missing atomic.Int64
	all     atomic.Pointer[chan struct{}]
}

func newGated(t testing.TB) *gated {
	t.Helper()
	g := &gated{Backend: newBackend(t)}
	g.hold(0)
	return g
}

func (g *gated) store(t testing.TB) *storage.Store {
	t.Helper()
	return newStore(t, g, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}, WriteTime: time.Minute})
}

func (g *gated) hold(n int64) {
	all := make(chan struct{})
	g.all.Store(&all)
	g.missing.Store(n)
}

func (g *gated) Get(ctx context.Context, key string) (storage.Item, error) {
	item, err := g.Backend.Get(ctx, key)
	if !strings.HasPrefix(key, "gatehouse:keyset:") {
		return item, err
	}
	all := *g.all.Load()
	switch left := g.missing.Add(-1); {
	case left == 0:
		close(all)
	case left > 0:
		<-all
	}
	return item, err
}

func config(store *storage.Store, algorithm string) keyring.Config {
	return keyring.Config{Store: store, Issuer: issuer, Algorithm: algorithm, Now: func() time.Time { return start }, Rand: rand.Reader}
}

func open(t testing.TB, cfg keyring.Config) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func someClaims() keyring.Claims {
	return keyring.Claims{
		Subject: "subject", Audience: keyring.Audience{resource}, Expires: start.Add(5 * time.Minute).Unix(), IssuedAt: start.Unix(),
		ID: "id", ClientID: "client", Scope: "notes:read", AuthTime: start.Unix(), GrantID: "grant",
	}
}

func sign(t testing.TB, ring *keyring.Ring) string {
	t.Helper()
	token, err := ring.Sign(someClaims())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// jwks returns what is published.
func jwks(t testing.TB, ring *keyring.Ring) string {
	t.Helper()
	w := httptest.NewRecorder()
	ring.JWKS().ServeHTTP(w, httptest.NewRequest("GET", "/jwks.json", nil))
	return w.Body.String()
}

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"", "ES256", "EdDSA", "RS256"} {
		ring := open(t, config(ourStore(t), algorithm))
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
	ring := open(t, config(ourStore(t), ""))
	nobody := someClaims()
	nobody.Audience = nil
	if token, err := ring.Sign(nobody); err == nil {
		t.Errorf("a token for nobody: %s", token)
	}
}

// forger signs whatever it is told with a private key.
type forger struct {
	t   testing.TB
	key jose.JSONWebKey
}

// theKey takes the ring's own private key out of the store: the strongest forger there is.
func theKey(t testing.TB, store *storage.Store) forger {
	t.Helper()
	set, err := store.KeySet(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := store.OpenKey(set.Keys[0].ID, set.Keys[0].Private)
	if err != nil {
		t.Fatal(err)
	}
	f := forger{t: t}
	if err := f.key.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f forger) sign(algorithm jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, payload string) string {
	f.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		f.t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		f.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// claim returns the claims of a good token with one of them replaced; nil drops it.
func claim(t testing.TB, name string, value any) string {
	t.Helper()
	c := someClaims()
	c.Issuer = issuer
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, name)
	if value != nil {
		members[name] = value
	}
	if raw, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	store := ourStore(t)
	ring := open(t, config(store, ""))
	f := theKey(t, store)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	typ := map[jose.HeaderKey]any{"typ": "at+jwt"}
	good := claim(t, "", nil)
	header := func(extra map[jose.HeaderKey]any) string { return f.sign(jose.ES256, f.key, extra, good) }
	payload := func(p string) string { return f.sign(jose.ES256, f.key, typ, p) }
	if _, err := ring.Verify(payload(good)); err != nil {
		t.Fatalf("the forger cannot make a good token: %v", err)
	}
	public, err := f.key.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt","kid":"`+f.key.KeyID+`"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(good)) + "."
	sibling := open(t, config(ourStore(t), "EdDSA"))
	for name, token := range map[string]string{
		"empty":                       "",
		"garbage":                     "hello",
		"dots":                        "..",
		"four parts":                  payload(good) + ".x",
		"too long":                    payload(claim(t, "pad", strings.Repeat("a", 9000))),
		"no type":                     header(nil),
		"an ID token":                 header(map[jose.HeaderKey]any{"typ": "JWT"}),
		"another type":                header(map[jose.HeaderKey]any{"typ": "logout+jwt"}),
		"a type in capitals":          header(map[jose.HeaderKey]any{"typ": "AT+JWT"}),
		"a type that is no string":    header(map[jose.HeaderKey]any{"typ": 1}),
		"a critical extension":        header(map[jose.HeaderKey]any{"typ": "at+jwt", "crit": []string{"x"}, "x": true}),
		"unsigned":                    unsigned,
		"another key, our kid":        f.sign(jose.ES256, jose.JSONWebKey{Key: stranger, KeyID: f.key.KeyID}, typ, good),
		"another key, its own kid":    f.sign(jose.ES256, jose.JSONWebKey{Key: stranger, KeyID: "other"}, typ, good),
		"another key, in the header":  f.sign(jose.ES256, stranger, map[jose.HeaderKey]any{"typ": "at+jwt", "jwk": jose.JSONWebKey{Key: stranger.Public()}}, good),
		"another key, at an address":  f.sign(jose.ES256, stranger, map[jose.HeaderKey]any{"typ": "at+jwt", "jku": "https://attacker.example/jwks.json", "kid": f.key.KeyID}, good),
		"the public key as a secret":  f.sign(jose.HS256, jose.JSONWebKey{Key: public, KeyID: f.key.KeyID}, typ, good),
		"no kid":                      f.sign(jose.ES256, f.key.Key, typ, good),
		"of another server":           sign(t, sibling),
		"not JSON":                    payload("hello"),
		"an array":                    payload("[]"),
		"null":                        payload("null"),
		"no claims":                   payload("{}"),
		"another issuer":              payload(claim(t, "iss", "https://auth.example.com/")),
		"issuer in capitals":          payload(claim(t, "iss", "https://AUTH.example.com")),
		"no issuer":                   payload(claim(t, "iss", nil)),
		"no audience":                 payload(claim(t, "aud", nil)),
		"an audience of nobody":       payload(claim(t, "aud", []string{})),
		"an empty audience":           payload(claim(t, "aud", "")),
		"one empty audience":          payload(claim(t, "aud", []string{resource, ""})),
		"an audience that is a count": payload(claim(t, "aud", 1)),
		"no grant":                    payload(claim(t, "gid", nil)),
		"expired":                     payload(claim(t, "exp", start.Unix())),
		"expired long ago":            payload(claim(t, "exp", -1)),
		"without an end":              payload(claim(t, "exp", nil)),
		"an end that is a word":       payload(claim(t, "exp", "tomorrow")),
	} {
		if c, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) || c.GrantID != "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := ring.Verify(payload(claim(t, "exp", start.Unix()+1))); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
}

// TestOneSpelling: the bytes that were signed are the only ones that verify. Base64 has
// spare bits and Go's decoder skips line breaks.
func TestOneSpelling(t *testing.T) {
	t.Parallel()
	ring := open(t, config(ourStore(t), ""))
	token := sign(t, ring)
	parts := strings.Split(token, ".")
	respelled := []string{token + "\n", "\n" + token, token + "=", token + "==", strings.Replace(token, ".", ".\r\n", 1), strings.Replace(token, ".", "\n.", 1)}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i, part := range parts {
		last := strings.IndexByte(alphabet, part[len(part)-1])
		for bit := range 6 {
			other := slices.Clone(parts)
			other[i] = part[:len(part)-1] + string(alphabet[last^1<<bit])
			respelled = append(respelled, strings.Join(other, "."))
		}
	}
	for _, other := range respelled {
		if _, err := ring.Verify(other); err == nil {
			t.Errorf("it verifies spelled as %q", strings.Replace(other, parts[1], "…", 1))
		}
	}
}

// TestPublished: the public keys, each named by its RFC 7638 thumbprint, and nothing private.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		ring := open(t, config(ourStore(t), algorithm))
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

// TestOpenTogether: of many processes that start on an empty store one makes the keys,
// and all use them.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	gate := newGated(t)
	rings := make([]*keyring.Ring, 16)
	gate.hold(int64(len(rings))) // all have seen that there is none
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
		store := ourStore(t)
		if _, err := keyring.Open(ctx, config(store, algorithm)); err == nil || !strings.Contains(err.Error(), algorithm) {
			t.Errorf("%s: %v", algorithm, err)
		}
		if _, err := store.KeySet(ctx); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: something was stored: %v", algorithm, err)
		}
	}
}

// TestDamagedKeySet: a record that was tampered with is refused at the start, not at the
// first signature.
func TestDamagedKeySet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, damage := range map[string]func(set *storage.KeySet, other storage.KeySet){
		"no keys":                    func(s *storage.KeySet, _ storage.KeySet) { s.Keys = nil },
		"the public key of another":  func(s *storage.KeySet, o storage.KeySet) { s.Keys[0].Public = o.Keys[0].Public },
		"the private key of another": func(s *storage.KeySet, o storage.KeySet) { s.Keys[0].Private = o.Keys[0].Private },
		"both, under the old name": func(s *storage.KeySet, o storage.KeySet) {
			s.Keys[0].Public, s.Keys[0].Private = o.Keys[0].Public, o.Keys[0].Private
		},
		"another name":        func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].ID = "other" },
		"no public key":       func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Public = []byte(`{}`) },
		"no private key":      func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Private = nil },
		"a flipped bit":       func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Private[40] ^= 1 },
		"a private key, open": func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Public = []byte(privateJWK) },
	} {
		store := ourStore(t)
		open(t, config(store, ""))
		otherStore := ourStore(t)
		open(t, config(otherStore, ""))
		set, err := store.KeySet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other, err := otherStore.KeySet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		damage(&set, other)
		if err := store.SwapKeySet(ctx, set); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(ctx, config(store, "")); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// privateJWK is the example key of RFC 7517 appendix A.2.
const privateJWK = `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}`

// FuzzVerify: only the token itself verifies, no string near it or far from it.
func FuzzVerify(f *testing.F) {
	ring := open(f, config(ourStore(f), ""))
	token := sign(f, ring)
	f.Add(0, "", 0)
	f.Add(len(token), "\n", 0)
	f.Add(10, "A", 1)
	f.Add(len(token)-1, "B", 1)
	f.Add(strings.IndexByte(token, '.'), "..", 1)
	f.Add(0, token+".", 0)
	f.Fuzz(func(t *testing.T, at int, insert string, remove int) {
		if at < 0 || at > len(token) || remove < 0 || remove > len(token)-at {
			return
		}
		mutated := token[:at] + insert + token[at+remove:]
		claims, err := ring.Verify(mutated)
		if (err == nil) != (mutated == token) {
			t.Errorf("%q: %+v, %v", mutated, claims, err)
		}
		if err != nil && !errors.Is(err, keyring.ErrToken) {
			t.Errorf("%q: %v is no ErrToken", mutated, err)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	ring := open(b, config(ourStore(b), ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Sign(someClaims()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	ring := open(b, config(ourStore(b), ""))
	token := sign(b, ring)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}

// TestIDsCanBeNamed: the id of a key is an argument of commands, not a flag.
func TestIDsCanBeNamed(t *testing.T) {
	for range 400 {
		store := ourStore(t)
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
