package dcr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const registerURL = "https://auth.example.com/register"

// counting counts what reaches a backend, remembers what is stored, and fails on demand.
type counting struct {
	storage.Backend
	gets, writes atomic.Int64
	down         atomic.Bool

	mu     sync.Mutex
	stored []byte
}

var errDown = errors.New("connection refused by 192.0.2.1:6379")

func (c *counting) Get(ctx context.Context, key string) (storage.Item, error) {
	c.gets.Add(1)
	if c.down.Load() {
		return storage.Item{}, errDown
	}
	return c.Backend.Get(ctx, key)
}

func (c *counting) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	c.writes.Add(1)
	if c.down.Load() {
		return storage.Item{}, errDown
	}
	c.mu.Lock()
	c.stored = append(c.stored, put.Data...)
	c.mu.Unlock()
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

// fixture is a registry with everything around it that a test looks at.
type fixture struct {
	*dcr.Registry
	store   *storage.Store
	backend *counting
	clock   *clock
	log     *bytes.Buffer
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newFixture returns a registry over the embedded store. change may alter its Config.
func newFixture(t testing.TB, change func(*dcr.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: &clock{}, log: &bytes.Buffer{}}
	f.clock.nanoseconds.Store(start.UnixNano())
	embedded, err := redis.Open(context.Background(), redis.Options{URL: "embedded:", Now: f.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	f.backend = &counting{Backend: embedded}
	f.store, err = storage.New(f.backend, storage.Options{Issuer: "https://auth.example.com", Now: f.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	config := dcr.Config{
		Store: f.store, Endpoint: registerURL, Scopes: []string{"notes:read", "notes:write", "offline_access"},
		Now: f.clock.now, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	if f.Registry, err = dcr.New(config); err != nil {
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
	r := httptest.NewRequest(http.MethodGet, registerURL+"/"+id, nil)
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return serve(t, f.Configuration(), r)
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
		{"static client with an unknown method", "token_endpoint_auth_method", static(func(c *storage.Client) { c.Metadata.TokenEndpointAuthMethod = "private_key_jwt" })},
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
			registry, err := dcr.New(config)
			if registry != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
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
			if method == allowed {
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
	check(f.Configuration(), "GET")
}

// failing is a body that breaks off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (failing) Close() error             { return nil }
