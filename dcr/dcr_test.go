package dcr_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

const registerURL = "https://auth.example.com/register"

// counting counts what reaches a backend, remembers what is stored, and fails on demand.
type counting struct {
	storage.Backend
	gets, writes atomic.Int64
	down         atomic.Bool

	mu     sync.Mutex
	stored []byte
	hook   func() // runs once, before the next Put
	gate   *gate  // at which calls wait for each other; nil without one
}

// gate holds the first calls of one kind until there are n of them, so that none has seen the
// effect of another.
type gate struct {
	op, kind string
	all      chan struct{}
	missing  atomic.Int64
}

// hold lets the first n calls of op ("get", after it; "put", before it) on a kind of record go
// on only together.
func (c *counting) hold(op, kind string, n int) {
	c.gate = &gate{op: op, kind: "gatehouse:" + kind + ":", all: make(chan struct{})}
	c.gate.missing.Store(int64(n))
}

func (g *gate) wait(op, key string) {
	if g == nil || op != g.op || !strings.HasPrefix(key, g.kind) {
		return
	}
	if g.missing.Add(-1) == 0 {
		close(g.all)
	}
	<-g.all
}

// before has a function run once, before the next Put reaches the backend.
func (c *counting) before(hook func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = hook
}

var errDown = errors.New("connection refused by 192.0.2.1:6379")

func (c *counting) Get(ctx context.Context, key string) (storage.Item, error) {
	c.gets.Add(1)
	if c.down.Load() {
		return storage.Item{}, errDown
	}
	item, err := c.Backend.Get(ctx, key)
	c.gate.wait("get", key)
	return item, err
}

func (c *counting) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	c.writes.Add(1)
	if c.down.Load() {
		return storage.Item{}, errDown
	}
	c.mu.Lock()
	c.stored = append(c.stored, put.Data...)
	hook := c.hook
	c.hook = nil
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	c.gate.wait("put", put.Key)
	return c.Backend.Put(ctx, put)
}

func (c *counting) Delete(ctx context.Context, key string) error {
	c.writes.Add(1)
	return c.Backend.Delete(ctx, key)
}

func (c *counting) IndexAdd(ctx context.Context, index, entry string) error {
	c.writes.Add(1)
	return c.Backend.IndexAdd(ctx, index, entry)
}

