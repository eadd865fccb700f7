package authz_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// The issuers, resources and the person of the tests.
const (
	secureIssuer   = "https://auth.example.com"
	loopbackIssuer = "http://127.0.0.1:8080"

	notes       = "https://notes.example.com/mcp"
	tasks       = "https://tasks.example.com/mcp"
	notesSecret = "the-secret-of-the-notes-server"
	tasksSecret = "the-secret-of-the-tasks-server"

	personName     = "reader"
	personPassword = "correct horse battery"

	// The example of RFC 7636 appendix B.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// harness is a server with its environment: a store whose operations can be counted and made
// to fail, a clock, a log, and an HTTP transport that reaches it under the issuer's name.
type harness struct {
	t      testing.TB
	cfg    authz.Config
	issuer string

	faults     *storagetest.Faults
	meter      *meter
	roundTrips atomic.Int64
	store      *storage.Store
	clock      *clock
	log        *syncBuffer

	rehash    bool
	handler   atomic.Pointer[authz.Server]
	handling  *handling
	transport *http.Transport
	wire      func(http.RoundTripper) http.RoundTripper // is told what the transport carries, if set
}

// setup holds the settings that a test changes.
type setup struct {
	issuer string
	config func(*authz.Config)
	store  *storage.Store // shared with another harness
	rehash bool           // hashes of passwords that took less work are replaced
}

var masterKey = bytes.Repeat([]byte{7}, 32)

func newHarness(t testing.TB, b setup) *harness {
	t.Helper()
	h := &harness{t: t, issuer: b.issuer, clock: &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}, log: &syncBuffer{}, rehash: b.rehash, handling: newHandling()}
	if h.issuer == "" {
		h.issuer = secureIssuer
	}
	h.openStore()
	if b.store != nil {
		h.store = b.store
	}
	h.cfg = authz.Config{
		Issuer: h.issuer, Store: h.store, Resources: bothResources(), Registration: authz.RegistrationOpen,
		Now: h.clock.Now, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	if b.config != nil {
		b.config(&h.cfg)
	}
	if b.store == nil {
		h.addFixtures()
	}
	h.restart()
	h.listen()
	return h
}

func bothResources() []authz.Resource {
	return []authz.Resource{{
		URI: notes, Name: "Notes", Default: true,
		Scopes:        []authz.Scope{{Name: "notes:read", Description: "Read your notes"}, {Name: "notes:write", Description: "Add and change notes"}},
		Introspection: &authz.IntrospectionClient{ID: notes, Secret: notesSecret},
	}, {
		URI: tasks, Name: "Tasks",
		Scopes:        []authz.Scope{{Name: "tasks:read", Description: "See your tasks"}, {Name: "tasks:write", Description: "Change your tasks"}},
		DefaultScopes: []string{"tasks:read"},
		Introspection: &authz.IntrospectionClient{ID: "tasks", Secret: tasksSecret},
	}}
}

func (h *harness) openStore() {
	h.t.Helper()
	backend, err := redis.Open(h.t.Context(), redis.Options{URL: "embedded:", Now: h.clock.Now, OnRoundTrip: func() { h.roundTrips.Add(1) }})
	if err != nil {
		h.t.Fatal(err)
	}
	h.faults = storagetest.NewFaults(backend)
	h.meter = &meter{Backend: h.faults}
	h.store = h.storeWithin(time.Minute) // long, because the machine may be slow
	h.t.Cleanup(func() { _ = backend.Close() })
}

// storeWithin returns a store with that write time, which also limits requests.
func (h *harness) storeWithin(within time.Duration) *storage.Store {
	h.t.Helper()
	store, err := storage.New(h.meter, storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{masterKey}, Now: h.clock.Now, WriteTime: within})
	if err != nil {
		h.t.Fatal(err)
	}
	return store
}

// withDefaultWriteTime restarts the server with the default write time, for tests that wait
// for its end.
func (h *harness) withDefaultWriteTime() *harness {
	h.t.Helper()
	h.cfg.Store = h.storeWithin(0)
	h.restart()
	return h
}

