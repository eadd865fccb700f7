// Package upstreamtest is an identity provider for tests. It signs real tokens, answers like
// OpenID Connect, Entra and GitHub, and every answer can be changed.
//
//	fake := upstreamtest.New(t)
//	fake.SignIn(upstreamtest.Person{Subject: "1", Claims: map[string]any{"email": "ada@example.com", "email_verified": true}})
//	client, err := upstream.New(fake.Provider("company", upstream.OIDC), upstream.Options{Redirect: …, Dev: true})
//	address, err := client.Begin(ctx, attempt)
//	arrival, err := client.Finish(ctx, attempt, fake.Visit(t, address))
//
// It listens on a loopback address over http, so the client under test needs dev. A browser that is sent to
// it comes back at once, as the person of the last [Provider.SignIn].
package upstreamtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
)

// The client that the provider knows.
const (
	ClientID     = "gatehouse"
	ClientSecret = "not so secret: a test"
)

// Tenant is the Entra tenant that persons belong to, unless they have a claim tid.
const Tenant = "11111111-2222-3333-4444-555555555555"

// Person is who signs in.
type Person struct {
	// Subject is sub; at GitHub the number.
	Subject string
	// Claims go into the ID token and into userinfo.
	Claims map[string]any
	// GitHub is what the API answers.
	GitHub GitHub
}

// GitHub is a person at GitHub.
type GitHub struct {
	Login, Name string
	// Emails are verified addresses; the first is the primary one.
	Emails        []string
	Organisations []string
	Teams         []string // ORGANISATION/TEAM
}

// Answers changes what the provider answers. A nil field changes nothing. Functions may change
// the map that they get; they run under a lock and must not call the Provider, but for First.
type Answers struct {
	// First sees each request first, without the lock; if it returns true, it has answered.
	First func(w http.ResponseWriter, r *http.Request) bool
	// Metadata, IDToken, Header (of the ID token), Token and Userinfo change an answer. IDToken
	// also changes those of refreshes.
	Metadata, IDToken, Header, Token, Userinfo func(map[string]any)
	// Raw replaces the signed ID token.
	Raw func(signed string) string
	// Callback changes the parameters that the browser brings back.
	Callback func(url.Values)
	// Rotates gives a new refresh token at each refresh, and takes each once.
	Rotates bool
	// NoRefresh gives no refresh tokens. NoIDToken leaves the ID token out of refreshes.
	NoRefresh, NoIDToken bool
}

// Provider is the fake provider. Its methods are safe for concurrent use.
type Provider struct {
	// Server is the provider's server.
	Server *httptest.Server
	// Now is the clock for tokens. Set it before the first request; nil is [time.Now].
	Now func() time.Time

	mu       sync.Mutex
	answers  Answers
	person   Person
	key      crypto.Signer
	kid      string
	codes    map[string]signIn
	refresh  map[string]signIn
	access   map[string]signIn
	requests map[string]int
}

// signIn is what a code or token stands for.
type signIn struct {
	person                     Person
	nonce, challenge, redirect string
	scope, issuer              string
	at                         time.Time
}

// New starts a provider. It ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{
		codes: map[string]signIn{}, refresh: map[string]signIn{}, access: map[string]signIn{}, requests: map[string]int{},
		person: Person{Subject: "1", Claims: map[string]any{"name": "Ada", "email": "ada@example.com", "email_verified": true, "preferred_username": "ada"},
			GitHub: GitHub{Login: "Ada", Name: "Ada", Emails: []string{"ada@example.com"}}},
	}
	p.Rotate()
	p.Server = httptest.NewServer(p.handler())
	t.Cleanup(p.Server.Close)
	return p
}

// URL is the address of the server.
func (p *Provider) URL() string { return p.Server.URL }

// Provider returns a configuration for this provider with a preset, which lets anybody in. At Entra it
// is that of many tenants, with issuer p.URL()/organizations/v2.0; that of one is p.URL()/[Tenant]/v2.0.
func (p *Provider) Provider(id, preset string) upstream.Provider {
	issuer := p.URL()
	if preset == upstream.Entra {
		issuer += "/organizations/v2.0"
	}
	return upstream.Provider{
		ID: id, Preset: preset, Issuer: issuer, ClientID: ClientID, ClientSecret: ClientSecret,
		Allow: upstream.Allow{Anybody: true},
	}
}

// SignIn makes a person the one who is at every browser from now on. Sign-ins that began stay
// with who was there.
func (p *Provider) SignIn(who Person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = who
}

// Change changes the answers from now on.
func (p *Provider) Change(change func(*Answers)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.answers)
}

// Rotate replaces the signing key. The old one is not published any more.
func (p *Provider) Rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

// Forget ends all refresh tokens: the next refresh gets invalid_grant.
func (p *Provider) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.refresh)
}

// Requests returns how often a path was asked for, such as "/token".
func (p *Provider) Requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

// Visit is a browser that is sent to the provider: it returns what the browser brings back.
func (p *Provider) Visit(t testing.TB, address string) upstream.Callback {
	t.Helper()
	back := p.Return(t, address).Query()
	return upstream.Callback{
		Code: back.Get("code"), Issuer: back.Get("iss"), Error: back.Get("error"), ErrorDescription: back.Get("error_description"),
	}
}

// Return is a browser that is sent to the provider: it returns the address to which the provider
// sends it back.
func (p *Provider) Return(t testing.TB, address string) *url.URL {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		t.Fatalf("the provider answered %s and sent the browser nowhere", answer.Status)
	}
	return back
}

func (p *Provider) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}