// clock is a clock that tests set.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanoseconds.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// fixture is a Clients with its store, clock, log and handlers.
type fixture struct {
	*dcr.Clients
	store   *storage.Store
	backend *counting
	faults  *storagetest.Faults
	clock   *clock
	log     *bytes.Buffer
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newFixture returns clients over the embedded store. change may alter their Config.
func newFixture(t testing.TB, change func(*dcr.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: &clock{}, log: &bytes.Buffer{}}
	f.clock.nanoseconds.Store(start.UnixNano())
	embedded, err := redis.Open(context.Background(), redis.Options{URL: "embedded:", Now: f.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	f.faults = storagetest.NewFaults(embedded)
	f.backend = &counting{Backend: f.faults}
	f.store, err = storage.New(f.backend, storage.Options{
		Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}, Now: f.clock.now, WriteTime: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.store.SealRecords(context.Background(), nil); err != nil { // so that it has begun
		t.Fatal(err)
	}
	f.backend.writes.Store(0)
	f.backend.gets.Store(0)
	config := dcr.Config{
		Store: f.store, Endpoint: registerURL, Scopes: []string{"notes:read", "notes:write", "offline_access"},
		Now: f.clock.now, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	if f.Clients, err = dcr.New(config); err != nil {
		t.Fatal(err)
	}
	return f
}

// answer is a response with its body decoded.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (a answer) text(member string) string {
	s, _ := a.body[member].(string)
	return s
}

func (a answer) list(member string) string {
	var all []string
	values, _ := a.body[member].([]any)
	for _, v := range values {
		s, _ := v.(string)
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func serve(t testing.TB, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, a.raw, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	return a
}

func (f *fixture) post(t testing.TB, body string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return serve(t, f.Register(), r)
}

func (f *fixture) get(t testing.TB, id string, authorization ...string) answer {
	t.Helper()
	return serve(t, f.Configuration(), f.request(http.MethodGet, id, "", authorization...))
}

func (f *fixture) put(t testing.TB, id, body string, authorization ...string) answer {
	t.Helper()
	return serve(t, f.Configuration(), f.request(http.MethodPut, id, body, authorization...))
}

// delete returns the answer to DELETE, which has a body if it is an error only.
func (f *fixture) delete(t testing.TB, id string, authorization ...string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	f.Configuration().ServeHTTP(w, f.request(http.MethodDelete, id, "", authorization...))
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if w.Code == http.StatusNoContent {
		if a.raw != "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("body %q, header %v", a.raw, w.Header())
		}
		return a
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, a.raw, err)
	}
	return a
}

// request is one to the configuration endpoint of a client.
func (f *fixture) request(method, id, body string, authorization ...string) *http.Request {
	r := httptest.NewRequest(method, registerURL+"/"+id, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return r
}

// assertRefused checks an error response and that nothing was stored for it.
func assertRefused(t *testing.T, f *fixture, a answer, status int, code string) {
	t.Helper()
	description := a.text("error_description")
	if a.status != status || a.text("error") != code || description == "" || len(a.body) != 2 {
		t.Errorf("status %d %s, want %d %s", a.status, a.raw, status, code)
	}
	if strings.ContainsFunc(description, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		t.Errorf("error_description %q holds characters that RFC 6749 section 5.2 excludes", description)
	}
	if n := f.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes reached the store", n)
	}
}

// assertMembers checks every member of an answer about a client, except those that the server
// chooses.
func assertMembers(t *testing.T, a answer, f *fixture, want string) {
	t.Helper()
	var expected map[string]any
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	expected["client_id"] = a.text("client_id")
	expected["client_id_issued_at"] = float64(start.Unix())
	expected["registration_client_uri"] = registerURL + "/" + a.text("client_id")
	expected["registration_access_token"] = a.text("registration_access_token")
	if strings.HasPrefix(fmt.Sprint(expected["token_endpoint_auth_method"]), "client_secret_") {
		expected["client_secret_expires_at"] = float64(0)
		if a.text("client_secret") != "" {
			expected["client_secret"] = a.text("client_secret")
		}
	}
	if !reflect.DeepEqual(a.body, expected) {
		t.Errorf("got %v\nwant %v", a.body, expected)
	}
	stored, err := f.store.Client(context.Background(), a.text("client_id"))
	if err != nil || !stored.RegistrationToken.Matches(a.text("registration_access_token")) {
		t.Errorf("the token is not the client's: %v", err)
	}
}

const minimal = `{"redirect_uris":["https://client.example.com/cb"]}`

func TestNewRefusesWhatCannotWork(t *testing.T) {
	f := newFixture(t, nil)
	good := func(id string) storage.Client {
		return storage.Client{ID: id, Metadata: metadata.Client{RedirectURIs: []string{"https://client.example.com/cb"}}}
	}
	static := func(change func(*storage.Client)) func(*dcr.Config) {
		client := good("client")
		change(&client)
		return func(c *dcr.Config) { c.Static = []storage.Client{client} }
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	issuers := func(all ...dcr.StatementIssuer) func(*dcr.Config) {
		return func(c *dcr.Config) { c.StatementIssuers = all }
	}
	issuer := func(name string, key any) dcr.StatementIssuer {
		return dcr.StatementIssuer{Issuer: name, Keys: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key}}}}
	}
	tests := []struct {
		name, want string
		change     func(*dcr.Config)
	}{
		{"no store", "no store", func(c *dcr.Config) { c.Store = nil }},
		{"no endpoint", "not an absolute URL", func(c *dcr.Config) { c.Endpoint = "" }},
		{"relative endpoint", "not an absolute URL", func(c *dcr.Config) { c.Endpoint = "/register" }},
		{"endpoint with a query", "query", func(c *dcr.Config) { c.Endpoint += "?a=b" }},
		{"endpoint with an empty query", "query", func(c *dcr.Config) { c.Endpoint += "?" }},
		{"endpoint with a slash", "slash", func(c *dcr.Config) { c.Endpoint += "/" }},
		{"endpoint without TLS", "https", func(c *dcr.Config) { c.Endpoint = "http://auth.example.com/register" }},
		{"static client twice", "twice", func(c *dcr.Config) { c.Static = []storage.Client{good("a"), good("a")} }},
		{"static client without an id", "the id must be", static(func(c *storage.Client) { c.ID = "" })},
		{"static client with the id of a document", "the id must be", static(func(c *storage.Client) { c.ID = "https://client.example.com/c.json" })},
		{"static client without redirect URIs", "no redirect_uris", static(func(c *storage.Client) { c.Metadata.RedirectURIs = nil })},
		{"static client with a bad redirect URI", "fragment", static(func(c *storage.Client) { c.Metadata.RedirectURIs = []string{"https://a.example.com/#"} })},
		{"static client with an unknown method", "token_endpoint_auth_method", static(func(c *storage.Client) { c.Metadata.TokenEndpointAuthMethod = "client_secret_jwt" })},
		{"static client with no key for its assertions", "needs the client's public keys", static(func(c *storage.Client) { c.Metadata.TokenEndpointAuthMethod = "private_key_jwt" })},
		{"static client with a private key", "private or symmetric", static(func(c *storage.Client) { c.Metadata.JWKS = json.RawMessage(`{"keys":[{"kty":"oct"}]}`) })},
		{"static client with another algorithm", "token_endpoint_auth_signing_alg", static(func(c *storage.Client) {
			c.Metadata.TokenEndpointAuthMethod, c.Metadata.JWKSURI = "private_key_jwt", "https://client.example.com/jwks"
			c.Metadata.TokenEndpointAuthSigningAlg = "none"
		})},
		{"unused clients for a moment", "UnusedFor", func(c *dcr.Config) { c.UnusedFor = time.Second }},
		{"unused clients for ever", "UnusedFor", func(c *dcr.Config) { c.UnusedFor = -1 }},
		{"idle clients for a day", "IdleFor", func(c *dcr.Config) { c.IdleFor = 24 * time.Hour }},
		{"no unused clients", "MaxUnused", func(c *dcr.Config) { c.MaxUnused = -1 }},
		{"no unused clients of a software", "MaxUnused", func(c *dcr.Config) { c.MaxUnusedPerSoftware = -1 }},
		{"policy with a scheme in upper case", "private-use scheme", func(c *dcr.Config) { c.Policy.PrivateUseSchemes = []string{"Cursor"} }},
		{"policy with a scheme and a colon", "private-use scheme", func(c *dcr.Config) { c.Policy.PrivateUseSchemes = []string{"cursor:"} }},
		{"policy with a URL for a host", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{"https://client.example.com"} }},
		{"policy with a host in upper case", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{"Client.example.com"} }},
		{"policy with a port", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{"client.example.com:8443"} }},
		{"policy with a wildcard inside", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{"a.*.example.com"} }},
		{"policy with a wildcard alone", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{"*"} }},
		{"policy with an empty host", "redirect host", func(c *dcr.Config) { c.Policy.RedirectHosts = []string{""} }},
		{"policy with an empty scope", "is no scope", func(c *dcr.Config) { c.Policy.Scopes = []string{""} }},
		{"policy with two scopes in one", "is no scope", func(c *dcr.Config) { c.Policy.Scopes = []string{"notes:read notes:write"} }},
		{"policy without the code grant", "grant types", func(c *dcr.Config) { c.Policy.GrantTypes = []string{"refresh_token"} }},
		{"policy with another grant", "grant types", func(c *dcr.Config) { c.Policy.GrantTypes = []string{"authorization_code", "implicit"} }},
		{"statements without an issuer", "needs a name", issuers(issuer("", publisher.Public()))},
		{"statements of one issuer twice", "configured once", issuers(issuer(publisherName, publisher.Public()), issuer(publisherName, publisher.Public()))},
		{"statements without keys", "no keys", issuers(dcr.StatementIssuer{Issuer: publisherName})},
		{"statements with a private key", "not a public", issuers(issuer(publisherName, publisher))},
		{"statements with a symmetric key", "not a public", issuers(issuer(publisherName, []byte("secret")))},
		{"statements with a weak key", "no keys that can be used", issuers(issuer(publisherName, weak.Public()))},
		{"static public client with a secret", "exactly when", static(func(c *storage.Client) {
			c.Secret, c.Metadata.TokenEndpointAuthMethod = storage.HashSecret("s"), "none"
		})},
		{"static confidential client without a secret", "exactly when", static(func(c *storage.Client) { c.Metadata.TokenEndpointAuthMethod = "client_secret_post" })},
		{"static client with another grant", "grant_types", static(func(c *storage.Client) { c.Metadata.GrantTypes = []string{"authorization_code", "implicit"} })},
		{"static client without the code grant", "grant_types", static(func(c *storage.Client) { c.Metadata.GrantTypes = []string{"refresh_token"} })},
		{"static client with another response type", "response_types", static(func(c *storage.Client) { c.Metadata.ResponseTypes = []string{"token"} })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := dcr.Config{Store: f.store, Endpoint: registerURL}
			tt.change(&config)
			clients, err := dcr.New(config)
			if clients != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	for _, endpoint := range []string{registerURL, "http://127.0.0.1:8080/register", "http://localhost:8080/a/register"} {
		if _, err := dcr.New(dcr.Config{Store: f.store, Endpoint: endpoint}); err != nil {
			t.Error(err)
		}
	}
}

func TestMethods(t *testing.T) {
	f := newFixture(t, nil)
	check := func(h http.Handler, allowed string) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "post"} {
			if slices.Contains(strings.Split(allowed, ", "), method) {
				continue
			}
			a := serve(t, h, httptest.NewRequest(method, registerURL+"/x", http.NoBody))
			assertRefused(t, f, a, http.StatusMethodNotAllowed, "invalid_request")
			if got := a.header.Get("Allow"); got != allowed {
				t.Errorf("%s: Allow: %q, want %q", method, got, allowed)
			}
		}
	}
	check(f.Register(), "POST")
	check(f.Configuration(), "DELETE, GET, PUT")
}

// failing is a body that breaks off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (failing) Close() error             { return nil }
