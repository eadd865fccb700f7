package authz_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// brokenOff is a body that ends with an error behind a text.
type brokenOff struct{ io.Reader }

func (b brokenOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (brokenOff) Close() error { return nil }

// TestFormThatIsNotWhole: a form of which something is missing counts for nothing, however good its
// beginning is: one whose connection broke off, and one that is longer than a form may be.
func TestFormThatIsNotWhole(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	code := h.newBrowser().code(asks(c))
	good := redemption(c, code).Encode()
	const longest = 64 << 10
	padded := good + "&x=" + strings.Repeat("x", longest-len(good)-len("&x="))
	for name, body := range map[string]io.Reader{
		"broken off":       brokenOff{strings.NewReader(good)},
		"a byte too long":  strings.NewReader(padded + "x"),
		"twice as long":    strings.NewReader(padded + padded),
		"and then a break": brokenOff{strings.NewReader(padded)},
	} {
		r := httptest.NewRequest(http.MethodPost, h.issuer+"/token", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.handler.Load().ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"invalid_request"`) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, h.issuer+"/token", strings.NewReader(padded))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if w := h.serve(r); !strings.Contains(w.Body.String(), `"access_token"`) {
		t.Errorf("the longest form: %s", w.Body)
	}
}

// TestSecretsOfOneNameCountApart: wrong secrets of a resource server and wrong tokens of a registration
// leave a client of the same name what it may try, and each is counted as what it is.
func TestSecretsOfOneNameCountApart(t *testing.T) {
	t.Parallel()
	reached := &limitsReached{n: map[authz.Limit]int{}}
	h := newHarness(t, setup{config: func(c *authz.Config) { behindProxy(c); c.Observe = reached.observe }})
	const from = "192.0.2.1"
	made := h.sendJSONFrom(from, http.MethodPost, h.issuer+"/register", "", `{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"client_secret_post"}`)
	h.addClient(storage.Client{ID: "tasks", Source: storage.ClientConfigured, Secret: storage.HashSecret("s"), Metadata: metadata.Client{
		RedirectURIs: []string{"https://client.example.org/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodPost, GrantTypes: bothGrants, ResponseTypes: []string{"code"},
	}})
	atServer := h.newRequest(http.MethodPost, h.issuer+"/introspect", form("token", "x"))
	atServer.SetBasicAuth("tasks", "wrong")
	for id, wrong := range map[string]func() reply{
		made.member(t, "client_id"): func() reply {
			return h.sendJSONFrom(from, http.MethodGet, made.member(t, "registration_client_uri"), "gate_rat_wrong", "")
		},
		"tasks": func() reply {
			r := atServer.Clone(t.Context())
			r.Body, _ = atServer.GetBody()
			return h.sendFrom(from, r)
		},
	} {
		for range 20 {
			if r := wrong(); r.status != http.StatusUnauthorized {
				t.Fatalf("%s: %s", id, r)
			}
		}
		mustWait(t, id, wrong())
		r := h.newRequest(http.MethodPost, h.issuer+"/token", form("grant_type", "refresh_token", "refresh_token", "x", "client_id", id, "client_secret", "wrong"))
		if answer := h.sendFrom(from, r); answer.status != http.StatusUnauthorized {
			t.Errorf("the first wrong secret of the client %s: %s", id, answer)
		}
	}
	if n, others := reached.of(authz.LimitSecret), reached.of(authz.LimitSignIn); n != 1 || others != 0 {
		t.Errorf("the limit on secrets was reached %d times, that on sign-ins %d times", n, others)
	}
}

// TestAssertionEndsAGrant: a client that may do without keys and proves who it is all the same ends the
// whole grant with an access token (RFC 7009 section 2.1).
func TestAssertionEndsAGrant(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	both := signing(h)
	both.ID, both.AuthMethods = "both-ways", []string{metadata.AuthMethodNone, metadata.AuthMethodPrivateKeyJWT}
	both.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodNone
	h.addClient(both.Client)
	w := h.twoTokens(both)
	ends := func(values url.Values) {
		t.Helper()
		if r := h.send(h.newRequest(http.MethodPost, h.issuer+"/revoke", values)); r.status != http.StatusOK {
			t.Fatal(r)
		}
	}
	ends(asserted(form("token", w.ofNotes), h.assertion(clientKey(), both.ID, h.issuer, nil)))
	w.mustBeAlive("with an assertion", false, false)
	w = h.twoTokens(both)
	ends(form("token", w.ofNotes, "client_id", both.ID))
	w.mustBeAlive("without one", false, true)
}

// TestAuditOfWhatNoPersonDid: a logout at a provider and the removal of an idle client are recorded as
// of the provider and of this server. The provider's has no network: none is the person's.
func TestAuditOfWhatNoPersonDid(t *testing.T) {
	t.Parallel()
	trail := &events{}
	p := newAtProvider(t, func(c *authz.Config) { c.Audit = trail.record })
	p.newBrowser().granted(p.company, testClients()["native"])
	trail.taken()
	if r := p.sendLogout("company", p.logoutOf(map[string]any{"sub": "1"})); r.status != http.StatusOK {
		t.Fatal(r)
	}
	for _, e := range trail.want(t, "a logout at the provider", audit.SignedOut) {
		if e.By != audit.ByProvider || e.Network.IsValid() || e.Provider != "company" {
			t.Errorf("a logout at the provider is recorded as %+v", e)
		}
	}
	p.clock.advance(time.Second) // a sign-in that begins at the same time as the logout is over
	c, uris := p.registered(t, []byte(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none"}`))
	c.redirect = uris[0]
	p.newBrowser().granted(p.company, c)
	p.handler.Load().DoChores(t.Context())
	p.clock.advance(200 * 24 * time.Hour)
	trail.taken()
	if err := p.handler.Load().ReapClients(t.Context()); err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, e := range trail.taken() {
		if e.Kind != audit.ClientRemoved || e.By != audit.ByServer || e.How != "idle" || e.Network.IsValid() {
			t.Errorf("the removal of an idle client is recorded as %+v", e)
		}
		if string(e.Client) == c.ID {
			removed++
		}
	}
	if removed != 1 {
		t.Errorf("the removal of an idle client is recorded %d times", removed)
	}
}

// TestLongAddress: an error page at a long address offers no language to come back to it.
func TestLongAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for length, want := range map[int]bool{100: true, 5000: false} {
		page := h.newBrowser().open(h.issuer + "/consent?transaction=none&x=" + strings.Repeat("x", length))
		if strings.Contains(page.body, "return=") != want {
			t.Errorf("an address of %d bytes: %s", length, page)
		}
	}
}

