package keyring_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func newEmptyStore(t testing.TB) *storage.Store {
	t.Helper()
	return newStore(t, newBackend(t), storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}, WriteTime: time.Minute})
}

// gated is a backend that holds reads of the key set until a number of them have been made.
type gated struct {
	storage.Backend
	missing atomic.Int64
	all     atomic.Pointer[chan struct{}]
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

// jwks returns the published keys.
func jwks(t testing.TB, ring *keyring.Ring) string {
	t.Helper()
	w := httptest.NewRecorder()
	ring.JWKS().ServeHTTP(w, httptest.NewRequest("GET", "/jwks.json", nil))
	return w.Body.String()
}

// forger signs any claims and header with a private key.
type forger struct {
	t   testing.TB
	key jose.JSONWebKey
}

// activeKey takes the ring's own private key out of the store, which is more than any real
// forger has.
func activeKey(t testing.TB, store *storage.Store) forger {
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

// memory is a backend without goroutines and connections, so that it can be used in a
// synctest bubble. Key sets use only Get and Put.
type memory struct {
	storage.Backend
	mu    sync.Mutex
	items map[string]storage.Item
	swaps int
	gets  int
}

func (m *memory) Get(_ context.Context, key string) (storage.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	item, ok := m.items[key]
	if !ok {
		return storage.Item{}, storage.ErrNotFound
	}
	return item, nil
}

func (m *memory) Put(_ context.Context, put storage.Put) (storage.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	item := m.items[put.Key]
	switch {
	case item.Version == put.Operation:
		return item, nil
	case !put.If.Any() && item.Version != put.If.Version():
		return item, storage.ErrConflict
	}
	m.swaps++
	m.items[put.Key] = storage.Item{Data: slices.Clone(put.Data), Version: put.Operation}
	return m.items[put.Key], nil
}

// IndexPage returns an empty list: the store contains only keys.
func (m *memory) IndexPage(context.Context, string, string, int) ([]string, error) { return nil, nil }

func newMemory() *memory { return &memory{items: map[string]storage.Item{}} }

// The settings of these tests.
const (
	cacheTime   = 10 * time.Second
	tokenLife   = 2 * time.Minute
	rotateEvery = 10 * time.Minute
	outlives    = cacheTime + tokenLife + time.Minute
)

// timed returns the configuration of a key ring with the clock of the bubble.
func timed(store *storage.Store) keyring.Config {
	return keyring.Config{
		Store: store, Issuer: issuer, CacheTime: cacheTime, TokenLife: tokenLife, RotateEvery: rotateEvery,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	}
}

func bubbleStore(t *testing.T, backend storage.Backend) *storage.Store {
	t.Helper()
	return newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}})
}

// run starts Run. The returned function ends it and waits for its end.
func run(t *testing.T, ring *keyring.Ring) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ring.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return func() { cancel(); wg.Wait() }
}

// states returns the keys in the store by state, and checks the invariants of the set.
func states(t *testing.T, store *storage.Store) map[storage.KeyState][]storage.SigningKey {
	t.Helper()
	set, err := store.KeySet(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	by := map[storage.KeyState][]storage.SigningKey{}
	for _, k := range set.Keys {
		by[k.State] = append(by[k.State], k)
		if (k.State == storage.KeyRetired) != (k.Private == nil) {
			t.Errorf("a %s key has a private part of %d bytes", k.State, len(k.Private))
		}
	}
	if len(by[storage.KeyActive]) != 1 || len(by[storage.KeyPending]) > 1 || set.Keys[0].State != storage.KeyActive {
		t.Errorf("%d keys are active, %d pending, the first is %s", len(by[storage.KeyActive]), len(by[storage.KeyPending]), set.Keys[0].State)
	}
	return by
}

// tokenFor returns a token of the ring with that lifetime.
func tokenFor(t testing.TB, ring *keyring.Ring, life time.Duration) string {
	t.Helper()
	c := someClaims()
	c.IssuedAt, c.Expires = time.Now().Unix(), time.Now().Add(life).Unix()
	token, err := ring.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// kidOf returns the id of the key that signed a token.
func kidOf(t testing.TB, token string) string {
	t.Helper()
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	return jws.Signatures[0].Header.KeyID
}

func published(t testing.TB, ring *keyring.Ring) jose.JSONWebKeySet {
	t.Helper()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(jwks(t, ring)), &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// forged returns a valid token with a long lifetime, signed with a key taken from the store.
func forged(t testing.TB, f forger) string {
	t.Helper()
	return f.sign(jose.ES256, f.key, map[jose.HeaderKey]any{"typ": "at+jwt"}, claim(t, "exp", time.Now().Add(240*time.Hour).Unix()))
}
