package middleware_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const introspectPath = "/introspect"

// introspects configures a guard to look up the tokens of an issuer.
func introspects(issuer *middlewaretest.Issuer, change ...func(*middleware.Introspection)) func(*middleware.Config) {
	return func(c *middleware.Config) {
		i := middleware.Introspection{}
		i.ClientID, i.ClientSecret = issuer.Credentials()
		for _, f := range change {
			f(&i)
		}
		if c.Introspection == nil {
			c.Introspection = make(map[string]middleware.Introspection)
		}
		c.Introspection[issuer.URL()] = i
	}
}

func opaque(i *middleware.Introspection) { i.Opaque = true }

// answers sets the introspection response for every token.
func answers(issuer *middlewaretest.Issuer, text string) {
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
}

func wantQuestions(t *testing.T, issuer *middlewaretest.Issuer, want int) {
	t.Helper()
	if got := issuer.IntrospectionRequests(); got != want {
		t.Fatalf("%d questions, want %d", got, want)
	}
}

func TestOpaqueTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Policy.Implies = map[string][]string{"notes:write": {"notes:read"}}
	})
	now := time.Now().Truncate(time.Second)
	token := passes(t, guard, withToken(issuer.MintOpaque(claims{
		"aud": []string{resource}, "sub": "reader", "client_id": "editor", "scope": "notes:write", "jti": "one",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})))
	if token.Subject != "reader" || token.ClientID != "editor" || token.Issuer != issuer.URL() || token.ID != "one" ||
		!slices.Equal(token.Audience, []string{resource}) || !token.HasScope("notes:write", "notes:read") || token.HasScope("admin") ||
		!token.Expiry.Equal(now.Add(time.Minute)) || !token.IssuedAt.Equal(now) {
		t.Errorf("%+v", *token)
	}
	// Optional members may be missing, unless the guard needs them.
	token = passes(t, guard, withToken(issuer.MintOpaque(claims{"aud": resource, "iss": nil, "iat": nil, "jti": nil, "scope": nil})))
	if token.Issuer != issuer.URL() || !token.IssuedAt.IsZero() || len(token.Scopes) != 0 {
		t.Errorf("%+v", *token)
	}
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource}))) // JWTs are looked up like all others
	c := refused(t, guard, withToken("invented"), http.StatusUnauthorized)
	if get(c, "error") != "invalid_token" {
		t.Errorf("%s", c)
	}
	if issuer.KeyRequests() != 0 {
		t.Error("the keys of an issuer with opaque tokens were fetched")
	}
}

// TestQuestion checks the introspection request.
func TestQuestion(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	asked := make(chan *http.Request, 1)
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- r
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	guard := newGuard(t, issuer, introspects(issuer, opaque, func(i *middleware.Introspection) {
		i.ClientID, i.ClientSecret = "notes:é +%", "p:w& =%20"
	}))
	const token = "a+b/c=="
	refused(t, guard, withToken(token), http.StatusUnauthorized)
	r := <-asked
	if r.Method != "POST" || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if want := (url.Values{"token": {token}, "token_type_hint": {"access_token"}}).Encode(); r.PostForm.Encode() != want {
		t.Errorf("the question is %s, want %s", r.PostForm.Encode(), want)
	}
	// RFC 6749 section 2.3.1.
	id, secret, _ := r.BasicAuth()
	if id != "notes%3A%C3%A9+%2B%25" || secret != "p%3Aw%26+%3D%2520" {
		t.Errorf("the credentials are %q, %q", id, secret)
	}
	if _, ok := r.Header["Idempotency-Key"]; ok || len(r.Header["Cookie"]) > 0 {
		t.Errorf("%v", r.Header)
	}
}

