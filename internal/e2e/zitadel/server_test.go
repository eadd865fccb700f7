package zitadel

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const (
	notes    = "https://notes.example.com/mcp"
	callback = "http://127.0.0.1:4711/callback" // of the client
	verifier = "a-code-verifier-of-the-tests-with-the-other-provider"
)

// site is an authorization server at which people sign in with a provider of zitadel's.
type site struct {
	*testing.T
	server  *httptest.Server
	store   *storage.Store
	company *provider
	client  string
}

// open starts a site that asks company again about its people each second.
func open(t *testing.T) *site {
	t.Helper()
	var handler http.Handler
	s := &site{T: t}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(s.server.Close)
	s.company = serve(t, s.server.URL+"/login/company/callback")
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	s.store, err = storage.New(backend, storage.Options{Issuer: s.server.URL, MasterKeys: [][]byte{[]byte("a key of thirty-two bytes, or so")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	one := upstream.Provider{
		ID: "company", Name: "Example Company", Issuer: s.company.server.URL, ClientID: "gatehouse", ClientSecret: "secret",
		Allow: upstream.Allow{Domains: []string{"zitadel.ch"}}, Recheck: time.Second,
	}
	server, err := authz.New(t.Context(), authz.Config{
		Issuer: s.server.URL, Store: s.store, Registration: authz.RegistrationOpen, Providers: []upstream.Provider{one}, InsecureProviders: true,
		Resources: []authz.Resource{{URI: notes, Name: "Notes", Default: true, Scopes: []authz.Scope{{Name: "notes:read", Description: "Read your notes"}}}},
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler = server
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	registration := `{"client_name":"Example Client","redirect_uris":["` + callback + `"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`
	answer, err := s.server.Client().Post(s.server.URL+"/register", "application/json", strings.NewReader(registration))
	s.client, _ = s.object(answer, err, http.StatusCreated)["client_id"].(string)
	return s
}

// object reads a JSON object.
func (s *site) object(answer *http.Response, err error, status int) (members map[string]any) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&members); err != nil || answer.StatusCode != status {
		s.Fatalf("%s %v, %v; want %d", answer.Status, members, err, status)
	}
	return members
}

// visitor is a browser that stays at the site, with the page that it shows.
type visitor struct {
	*site
	*http.Client
	status int
	page   string
	away   *url.URL // where the page leads elsewhere
}

func (s *site) newVisitor() *visitor {
	v := &visitor{site: s, Client: newBrowser(s.T)}
	v.Transport = s.server.Client().Transport
	v.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), s.server.URL) {
			return nil
		}
		return http.ErrUseLastResponse
	}
	return v
}

func (v *visitor) load(r *http.Request, err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
	answer, err := v.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.Fatal(err)
	}
	v.status, v.page = answer.StatusCode, string(text)
	v.away, _ = answer.Location()
}

func (v *visitor) open(address string) {
	v.Helper()
	v.load(http.NewRequest(http.MethodGet, address, nil))
}

