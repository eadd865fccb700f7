package authz_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
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

// The cast of the tests.
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

// clock is a clock that moves when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// meter is a backend that counts, and that lets a test step in before and after a call.
type meter struct {
	storage.Backend
	reads, writes atomic.Int64
	before, after atomic.Pointer[func(op, key string)]
}

func (m *meter) note(op, key string, n *atomic.Int64) (done func()) {
	n.Add(1)
	call(&m.before, op, key)
	return func() { call(&m.after, op, key) }
}

func call(hook *atomic.Pointer[func(op, key string)], op, key string) {
	if f := hook.Load(); f != nil {
		(*f)(op, key)
	}
}

// hold lets the first n reads of grants return only when all of them have been made, so
// that every reader sees the same record.
func (m *meter) hold(n int) { m.holdReadsOf("grant", n) }

// holdReadsOf is hold for another kind of record.
func (m *meter) holdReadsOf(kind string, n int) {
	var made atomic.Int64
	all := make(chan struct{})
	f := func(op, key string) {
		if op != "get" || !strings.HasPrefix(key, "gatehouse:"+kind+":") {
			return
		}
		if made.Add(1) == int64(n) {
			close(all)
		}
		<-all
	}
	m.after.Store(&f)
}

// once calls f before the first call of op on a key of that kind.
func (m *meter) once(hook *atomic.Pointer[func(op, key string)], op, kind string, f func()) {
	var done atomic.Bool
	step := func(o, key string) {
		if o == op && strings.HasPrefix(key, "gatehouse:"+kind+":") && done.CompareAndSwap(false, true) {
			f()
		}
	}
	hook.Store(&step)
}

func (m *meter) Get(ctx context.Context, key string) (storage.Item, error) {
	defer m.note("get", key, &m.reads)()
	return m.Backend.Get(ctx, key)
}

func (m *meter) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	defer m.note("get many", "", &m.reads)()
	return m.Backend.GetMany(ctx, keys)
}

func (m *meter) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if l, err := m.Backend.Lineage(ctx); put.Confirmation && err == nil && l == "" {
		return m.Backend.Put(ctx, put) // nobody has to confirm anything, so nothing is sent
	}
	if m.before.Load() != nil { // the most that can come between an entry and its item
		for _, l := range put.Listed {
			if err := m.IndexAdd(ctx, l.Index, l.Entry); err != nil {
				return storage.Item{}, err
			}
		}
		put.Listed = nil
	}
	defer m.note("put", put.Key, &m.writes)()
	return m.Backend.Put(ctx, put)
}

func (m *meter) Delete(ctx context.Context, key string) error {
	defer m.note("delete", key, &m.writes)()
	return m.Backend.Delete(ctx, key)
}

func (m *meter) IndexAdd(ctx context.Context, index, entry string) error {
	defer m.note("index add", index, &m.writes)()
	return m.Backend.IndexAdd(ctx, index, entry)
}

func (m *meter) IndexRemove(ctx context.Context, index, entry string) error {
	defer m.note("index remove", index, &m.writes)()
	return m.Backend.IndexRemove(ctx, index, entry)
}

func (m *meter) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	defer m.note("index page", index, &m.reads)()
	return m.Backend.IndexPage(ctx, index, after, limit)
}

func (m *meter) IndexLen(ctx context.Context, index string) (int, error) {
	defer m.note("index len", index, &m.reads)()
	return m.Backend.IndexLen(ctx, index)
}

// house is a server with everything around it: a store that can be counted and broken,
// a clock, a log, and HTTP to reach it. The issuer's name leads to it, whatever it is.
type house struct {
	t      testing.TB
	cfg    authz.Config
	issuer string

	faults     *storagetest.Faults
	meter      *meter
	roundTrips atomic.Int64
	store      *storage.Store
	clock      *clock
	log        *syncBuffer

	handler   atomic.Pointer[authz.Server]
	transport *http.Transport
}

// build is what a test wants to be different.
type build struct {
	issuer string
	config func(*authz.Config)
	store  *storage.Store // shared with another house
}

var masterKey = bytes.Repeat([]byte{7}, 32)

func newHouse(t testing.TB, b build) *house {
	t.Helper()
	h := &house{t: t, issuer: b.issuer, clock: &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}, log: &syncBuffer{}}
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
		h.furnish()
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

