package authz_test

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// versions are two documents of one client, and two processes: one has read the first document and
// keeps it for a day, the other has read the second.
type versions struct {
	*harness
	web        *webtest.Web
	c          testClient
	old, newer *authz.Server
}

// changedDocument publishes a document with members, and a minute later one with others.
func changedDocument(t *testing.T, members, changed string) versions {
	t.Helper()
	h, web := withDocuments(t, nil)
	v := versions{harness: h, web: web, c: described(web.URL("client.example.com", "/client.json"), "http://127.0.0.1:49152/callback")}
	v.publish(members)
	v.newBrowser().code(asks(v.c))
	v.old = h.handler.Load()
	h.clock.advance(time.Minute)
	v.publish(changed)
	h.restart()
	v.newer = h.handler.Load()
	return v
}

func (v versions) publish(members string) {
	v.web.Document(v.c.ID, fmt.Sprintf(`{"client_id":%q,%s}`, v.c.ID, members), "Cache-Control: max-age=86400")
}

// signs returns the members of a document whose client signs with a key.
func signs(k keyPair) string {
	return `"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"private_key_jwt","jwks":` + k.set()
}

// TestChangedDocumentInTwoProcesses: a process that keeps an earlier document of a client reads it
// again before it refuses what the newer document, which another process has read, allows.
func TestChangedDocumentInTwoProcesses(t *testing.T) {
	t.Parallel()
	const (
		plain   = `"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"]`
		renamed = `"client_name":"Notes 2","redirect_uris":["http://127.0.0.1/callback"]`
		moved   = `"client_name":"Notes","redirect_uris":["http://127.0.0.1/other"]`
	)
	fresh, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, before, after, redirect string
		signs                         *keyPair
		atOld                         string // the step that the process with the earlier document serves
	}{
		{"a name, before the decision", plain, renamed, "", nil, "pages"},
		{"a redirect URI, at the beginning", plain, moved, "http://127.0.0.1:49152/other", nil, "start"},
		{"a redirect URI, at the exchange", plain, moved, "http://127.0.0.1:49152/other", nil, "exchange"},
		{"a grant type, at the refresh", plain + `,"grant_types":["authorization_code"]`, plain, "", nil, "refresh"},
		{"a method, at the exchange", plain, signs(keyPair{fresh}), "", &keyPair{fresh}, "exchange"},
		{"a key, at the exchange", signs(clientKey()), signs(keyPair{fresh}), "", &keyPair{fresh}, "exchange"},
		{"a key, at the refresh", signs(clientKey()), signs(keyPair{fresh}), "", &keyPair{fresh}, "refresh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := changedDocument(t, tt.before, tt.after)
			v.c.redirect = cmp.Or(tt.redirect, v.c.redirect)
			at := func(step string) {
				v.handler.Store(map[bool]*authz.Server{true: v.old, false: v.newer}[step == tt.atOld])
			}
			proved := func(values url.Values) url.Values {
				if tt.signs == nil {
					return values
				}
				return asserted(values, v.assertion(*tt.signs, v.c.ID, v.issuer, nil))
			}
			b := v.newBrowser()
			at("start")
			b.open("/authorize?" + asks(v.c).Encode())
			at("pages")
			if b.follow(); b.last.status != http.StatusOK {
				t.Fatalf("page: %s", b.last)
			}
			at("consent")
			b.submit("username", personName, "password", personPassword)
			b.follow()
			code := b.submit("decision", "allow").location(t).Query().Get("code")
			at("exchange")
			answer := v.toToken(v.c, proved(redemption(v.c, code)))
			if answer.status != http.StatusOK {
				t.Fatalf("exchange: %s", answer)
			}
			at("refresh")
			if answer = v.toToken(v.c, proved(refreshing(v.c, answer.member(t, "refresh_token")))); answer.status != http.StatusOK {
				t.Errorf("refresh: %s", answer)
			}
		})
	}
}