var (
	action = regexp.MustCompile(`<form [^>]*action="([^"]+)"`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// press sends the form of the page with a button, and more values.
func (v *visitor) press(name, value string, more ...string) {
	v.Helper()
	to := action.FindStringSubmatch(v.page)
	if to == nil {
		v.Fatalf("no form in %d %s", v.status, v.page)
	}
	values := url.Values{name: {value}}
	for _, input := range hidden.FindAllStringSubmatch(v.page, -1) {
		values.Add(input[1], html.UnescapeString(input[2]))
	}
	for i := 0; i+1 < len(more); i += 2 {
		values.Add(more[i], more[i+1])
	}
	target, err := url.Parse(v.server.URL)
	if err == nil {
		target, err = target.Parse(html.UnescapeString(to[1]))
	}
	if err != nil {
		v.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, target.String(), strings.NewReader(values.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", v.server.URL)
	}
	v.load(r, err)
}

// ask opens the client's request.
func (v *visitor) ask(more string) {
	v.Helper()
	challenge := sha256.Sum256([]byte(verifier))
	v.open(v.server.URL + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {v.client}, "redirect_uri": {callback}, "state": {"state of the client"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode() + more)
}

// depart allows the client on the page before the provider, and returns the address there.
func (v *visitor) depart() string {
	v.Helper()
	v.ask("")
	v.press("provider", "company")
	if v.away != nil || !strings.Contains(v.page, "Example Client") {
		v.Fatalf("the client is not shown before the provider: %s, %d %s", v.away, v.status, v.page)
	}
	v.press("decision", "allow")
	if v.away == nil || !strings.HasPrefix(v.away.String(), v.company.server.URL) {
		v.Fatalf("the browser is not sent to the provider: %s, %d %s", v.away, v.status, v.page)
	}
	return v.away.String()
}

// comeBack signs in at the provider, and returns the callback unopened.
func (v *visitor) comeBack() *url.URL {
	v.Helper()
	return v.company.visit(v.Client, v.depart())
}

// signedIn reports whether the browser has a session.
func (v *visitor) signedIn() bool {
	v.Helper()
	v.ask("&prompt=none")
	if v.away == nil {
		v.Fatalf("prompt=none is answered with %d %s", v.status, v.page)
	}
	return v.away.Query().Get("error") != "login_required"
}

// token sends a request to the token endpoint.
func (s *site) token(status int, pairs ...string) map[string]any {
	s.Helper()
	values := url.Values{"client_id": {s.client}}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	answer, err := s.server.Client().PostForm(s.server.URL+"/token", values)
	return s.object(answer, err, status)
}

// signIn comes back from the provider, allows the client, and redeems its code.
func (v *visitor) signIn() (refresh string) {
	v.Helper()
	v.open(v.comeBack().String())
	if !strings.Contains(v.page, "test-user2@zitadel.ch (Example Company)") {
		v.Fatalf("the account is not shown before there is a code: %d %s", v.status, v.page)
	}
	v.press("decision", "allow", "scope", "notes:read")
	if v.away == nil || !strings.HasPrefix(v.away.String(), callback) {
		v.Fatalf("the browser is not sent to the client: %s, %d %s", v.away, v.status, v.page)
	}
	tokens := v.token(http.StatusOK, "grant_type", "authorization_code", "code", v.away.Query().Get("code"), "redirect_uri", callback, "code_verifier", verifier)
	refresh, _ = tokens["refresh_token"].(string)
	return refresh
}

// people returns the names of the accounts.
func (s *site) people() (names []string) {
	s.Helper()
	for user, err := range s.store.Users(s.Context()) {
		if err != nil {
			s.Fatal(err)
		}
		names = append(names, user.Name)
	}
	return names
}

// TestServerSignIn: a person signs in at zitadel's provider, and a client works for them until the
// provider does not know them any more.
func TestServerSignIn(t *testing.T) {
	s := open(t)
	v := s.newVisitor()
	tokens := s.token(http.StatusOK, "grant_type", "refresh_token", "refresh_token", v.signIn())
	if names := s.people(); len(names) != 1 || names[0] != "company/test-user2@zitadel.ch" || !v.signedIn() {
		t.Errorf("people %q", names)
	}
	if err := s.company.store.TerminateSession(t.Context(), "id2", "gatehouse"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); v.signedIn(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a person whom the provider does not know stays signed in")
		}
	}
	refused := s.token(http.StatusBadRequest, "grant_type", "refresh_token", "refresh_token", tokens["refresh_token"].(string))
	if refused["error"] != "invalid_grant" {
		t.Errorf("refresh: %v", refused)
	}
	s.newVisitor().signIn()
}

// TestServerFailures: what goes wrong on the way to zitadel's provider and back is a page with a code,
// leaves nobody signed in and no account, and keeps nobody out.
func TestServerFailures(t *testing.T) {
	s := open(t)
	with := func(u *url.URL, name, value string) string {
		values := u.Query()
		values.Set(name, value)
		u.RawQuery = values.Encode()
		return u.String()
	}
	for name, f := range map[string]struct {
		fail   func(v *visitor) // the last page is the answer
		status int
		code   string
	}{
		"wrong state":     {func(v *visitor) { v.open(with(v.comeBack(), "state", "made.up")) }, 400, "invalid_request"},
		"another browser": {func(v *visitor) { back := s.newVisitor().comeBack(); v.open(back.String()) }, 400, "invalid_request"},
		"another transaction": {func(v *visitor) {
			code := v.comeBack().Query().Get("code")
			v.open(with(v.comeBack(), "code", code))
		}, 400, "invalid_request"},
		"another nonce":    {func(v *visitor) { v.open(v.company.visit(v.Client, v.depart()+"&nonce=of+another").String()) }, 502, "server_error"},
		"an error":         {func(v *visitor) { v.open(v.company.visit(v.Client, v.depart()+"&prompt=none").String()) }, 403, "access_denied"},
		"another issuer":   {func(v *visitor) { v.open(with(v.comeBack(), "iss", "https://other.example.com")) }, 502, "server_error"},
		"unknown provider": {func(v *visitor) { v.open(strings.Replace(v.comeBack().String(), "/company/", "/other/", 1)) }, 404, "invalid_request"},
	} {
		v := s.newVisitor()
		if f.fail(v); v.status != f.status || v.away != nil || !strings.Contains(v.page, "<h1") || !strings.Contains(v.page, "<code>"+f.code+"</code>") {
			t.Errorf("%s: %s, %d %s", name, v.away, v.status, v.page)
		}
		if names := s.people(); len(names) != 0 || v.signedIn() {
			t.Errorf("%s: people %q, or somebody is signed in", name, names)
		}
	}
	v := s.newVisitor()
	back := v.comeBack().String()
	if v.open(back); v.status != http.StatusOK || !v.signedIn() {
		t.Fatalf("an honest sign-in: %d %s", v.status, v.page)
	}
	if v.open(back); v.status != http.StatusBadRequest || len(s.people()) != 1 {
		t.Errorf("its callback again: %d %s", v.status, v.page)
	}
	s.company.store.rotate(t)
	s.newVisitor().signIn() // with the new key
	v = s.newVisitor()
	back = v.comeBack().String()
	s.company.server.Close()
	if v.open(back); v.status != http.StatusServiceUnavailable || !strings.Contains(v.page, "Example Company") || v.signedIn() {
		t.Errorf("the provider is down: %d %s", v.status, v.page)
	}
}