func (h *house) openStore() {
	h.t.Helper()
	backend, err := redis.Open(h.t.Context(), redis.Options{URL: "embedded:", Now: h.clock.Now, OnRoundTrip: func() { h.roundTrips.Add(1) }})
	if err != nil {
		h.t.Fatal(err)
	}
	h.faults = storagetest.NewFaults(backend)
	h.meter = &meter{Backend: h.faults}
	h.store = h.storeWithin(time.Minute) // the machine may be slow
	h.t.Cleanup(func() { _ = backend.Close() })
}

// storeWithin is the store of the house with a time for writes, and for requests.
func (h *house) storeWithin(within time.Duration) *storage.Store {
	h.t.Helper()
	store, err := storage.New(h.meter, storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{masterKey}, Now: h.clock.Now, WriteTime: within})
	if err != nil {
		h.t.Fatal(err)
	}
	return store
}

// hurried restarts the server with the time that operators have by default, for tests that wait
// until it is over.
func (h *house) hurried() *house {
	h.t.Helper()
	h.cfg.Store = h.storeWithin(0)
	h.restart()
	return h
}

// restart replaces the server by a new one over the same store, as a new process would.
func (h *house) restart() {
	h.t.Helper()
	server, err := authz.New(h.t.Context(), h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.handler.Store(server)
}

// listen serves on a port of the system's choice; the transport dials it under every
// name.
func (h *house) listen() {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.handler.Load().ServeHTTP(w, r) }))
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

// furnish stores the person and the clients that tests use.
func (h *house) furnish() {
	h.t.Helper()
	h.addPerson(personName)
	for _, c := range cast() {
		h.addClient(c.Client)
	}
}

// personHash is personPassword hashed with as little work as argon2id takes, which saves tests
// half of their time.
const personHash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdCBvZiBldmVyeW9uZQ$i2UoExwhJRnQp7fz3mX5lrhlmOc19zAnew0JT3gWxYU"

// addPerson stores a person with the password of everybody.
func (h *house) addPerson(name string) storage.User {
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

func (h *house) addClient(c storage.Client) {
	h.t.Helper()
	c.Created = h.clock.Now()
	if err := h.store.CreateClient(h.t.Context(), c); err != nil {
		h.t.Fatal(err)
	}
}

// member is a client of the cast: what is stored, the redirect URI that it asks for, and
// its secret.
type member struct {
	storage.Client
	redirect, secret string
}

var bothGrants = []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}

