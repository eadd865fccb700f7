package authz_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/safefetch"
)

// silentWeb is a web whose hosts do not answer until it is released, except those with a
// page.
type silentWeb struct {
	*webtest.Web
	held    atomic.Int32
	release chan struct{}
}

// newSilentWeb returns a harness that reads documents from such a web, behind a trusted
// proxy.
func newSilentWeb(t testing.TB, change func(*safefetch.Config)) (*harness, *silentWeb) {
	t.Helper()
	w := &silentWeb{Web: webtest.New(t), release: make(chan struct{})}
	w.Serve("*", func(rw http.ResponseWriter, r *http.Request) {
		w.held.Add(1)
		select {
		case <-w.release:
		case <-r.Context().Done():
		}
		rw.WriteHeader(http.StatusBadGateway)
	})
	return newHarness(t, setup{config: func(c *authz.Config) {
		c.Fetcher, c.Documents = w.Fetcher(change), dcr.Documents{Trust: dcr.TrustAsk}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}}), w
}

// authorizeFrom sends the authorization request of a client, as if from an address.
func (h *harness) authorizeFrom(from, id string) *httptest.ResponseRecorder {
	return h.serveFrom(from, httptest.NewRequest(http.MethodGet, h.issuer+"/authorize?"+asks(described(id, "http://127.0.0.1:49152/callback")).Encode(), nil))
}

// serveFrom calls the handler, as if from an address behind the proxy.
func (h *harness) serveFrom(from string, r *http.Request) *httptest.ResponseRecorder {
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("X-Forwarded-For", from)
	w := httptest.NewRecorder()
	h.handler.Load().ServeHTTP(w, r)
	return w
}

// patient configures a fetcher without timeouts, so that a fetch ends only when it is
// released.
func patient(c *safefetch.Config) { c.Timeout, c.Patience = time.Hour, time.Hour }

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestOneRequesterCannotHoldAllFetches: one address names 160 clients at hosts that never
// answer. While it holds all the fetches that it may hold, a person at another address signs
// in with a client that was not seen before. A second client at a silent host, named from
// that other address, does not take its place either.
func TestOneRequesterCannotHoldAllFetches(t *testing.T) {
	t.Parallel()
	h, web := newSilentWeb(t, patient)
	var flood sync.WaitGroup
	for i := range 160 {
		id := web.URL(fmt.Sprintf("h%d.example.com", i), "/client.json")
		flood.Go(func() {
			if got := h.authorizeFrom("192.0.2.1", id); got.Code != http.StatusServiceUnavailable {
				t.Errorf("a client at a host that never answers: %d", got.Code)
			}
		})
	}
	t.Cleanup(flood.Wait)
	t.Cleanup(func() { close(web.release) })
	eventually(t, "the flood holds what it may", func() bool { return web.held.Load() == 8 })
	for i, from := range []string{"192.0.2.2", "198.51.100.1", "2001:db8::1"} {
		id := web.URL(fmt.Sprintf("honest%d.example.org", i), "/client.json")
		web.Document(id, fmt.Sprintf(plainDocument, id))
		if got := h.authorizeFrom(from, id); got.Code != http.StatusSeeOther {
			t.Errorf("from %s: %d %s", from, got.Code, got.Body)
		}
	}
	if n := web.held.Load(); n != 8 {
		t.Errorf("the flood holds %d fetches, want 8", n)
	}
}