// TestOpaqueBesideOthers checks at which issuer each token is looked up.
func TestOpaqueBesideOthers(t *testing.T) {
	alone, both, all := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	guard := newGuard(t, all, introspects(both), introspects(all, opaque), func(c *middleware.Config) {
		c.AuthorizationServers = append(c.AuthorizationServers, alone.URL(), both.URL())
	})
	wantBoth, wantAll := 0, 0
	check := func(token string, want, moreBoth, moreAll int) {
		t.Helper()
		wantStatus(t, guard, withToken(token), want)
		wantBoth, wantAll = wantBoth+moreBoth, wantAll+moreAll
		wantQuestions(t, both, wantBoth)
		wantQuestions(t, all, wantAll)
	}
	good := claims{"aud": resource}
	check(alone.Mint(good), 200, 0, 0)
	check(both.Mint(good), 200, 1, 0)
	check(all.Mint(good), 200, 0, 1)
	check(all.MintOpaque(good), 200, 0, 1)
	check(both.MintOpaque(good), 401, 0, 1)  // is none of all's
	check(alone.MintOpaque(good), 401, 0, 1) // is none of all's
	check(middlewaretest.NewIssuer(t).Mint(good), 401, 0, 1)
	for _, broken := range alone.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
	// An issuer cannot issue tokens of another one: neither as a JWT nor in a response.
	wantAll = all.IntrospectionRequests()
	check(all.Mint(claims{"aud": resource, "iss": alone.URL()}), 401, 0, 0)
	check(all.MintOpaque(claims{"aud": resource, "iss": alone.URL()}), 401, 0, 1)
}

// TestEndpointOfTheMetadata checks the endpoint of the metadata, which applies without one in the
// configuration.
func TestEndpointOfTheMetadata(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	mint := func() *http.Request {
		now := clock.Now()
		return withToken(issuer.MintOpaque(claims{"aud": resource, "iat": nil, "exp": now.Add(time.Hour).Unix()}))
	}
	var reads atomic.Int32
	publish := func(endpoint string) {
		document, err := metadata.Serve(metadata.AuthorizationServer{Issuer: issuer.URL(), IntrospectionEndpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		issuer.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads.Add(1)
			document.ServeHTTP(w, r)
		}))
	}
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Now = clock.Now })
	for _, bad := range []string{"", "http://auth.example.com/introspect", "/introspect", "ftp://127.0.0.1/", issuer.URL() + "/introspect#a"} {
		publish(bad)
		wantAnswer(t, guard, mint(), 503)
		clock.Advance(2 * time.Second)
	}
	reads.Store(0)
	publish(issuer.URL() + introspectPath)
	for range 3 {
		wantStatus(t, guard, mint(), 200)
	}
	clock.Advance(5*time.Minute - time.Second)
	wantStatus(t, guard, mint(), 200)
	if reads.Load() != 1 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
	clock.Advance(time.Second)
	wantStatus(t, guard, mint(), 200)
	if reads.Load() != 2 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
	// The endpoint that was found stays in use.
	issuer.SetDocument(asPath, nil)
	clock.Advance(time.Hour)
	wantStatus(t, guard, mint(), 200)
	// The metadata is not read again and again while it is missing.
	fresh := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Now = clock.Now })
	reads.Store(0)
	issuer.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	for range 5 {
		wantStatus(t, fresh, mint(), 503)
	}
	if reads.Load() != 1 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
}