// TestTwoRedirectURIs: a request with two redirect URIs, or one that is not text, is answered on a page,
// also where the client has a single one that could be meant (OAuth 2.1 section 4.1.1).
func TestTwoRedirectURIs(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	if len(c.Metadata.RedirectURIs) != 1 {
		t.Fatalf("the client has %q", c.Metadata.RedirectURIs)
	}
	for name, values := range map[string][]string{"two": {c.redirect, c.redirect}, "a control character": {c.redirect + "\x01"}, "too long": {c.redirect + strings.Repeat("x", 4096)}} {
		request := asks(c)
		request["redirect_uri"] = values
		r := h.newBrowser().open(h.issuer + "/authorize?" + request.Encode())
		if r.status != http.StatusBadRequest || r.header.Get("Location") != "" {
			t.Errorf("%s: %s", name, r)
		}
	}
}

// TestBrowserCookieLastsLongEnough: the cookie that binds a transaction to its browser lasts longer than
// the transaction, in each answer that begins one.
func TestBrowserCookieLastsLongEnough(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	for range 2 {
		found := 0
		for name, cookie := range cookiesOf(t, b.open(h.issuer+"/authorize?"+asks(c).Encode())) {
			if strings.Contains(name, "authz_browser") {
				found++
				if cookie.MaxAge <= int((10 * time.Minute).Seconds()) {
					t.Errorf("the cookie lasts %d seconds", cookie.MaxAge)
				}
			}
		}
		if found != 1 {
			t.Errorf("%d cookies bind the browser", found)
		}
	}
}