// restart replaces the server by a new one over the same store, as a new process would.
func (h *harness) restart() {
	h.t.Helper()
	server, err := authz.New(h.t.Context(), h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	if !h.rehash {
		server.KeepHashes()
	}
	h.handler.Store(server)
}

// listen serves on a free port. The transport dials that port for every host name.
func (h *harness) listen() {
	server := httptest.NewUnstartedServer(h.handling.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.handler.Load().ServeHTTP(w, r) })))
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(h.log, nil), slog.LevelError)
	if strings.HasPrefix(h.issuer, "https:") {
		server.StartTLS()
	} else {
		server.Start()
	}
	h.t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	h.transport = &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	if server.TLS != nil {
		trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		h.transport.TLSClientConfig = &tls.Config{RootCAs: trusted, ServerName: "example.com"}
	}
	h.t.Cleanup(h.transport.CloseIdleConnections)
}

// addFixtures stores the person and the clients of the tests.
func (h *harness) addFixtures() {
	h.t.Helper()
	h.addPerson(personName)
	for _, c := range testClients() {
		h.addClient(c.Client)
	}
}

// personHash is the hash of personPassword with the lowest cost of argon2id, which halves the
// time of the tests.
const personHash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdCBvZiBldmVyeW9uZQ$i2UoExwhJRnQp7fz3mX5lrhlmOc19zAnew0JT3gWxYU"

// addPerson stores a person with the password personPassword.
func (h *harness) addPerson(name string) storage.User {
	h.t.Helper()
	subject, err := h.store.NewID()
	if err != nil {
		h.t.Fatal(err)
	}
	user := storage.User{Name: name, Subject: subject, Password: personHash, Created: h.clock.Now()}
	if err := h.store.CreateUser(h.t.Context(), user); err != nil {
		h.t.Fatal(err)
	}
	return user
}

func (h *harness) addClient(c storage.Client) {
	h.t.Helper()
	c.Created = h.clock.Now()
	if err := h.store.CreateClient(h.t.Context(), c); err != nil {
		h.t.Fatal(err)
	}
}

// testClient is a stored client with its redirect URI and its secret.
type testClient struct {
	storage.Client
	redirect, secret string
}

var bothGrants = []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}

// testClients returns the clients that every harness stores, by name.
func testClients() map[string]testClient {
	members := map[string]testClient{}
	add := func(name, method, registered, requested string, change func(*storage.Client)) {
		m := testClient{redirect: requested, Client: storage.Client{ID: name + "-client", Source: storage.ClientRegistered, Metadata: metadata.Client{
			RedirectURIs: []string{registered}, TokenEndpointAuthMethod: method, GrantTypes: bothGrants,
			ResponseTypes: []string{"code"}, ClientName: "The " + name + " client",
		}}}
		if method != metadata.AuthMethodNone {
			m.secret = "the-secret-of-the-" + name + "-client"
			m.Secret = storage.HashSecret(m.secret)
		}
		if change != nil {
			change(&m.Client)
		}
		members[name] = m
	}
	const web = "https://client.example.org/callback"
	add("native", metadata.AuthMethodNone, "http://127.0.0.1/callback", "http://127.0.0.1:49152/callback", nil)
	add("other", metadata.AuthMethodNone, "http://127.0.0.1/callback", "http://127.0.0.1:49152/callback", nil)
	add("web", metadata.AuthMethodNone, web, web, nil)
	add("app", metadata.AuthMethodNone, "cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback", nil)
	add("basic", metadata.AuthMethodBasic, web, web, func(c *storage.Client) { c.Source = storage.ClientConfigured })
	add("post", metadata.AuthMethodPost, "https://post.example.org/callback?tenant=7", "https://post.example.org/callback?tenant=7", func(c *storage.Client) { c.Source = storage.ClientConfigured })
	add("several", metadata.AuthMethodNone, web, web, func(c *storage.Client) {
		c.Metadata.RedirectURIs = append(c.Metadata.RedirectURIs, "http://localhost/callback")
	})
	add("brief", metadata.AuthMethodNone, "http://127.0.0.1/callback", "http://127.0.0.1:49152/callback", func(c *storage.Client) {
		c.Metadata.GrantTypes = []string{metadata.GrantAuthorizationCode}
	})
	add("codeless", metadata.AuthMethodNone, "http://127.0.0.1/callback", "http://127.0.0.1:49152/callback", func(c *storage.Client) {
		c.Metadata.GrantTypes = []string{metadata.GrantRefreshToken}
	})
	add("disabled", metadata.AuthMethodNone, "http://127.0.0.1/callback", "http://127.0.0.1:49152/callback", func(c *storage.Client) { c.Disabled = true })
	return members
}

// syncBuffer is a log that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