func TestIntrospectionRefused(t *testing.T) {
	const one, two, local = "https://auth.example.com", "https://login.example.com", "http://127.0.0.1:8080"
	good := middleware.Introspection{ClientID: "notes", ClientSecret: "secret"}
	entry := func(change func(*middleware.Introspection)) middleware.Introspection {
		i := good
		change(&i)
		return i
	}
	endpoint := func(address string) middleware.Introspection {
		return entry(func(i *middleware.Introspection) { i.Endpoint = address })
	}
	type asked = map[string]middleware.Introspection
	for name, tt := range map[string]struct {
		introspection asked
		want          string // what the error says; empty for none
	}{
		"none":                      {nil, ""},
		"both modes":                {asked{one: good, two: entry(func(i *middleware.Introspection) { i.Opaque = true })}, ""},
		"an endpoint":               {asked{one: endpoint("https://tokens.example.com/introspect")}, ""},
		"loopback":                  {asked{local: endpoint("http://127.0.0.1:8080/introspect")}, ""},
		"an unknown issuer":         {asked{"https://other.example.com": good}, "not one of the authorization servers"},
		"an issuer with a slash":    {asked{one + "/": good}, "not one of the authorization servers"},
		"two with opaque tokens":    {asked{one: entry(opaque), two: entry(opaque)}, "at most one issuer"},
		"no id":                     {asked{one: entry(func(i *middleware.Introspection) { i.ClientID = "" })}, "client id"},
		"no secret":                 {asked{one: entry(func(i *middleware.Introspection) { i.ClientSecret = "" })}, "secret"},
		"nothing":                   {asked{one: {}}, "client id"},
		"not https":                 {asked{one: endpoint("http://auth.example.com/introspect")}, "https"},
		"loopback of a real issuer": {asked{one: endpoint("http://127.0.0.1:8080/introspect")}, "https"},
		"not loopback":              {asked{local: endpoint("http://auth.example.com/introspect")}, "https"},
		"no host":                   {asked{one: endpoint("https:///introspect")}, "introspection: " + one},
		"a path":                    {asked{one: endpoint("/introspect")}, "introspection: " + one},
		"with a password":           {asked{one: endpoint("https://a:hidden@auth.example.com/introspect")}, "introspection: " + one},
		"with a fragment":           {asked{one: endpoint("https://auth.example.com/introspect#a")}, "introspection: " + one},
		"less than no time":         {asked{one: entry(func(i *middleware.Introspection) { i.Fresh = -1 })}, "below zero"},
	} {
		guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{one, two, local}, Introspection: tt.introspection})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || guard != nil || !strings.HasPrefix(err.Error(), "middleware: config: ") || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), good.ClientSecret+`"`)):
			t.Errorf("%s: the secret is in the error: %v", name, err)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	i := middleware.Introspection{Endpoint: "https://auth.example.com/introspect", ClientID: "notes", ClientSecret: "hidden"}
	config := middleware.Config{Introspection: map[string]middleware.Introspection{"https://auth.example.com": i}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "introspection", i, "pointer", &i)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "introspection", i)
	for _, text := range []string{log.String(), fmt.Sprint(i, &i, config), fmt.Sprintf("%v %+v %#v %s", i, config, config, i)} {
		if strings.Contains(text, "hidden") || !strings.Contains(text, "notes") {
			t.Errorf("%s", text)
		}
	}
}

func TestAudiences(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	accept := func(c *middleware.Config) {
		c.Audiences = []string{"api://notes", "https://Notes.example.net/", "0a1b"}
	}
	for name, guard := range map[string]*middleware.Guard{
		"JWT":    newGuard(t, issuer, accept),
		"both":   newGuard(t, issuer, accept, introspects(issuer)),
		"opaque": newGuard(t, issuer, accept, introspects(issuer, opaque)),
	} {
		for _, aud := range []any{"api://notes", "https://Notes.example.net/", "0a1b", resource, []string{"x", "0a1b"}} {
			if code, _ := status(guard, withToken(issuer.Mint(claims{"aud": aud}))); code != 200 {
				t.Errorf("%s: %q: %d", name, aud, code)
			}
		}
		for _, aud := range []any{"api://Notes", "api://notes/", "https://notes.example.net/", "https://Notes.example.net", "0A1B", "0a1b 0a1b", "", []string{"api:", "//notes"}} {
			if code, _ := status(guard, withToken(issuer.Mint(claims{"aud": aud}))); code != 401 {
				t.Errorf("%s: %q: %d", name, aud, code)
			}
		}
	}
}
