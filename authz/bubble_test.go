package authz_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// hangingBackend is a backend that can stop answering: calls then wait until their context
// ends.
type hangingBackend struct {
	storage.Backend
	hangs atomic.Bool
}

func (s *hangingBackend) Get(ctx context.Context, key string) (storage.Item, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return storage.Item{}, ctx.Err()
	}
	return s.Backend.Get(ctx, key)
}

func (s *hangingBackend) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.GetMany(ctx, keys)
}

func (s *hangingBackend) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.IndexPage(ctx, index, after, limit)
}

func (s *hangingBackend) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.IndexPageBefore(ctx, index, before, limit)
}

func (s *hangingBackend) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return storage.Counted{}, ctx.Err()
	}
	return s.Backend.Count(ctx, c)
}

// bubble is a server in a synctest bubble, whose time advances when all goroutines wait. It
// uses no network.
type bubble struct {
	t          *testing.T
	server     *authz.Server
	store      *storage.Store
	faults     *storagetest.Faults
	backend    *hangingBackend
	roundTrips atomic.Int64
	log        *syncBuffer
	observed   func(authz.Observation)
}

// inBubble runs f in a bubble, on a server whose store seals under the first key.
func inBubble(t *testing.T, keys [][]byte, f func(t *testing.T, s *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &bubble{t: t, log: &syncBuffer{}}
		backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", OnRoundTrip: func() { s.roundTrips.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		s.faults = storagetest.NewFaults(backend)
		s.backend = &hangingBackend{Backend: s.faults}
		s.store = s.opened(keys...)
		defer func() { _ = s.store.Close() }()
		first := s.opened(keys[len(keys)-1])
		s.addFixtures(first)
		s.start(first) // an earlier process makes the signing keys
		s.start(s.store)
		f(t, s)
	})
}

func (s *bubble) opened(keys ...[]byte) *storage.Store {
	s.t.Helper()
	store, err := storage.New(s.backend, storage.Options{Issuer: secureIssuer, MasterKeys: keys})
	if err != nil {
		s.t.Fatal(err)
	}
	return store
}

func (s *bubble) start(store *storage.Store) {
	s.t.Helper()
	s.startWith(store, authz.RegistrationClosed)
}

// startWith starts a server with a registration setting.
func (s *bubble) startWith(store *storage.Store, who authz.Registration) {
	s.t.Helper()
	var err error
	s.server, err = authz.New(s.t.Context(), authz.Config{
		Issuer: secureIssuer, Store: store, Resources: bothResources(), Registration: who, Observe: s.observed, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// addFixtures stores a person and two clients.
func (s *bubble) addFixtures(store *storage.Store) {
	s.t.Helper()
	if err := store.CreateUser(s.t.Context(), storage.User{Name: personName, Subject: "subject"}); err != nil {
		s.t.Fatal(err)
	}
	for id, source := range map[string]storage.ClientSource{"registered": storage.ClientRegistered, "configured": storage.ClientConfigured} {
		client := storage.Client{ID: id, Source: source, Created: time.Now(), Metadata: metadata.Client{
			RedirectURIs: []string{"http://127.0.0.1/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodNone, GrantTypes: bothGrants,
		}}
		if err := store.CreateClient(s.t.Context(), client); err != nil {
			s.t.Fatal(err)
		}
	}
}

// granted stores a grant of a client and returns it with its refresh token.
func (s *bubble) granted(store *storage.Store, client string) (g storage.Grant, token string) {
	s.t.Helper()
	g, _, err := store.PrepareGrant(storage.NewGrant{
		ClientID: client, Subject: "subject", UserName: personName, Resources: []string{notes}, Scopes: []string{"notes:read"},
		AuthTime: time.Now(), RedirectURI: "http://127.0.0.1/callback", Challenge: challenge, Refreshable: true, CodeTTL: time.Minute,
	})
	if err == nil {
		err = store.CreateGrant(s.t.Context(), g)
	}
	if err == nil {
		g, err = store.Grant(s.t.Context(), g.ID)
	}
	if err == nil {
		g, err = store.Redeem(s.t.Context(), g, storage.Lifetime{
			Expires: time.Now().Add(90 * 24 * time.Hour), IdleExpires: time.Now().Add(30 * 24 * time.Hour), AccessUntil: time.Now().Add(time.Hour),
		})
	}
	if err == nil {
		token, err = store.RefreshTokenOf(g, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return g, token
}

// refresh sends a refresh and returns the answer and its number of round trips.
func (s *bubble) refresh(client, token string) (reply, int64) {
	s.t.Helper()
	body := form("grant_type", "refresh_token", "client_id", client, "refresh_token", token).Encode()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/token", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	before := s.roundTrips.Load()
	s.server.ServeHTTP(w, r)
	return reply{status: w.Code, header: w.Header(), body: w.Body.String()}, s.roundTrips.Load() - before
}

// run runs the server. The returned function ends it, and returns how long that took.
func (s *bubble) run() (end func() time.Duration) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Run(ctx) }()
	return func() time.Duration {
		s.t.Helper()
		start := time.Now()
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run returned %v", err)
		}
		return time.Since(start)
	}
}

func (s *bubble) lastUsed(client string) time.Time {
	s.t.Helper()
	c, err := s.store.Client(s.t.Context(), client)
	if err != nil {
		s.t.Fatal(err)
	}
	return c.LastUsed
}

func (s *bubble) wantLogged(line string, want bool) {
	s.t.Helper()
	if got := strings.Contains(s.log.String(), line); got != want {
		s.t.Errorf("the log says %q: %t; want %t\n%s", line, got, want, s.log)
	}
}

var newKey = bytes.Repeat([]byte{9}, 32)