// TestConnectsAgainAfterAChange: a process with an earlier document begins the request, and one with the
// newer refuses its pages. Who connects again as they are told gets on at the same two processes, and who
// was refused nothing causes no request to the host. While it does not answer, the earlier document counts.
func TestConnectsAgainAfterAChange(t *testing.T) {
	t.Parallel()
	const document = `"client_name":%q,"redirect_uris":["http://127.0.0.1/callback"]`
	v := changedDocument(t, fmt.Sprintf(document, "Notes"), fmt.Sprintf(document, "Notes 2"))
	connect := func(b *browser, want int) {
		t.Helper()
		v.handler.Store(v.old)
		b.open("/authorize?" + asks(v.c).Encode())
		v.handler.Store(v.newer)
		if b.follow(); b.last.status != want || strings.Contains(b.last.body, "has changed") != (want == http.StatusBadRequest) {
			t.Fatalf("page: %s, want %d", b.last, want)
		}
	}
	b := v.newBrowser()
	connect(b, http.StatusBadRequest)
	connect(v.newBrowser(), http.StatusBadRequest)
	before := v.web.Hits(v.c.ID)
	v.web.Serve(v.c.ID, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	connect(b, http.StatusBadRequest)
	v.publish(fmt.Sprintf(document, "Notes 2"))
	v.clock.advance(5 * time.Second)
	connect(b, http.StatusOK)
	connect(v.newBrowser(), http.StatusOK)
	if n := v.web.Hits(v.c.ID) - before; n != 2 {
		t.Errorf("the document was read %d times, want once in vain and once more", n)
	}
}

// TestContradictedDocument: what a document contradicts makes no more than one request a minute to
// its host, what the newer document does not allow either is refused, and while the document cannot
// be read no client is told that it is not one.
func TestContradictedDocument(t *testing.T) {
	t.Parallel()
	v := changedDocument(t, signs(clientKey()), signs(clientKey()))
	v.handler.Store(v.old)
	code := v.newBrowser().code(asks(v.c))
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func() reply {
		return v.toToken(v.c, asserted(redemption(v.c, code), v.assertion(keyPair{stranger}, v.c.ID, v.issuer, nil)))
	}
	before := v.web.Hits(v.c.ID)
	for range 3 {
		mustRefuse(t, wrong(), http.StatusUnauthorized, "invalid_client")
		page := v.newBrowser().open("/authorize?" + replaced(asks(v.c), "redirect_uri", "http://127.0.0.1/elsewhere").Encode())
		if page.status != http.StatusBadRequest || page.header.Get("Location") != "" {
			t.Errorf("another redirect URI: %s", page)
		}
	}
	if n := v.web.Hits(v.c.ID) - before; n != 1 {
		t.Errorf("the document was read %d times", n)
	}
	v.clock.advance(time.Minute)
	code = v.newBrowser().code(asks(v.c))
	v.web.Serve(v.c.ID, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mustRefuse(t, wrong(), http.StatusServiceUnavailable, "temporarily_unavailable")
	if answer := v.toToken(v.c, asserted(redemption(v.c, code), v.assertion(clientKey(), v.c.ID, v.issuer, nil))); answer.status != http.StatusOK {
		t.Errorf("what the document allows: %s", answer)
	}
}

// TestChangedClientInTwoProcesses: a process that remembers a client of the store as it was reads it
// again before it refuses what the client, changed at another process, may do now.
func TestChangedClientInTwoProcesses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testClient){
		"a redirect URI": func(c *testClient) {
			c.redirect = "http://127.0.0.1:49152/other"
			c.Metadata.RedirectURIs = []string{c.redirect}
		},
		"a secret": func(c *testClient) {
			c.secret, c.Secret = "another secret", storage.HashSecret("another secret")
			c.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodPost
		},
		"a grant type": func(c *testClient) { c.Metadata.GrantTypes = bothGrants },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			c := testClient{redirect: "http://127.0.0.1:49152/callback", Client: storage.Client{ID: "changing-client", Source: storage.ClientRegistered, Metadata: metadata.Client{
				RedirectURIs: []string{"http://127.0.0.1:49152/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodNone, ClientName: "Changing",
				GrantTypes: []string{metadata.GrantAuthorizationCode}, ResponseTypes: []string{"code"},
			}}}
			h.addClient(c.Client)
			b := h.newBrowser()
			if answer := h.toToken(c, redemption(c, b.code(asks(c)))); answer.status != http.StatusOK {
				t.Fatalf("before: %s", answer)
			}
			old := h.handler.Load()
			stored, err := h.store.Client(t.Context(), c.ID)
			h.must(err)
			c.Client = stored
			change(&c)
			h.must(h.store.UpdateClient(t.Context(), c.Client))
			h.restart()
			code := b.code(asks(c))
			refreshes := name == "a grant type"
			if !refreshes {
				h.handler.Store(old)
			}
			answer := h.toToken(c, redemption(c, code))
			if answer.status != http.StatusOK {
				t.Fatalf("exchange: %s", answer)
			}
			h.handler.Store(old)
			if refreshes {
				if answer = h.toToken(c, refreshing(c, answer.member(t, "refresh_token"))); answer.status != http.StatusOK {
					t.Errorf("refresh: %s", answer)
				}
			}
		})
	}
}

// TestOldCredentialsOfAChangedClient: who authenticated as the client was has not proved to be what it
// is now, so nothing but the earlier metadata counts for them.
func TestOldCredentialsOfAChangedClient(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*storage.Client){
		"a method":  func(c *storage.Client) { c.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodPost },
		"a secret":  func(c *storage.Client) { c.Secret = storage.HashSecret("another secret") },
		"a disable": func(c *storage.Client) { c.Disabled = true },
	} {
		h := newHarness(t, setup{})
		c := testClients()["basic"]
		h.toToken(c, redemption(c, h.newBrowser().code(asks(c))))
		old := h.handler.Load()
		stored, err := h.store.Client(t.Context(), c.ID)
		h.must(err)
		stored.Metadata.RedirectURIs = []string{"http://127.0.0.1:49152/other"}
		h.must(h.store.UpdateClient(t.Context(), stored))
		h.restart()
		moved := c
		moved.redirect = stored.Metadata.RedirectURIs[0]
		code := h.newBrowser().code(asks(moved))
		if stored, err = h.store.Client(t.Context(), c.ID); err == nil {
			change(&stored)
			err = h.store.UpdateClient(t.Context(), stored)
		}
		h.must(err)
		h.handler.Store(old)
		if answer := h.toToken(moved, redemption(moved, code)); answer.status != http.StatusBadRequest || answer.member(t, "error") != "invalid_grant" {
			t.Errorf("%s: %s", name, answer)
		}
	}
}