// cast returns the clients that every house knows, by name.
func cast() map[string]member {
	members := map[string]member{}
	add := func(name, method, registered, requested string, change func(*storage.Client)) {
		m := member{redirect: requested, Client: storage.Client{ID: name + "-client", Source: storage.ClientRegistered, Metadata: metadata.Client{
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

// reply is an answer of the server, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	url    *url.URL // that was asked
}

// String is for messages: what matters, without the style of pages.
func (r reply) String() string {
	out := fmt.Sprintf("status %d", r.status)
	for _, name := range []string{"Location", "Content-Type", "Allow", "WWW-Authenticate"} {
		if v := r.header.Values(name); len(v) > 0 {
			out += fmt.Sprintf(", %s: %q", name, v)
		}
	}
	body := styleTag.ReplaceAllString(r.body, "")
	return out + "\n" + body[:min(len(body), 3000)]
}

var styleTag = regexp.MustCompile(`(?s)<head>.*</header>`)

func (r reply) location(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || r.header.Get("Location") == "" {
		t.Fatalf("status %d without a usable Location %q: %s", r.status, r.header.Get("Location"), r.body)
	}
	return u
}

// json returns the members of a JSON object.
func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(r.body), &members); err != nil {
		t.Fatalf("status %d, not a JSON object: %v\n%s", r.status, err, r.body)
	}
	return members
}

func (r reply) member(t testing.TB, name string) string {
	t.Helper()
	s, _ := r.json(t)[name].(string)
	return s
}

// send sends a request without cookies, as a program does.
func (h *house) send(r *http.Request) reply {
	h.t.Helper()
	return h.with(nil, r)
}

func (h *house) with(jar http.CookieJar, r *http.Request) reply {
	h.t.Helper()
	client := http.Client{Transport: h.transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r.WithContext(h.t.Context()))
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(body), url: r.URL}
}

// newRequest makes a request; values become the query of a GET and the form of a POST.
func (h *house) newRequest(method, path string, values url.Values) *http.Request {
	h.t.Helper()
	target, body := path, ""
	if strings.HasPrefix(path, "/") {
		target = origin(h.issuer) + path
	}
	switch {
	case method == http.MethodPost:
		body = values.Encode()
	case len(values) > 0:
		target += "?" + values.Encode()
	}
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func origin(issuer string) string {
	u, _ := url.Parse(issuer)
	return u.Scheme + "://" + u.Host
}

// post sends a form to a path below the issuer, as a program does.
func (h *house) post(path string, pairs ...string) reply {
	h.t.Helper()
	return h.send(h.newRequest(http.MethodPost, h.issuer+path, form(pairs...)))
}

func (h *house) get(path string) reply {
	h.t.Helper()
	return h.send(h.newRequest(http.MethodGet, h.issuer+path, nil))
}

// form makes values out of names and values in turn.
func form(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}

// redemption is a token request that exchanges a code, with every parameter as it
// should be. A client with client_secret_basic gets its header from authenticate.
func redemption(c member, code string) url.Values {
	values := form("grant_type", "authorization_code", "code", code, "redirect_uri", c.redirect, "code_verifier", verifier)
	return identified(c, values)
}

// naming adds the resources that a token is for to a token request.
func naming(values url.Values, resources ...string) url.Values {
	values["resource"] = resources
	return values
}

func refreshing(c member, token string) url.Values {
	return identified(c, form("grant_type", "refresh_token", "refresh_token", token))
}

func identified(c member, values url.Values) url.Values {
	if c.Metadata.TokenEndpointAuthMethod != metadata.AuthMethodBasic {
		values.Set("client_id", c.ID)
	}
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodPost {
		values.Set("client_secret", c.secret)
	}
	return values
}

// toToken sends a token request of a client.
func (h *house) toToken(c member, values url.Values) reply {
	h.t.Helper()
	return h.as(c, "/token", values)
}

// as sends a form that a client authenticates.
func (h *house) as(c member, path string, values url.Values) reply {
	h.t.Helper()
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodPrivateKeyJWT && values.Get("client_assertion") == "" {
		values = asserted(values, h.assertion(clientKey(), c.ID, h.issuer, nil))
	}
	r := h.newRequest(http.MethodPost, h.issuer+path, values)
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodBasic {
		r.SetBasicAuth(c.ID, c.secret)
	}
	return h.send(r)
}

// tokens are what a client holds after a code exchange.
type tokens struct{ access, refresh, code string }

// tokens signs in with a new browser, consents and redeems.
func (h *house) tokens(c member) tokens {
	h.t.Helper()
	return h.newBrowser().tokens(c, asks(c))
}

func (b *browser) tokens(c member, request url.Values) tokens {
	b.h.t.Helper()
	code := b.code(request)
	answer := b.h.toToken(c, redemption(c, code))
	if answer.status != http.StatusOK {
		b.h.t.Fatalf("redeem: status %d: %s", answer.status, answer.body)
	}
	return tokens{access: answer.member(b.h.t, "access_token"), refresh: answer.member(b.h.t, "refresh_token"), code: code}
}

// introspect asks as the notes server.
func (h *house) introspect(token string) reply {
	h.t.Helper()
	return h.introspectAs(notes, notesSecret, token)
}

func (h *house) introspectAs(id, secret, token string) reply {
	h.t.Helper()
	r := h.newRequest(http.MethodPost, h.issuer+"/introspect", form("token", token))
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return h.send(r)
}

func (h *house) active(token string) bool {
	h.t.Helper()
	answer := h.introspect(token)
	if answer.status != http.StatusOK {
		h.t.Fatalf("introspect: status %d: %s", answer.status, answer.body)
	}
	active, _ := answer.json(h.t)["active"].(bool)
	if !active && strings.TrimSpace(answer.body) != `{"active":false}` {
		h.t.Errorf("an inactive token must answer nothing but active: %s", answer.body)
	}
	return active
}

// claims decodes the payload of a JWT without looking at its signature.
func claims(t testing.TB, token string) map[string]any {
	t.Helper()
	return jwtPart(t, token, 1)
}

func jwtPart(t testing.TB, token string, part int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

// syncBuffer is a log that many goroutines write.
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
