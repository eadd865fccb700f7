// Package zitadel has tests of sign-in at a provider that zitadel wrote.
package zitadel

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"gatehouse.example/authz/upstream"
)

const redirect = "https://auth.example.com/login/company/callback"

// rotating is the example's storage with a key that can be replaced.
type rotating struct {
	*storage.Storage
	mu  sync.Mutex
	id  string
	key *rsa.PrivateKey
}

func (r *rotating) rotate(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.key = rand.Text(), key
}

func (r *rotating) current() signing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return signing{r.id, r.key}
}

func (r *rotating) SigningKey(context.Context) (op.SigningKey, error) { return r.current(), nil }

func (r *rotating) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{published{r.current()}}, nil
}

type signing struct {
	id  string
	key *rsa.PrivateKey
}

func (s signing) ID() string                                  { return s.id }
func (s signing) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (s signing) Key() any                                    { return s.key }

type published struct{ signing }

func (p published) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (p published) Use() string                        { return "sig" }
func (p published) Key() any                           { return p.key.Public() }

// provider is a running provider with a client gatehouse, and our client of it.
type provider struct {
	*testing.T
	server   *httptest.Server
	redirect string
	store    *rotating
	handle   func(exampleop.Storage) // answers with another storage from now on
	client   *upstream.Client
	ahead    time.Duration // of our clock for caches, so that no test waits for a pause
}

// serve starts a provider. Clients of one id are the same at all providers: the last redirect URI
// counts.
func serve(t *testing.T, redirect string) *provider {
	t.Helper()
	var handler http.Handler
	p := &provider{T: t, redirect: redirect}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(p.server.Close)
	web := storage.WebClient("gatehouse", "secret", redirect)
	storage.RegisterClients(web)
	p.store = &rotating{Storage: storage.NewStorage(storage.NewUserStore(p.server.URL))}
	p.store.rotate(t)
	p.handle = func(store exampleop.Storage) {
		handler = exampleop.SetupServer(p.server.URL, store, slog.New(slog.DiscardHandler), false)
	}
	p.handle(p.store)
	return p
}

func start(t *testing.T) *provider {
	t.Helper()
	p := serve(t, redirect)
	var err error
	p.client, err = upstream.New(upstream.Provider{
		ID: "company", Issuer: p.server.URL, ClientID: "gatehouse", ClientSecret: "secret", Recheck: time.Hour,
		Allow: upstream.Allow{Domains: []string{"zitadel.ch"}},
	}, upstream.Options{Redirect: redirect, Dev: true, Now: func() time.Time { return time.Now().Add(p.ahead) }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// browse is a person with a browser who signs in and comes back to us.
func (p *provider) browse(address string) upstream.Callback {
	p.Helper()
	q := p.visit(newBrowser(p.T), address).Query()
	return upstream.Callback{Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description")}
}

// visit is a browser at the provider until it is sent back. That address is returned unopened.
func (p *provider) visit(browser *http.Client, address string) (back *url.URL) {
	p.Helper()
	there := *browser
	there.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), p.redirect) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	page, err := there.Get(address)
	if err != nil {
		p.Fatal(err)
	}
	if page.Body.Close(); back == nil {
		form := url.Values{"username": {"test-user2"}, "password": {"verysecure"}, "id": {page.Request.URL.Query().Get("authRequestID")}}
		if page, err = there.PostForm(p.server.URL+"/login/username", form); err != nil {
			p.Fatal(err)
		}
		if text, _ := io.ReadAll(page.Body); back == nil {
			p.Fatalf("the provider sent the browser nowhere: %s", text)
		}
		page.Body.Close()
	}
	return back
}

func (p *provider) signIn() (upstream.Arrival, error) {
	p.Helper()
	attempt := upstream.NewAttempt("state")
	address, err := p.client.Begin(p.Context(), attempt)
	if err != nil {
		return upstream.Arrival{}, err
	}
	return p.client.Finish(p.Context(), attempt, p.browse(address))
}

func refuses(t *testing.T, err, kind error, reason upstream.Reason) {
	t.Helper()
	if e, ok := err.(*upstream.Error); !ok || e.Kind != kind || e.Reason != reason {
		t.Errorf("error %v, want reason %s", err, reason)
	}
}

// A person signs in at zitadel's provider, is asked about again, and is gone when the provider
// says so.
func TestSignIn(t *testing.T) {
	p := start(t)
	a, err := p.signIn()
	if err != nil {
		t.Fatal(err)
	}
	if a.Issuer != p.server.URL || a.Subject != "id2" || a.Handle != "test-user2@zitadel.ch" || a.Domain != "zitadel.ch" || a.FullName != "Test User2" || a.RefreshToken == "" {
		t.Errorf("arrived %+v", a)
	}
	if _, err := p.client.Admits(a, nil); err != nil {
		t.Error(err)
	}
	if ok, why, err := p.client.CanRecheck(t.Context()); !ok || err != nil {
		t.Error(ok, why, err)
	}
	again, err := p.client.Recheck(t.Context(), upstream.Held{Issuer: a.Issuer, Subject: a.Subject, RefreshToken: a.RefreshToken})
	if err != nil || again.Subject != "id2" || again.RefreshToken == "" || again.RefreshToken == a.RefreshToken {
		t.Fatalf("asked again: %+v, %v", again, err)
	}
	if err := p.store.TerminateSession(t.Context(), "id2", "gatehouse"); err != nil {
		t.Fatal(err)
	}
	_, err = p.client.Recheck(t.Context(), upstream.Held{Issuer: a.Issuer, Subject: a.Subject, RefreshToken: again.RefreshToken})
	refuses(t, err, upstream.ErrGone, upstream.ReasonGone)
}

// What goes wrong with it is told apart.
func TestFailures(t *testing.T) {
	p := start(t)
	attempt := upstream.NewAttempt("state")
	address, err := p.client.Begin(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	back := p.browse(address)
	if _, err := p.client.Finish(t.Context(), attempt, back); err != nil {
		t.Fatal(err)
	}
	_, err = p.client.Finish(t.Context(), attempt, back)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonCode)

	back = p.browse(address)
	_, err = p.client.Finish(t.Context(), upstream.NewAttempt("state"), back) // another verifier
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonCode)

	other := attempt
	other.Nonce = "that of another sign-in"
	_, err = p.client.Finish(t.Context(), other, p.browse(address))
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonNonce)

	back = p.browse(address + "&prompt=none")
	_, err = p.client.Finish(t.Context(), attempt, back)
	refuses(t, err, upstream.ErrDenied, upstream.ReasonDenied)

	// Two providers, one browser: the answer of one is not the answer of the other.
	evil := start(t)
	if _, err = evil.client.Begin(t.Context(), attempt); err != nil {
		t.Fatal(err)
	}
	_, err = evil.client.Finish(t.Context(), attempt, p.browse(address))
	if err == nil {
		t.Error("one provider's answer counts at the other")
	}
}

// A new key counts at once, and without the provider there are no new sign-ins.
func TestRotationAndDown(t *testing.T) {
	p := start(t)
	if _, err := p.signIn(); err != nil {
		t.Fatal(err)
	}
	p.store.rotate(t)
	p.ahead += 5 * time.Second
	if _, err := p.signIn(); err != nil {
		t.Fatal(err)
	}
	attempt := upstream.NewAttempt("state")
	address, err := p.client.Begin(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	back := p.browse(address)
	p.server.Close()
	_, err = p.client.Finish(t.Context(), attempt, back)
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
}