// TestKnownClientsAreReadApart: while networks hold all fetches for unknown clients and more of them
// wait, the document of a known client is read again in the first place that a silent host loses.
func TestKnownClientsAreReadApart(t *testing.T) {
	t.Parallel()
	h, web := newSilentWeb(t, func(c *safefetch.Config) { c.Timeout, c.Patience, c.MaxConcurrent = time.Hour, 2*time.Second, 4 })
	known := web.URL("client.example.org", "/client.json")
	web.Document(known, fmt.Sprintf(plainDocument, known), "Cache-Control: max-age=60")
	if got := h.authorizeFrom("198.51.100.1", known); got.Code != http.StatusSeeOther {
		t.Fatalf("the known client: %d", got.Code)
	}
	h.clock.advance(2 * time.Minute)
	var flood sync.WaitGroup
	for i := range 20 {
		id := web.URL(fmt.Sprintf("h%d.example.com", i), "/client.json")
		flood.Go(func() { h.authorizeFrom(fmt.Sprintf("203.0.%d.1", i), id) })
	}
	t.Cleanup(flood.Wait)
	t.Cleanup(func() { close(web.release) })
	eventually(t, "all places are held", func() bool { return web.held.Load() >= 4 })
	if got := h.authorizeFrom("198.51.100.1", known); got.Code != http.StatusSeeOther {
		t.Errorf("the known client is not read again: %d %s", got.Code, got.Body)
	}
	if n := web.Hits(known); n != 2 {
		t.Errorf("its document was read %d times, want 2", n)
	}
}

// TestDeadlinesAre503: a request whose deadline passes while the client's document is
// fetched gets 503 at every endpoint, and not 500.
func TestDeadlinesAre503(t *testing.T) {
	t.Parallel()
	h, web := newSilentWeb(t, patient)
	t.Cleanup(func() { close(web.release) })
	h.withDefaultWriteTime()
	keyed := testClients()["native"]
	keyed.ID, keyed.Metadata.TokenEndpointAuthMethod = "keyed", "private_key_jwt"
	keyed.Metadata.JWKSURI = web.URL("keys.example.com", "/jwks.json")
	h.addClient(keyed.Client)
	document := []string{"client_id", web.URL("client.example.com", "/client.json")}
	key := func() []string {
		return []string{"client_assertion_type", dcr.AssertionType, "client_assertion", h.assertion(clientKey(), "keyed", h.issuer, nil)}
	}
	for name, test := range map[string]struct {
		path  string
		pairs []string
	}{
		"a document for a token":      {"/token", append(document, "grant_type", "refresh_token", "refresh_token", "x")},
		"a document for a revocation": {"/revoke", append(document, "token", "x")},
		"a key for a token":           {"/token", append(key(), "grant_type", "refresh_token", "refresh_token", "x")},
		"a key for a revocation":      {"/revoke", append(key(), "token", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			got := h.post(test.path, test.pairs...)
			if got.status != http.StatusServiceUnavailable || got.member(t, "error") != "temporarily_unavailable" || got.header.Get("Retry-After") == "" {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestLogosOfOneClient: repeated changes of the logo of one registration cause only a few
// fetches, whatever the host answers. Another client's logo is still fetched.
func TestLogosOfOneClient(t *testing.T) {
	t.Parallel()
	h, web := newSilentWeb(t, nil)
	t.Cleanup(func() { close(web.release) })
	var asked atomic.Int32
	web.Serve("*", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	page := web.URL(clientHost, "/about")
	c := h.illustrated("changing", page, web.URL(clientHost, "/victim"))
	for i := range 100 {
		stored, err := h.store.Client(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		stored.Metadata.LogoURI = web.URL(clientHost, fmt.Sprintf("/victim/%d", i))
		if err := h.store.UpdateClient(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		h.clock.advance(6 * time.Second) // the server sees the change
		if got := h.serveFrom("192.0.2.1", httptest.NewRequest(http.MethodGet, h.issuer+"/authorize?"+asks(c).Encode(), nil)); got.Code != http.StatusSeeOther {
			t.Fatalf("authorize: %d %s", got.Code, got.Body)
		}
	}
	h.consentPageWithLogo(h.illustrated("another", page, web.URL(clientHost, "/other.png")))
	if n := asked.Load(); n < 2 || n > 12 {
		t.Errorf("%d fetches for 100 logos of one client in ten minutes and one of another, want at most 12", n)
	}
}
