package authz_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// withDocuments returns a harness that reads client metadata documents from a test web.
func withDocuments(t *testing.T, change func(*dcr.Documents)) (*harness, *webtest.Web) {
	t.Helper()
	web := webtest.New(t)
	return newHarness(t, setup{config: func(c *authz.Config) {
		c.Fetcher, c.Documents = web.Fetcher(nil), dcr.Documents{Trust: dcr.TrustAsk}
		if change != nil {
			change(&c.Documents)
		}
	}}), web
}

// described returns a client whose id is the URL of its document.
func described(id, redirect string) testClient {
	return testClient{redirect: redirect, Client: storage.Client{ID: id, Metadata: metadata.Client{TokenEndpointAuthMethod: metadata.AuthMethodNone}}}
}

// keyPair is the key of a client that signs assertions with RS256.
type keyPair struct{ *rsa.PrivateKey }

var clientKey = sync.OnceValue(func() keyPair {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return keyPair{key}
})

func (k keyPair) set() string {
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"one","use":"sig","alg":"RS256","n":%q,"e":"AQAB"}]}`, base64.RawURLEncoding.EncodeToString(k.N.Bytes()))
}

var serials atomic.Int64

// assertion returns a client assertion for an audience, with members replaced.
func (h *harness) assertion(k keyPair, id, audience string, change map[string]any) string {
	h.t.Helper()
	now := h.clock.Now().Unix()
	claims := map[string]any{"iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + 60, "jti": fmt.Sprint("jti-", serials.Add(1))}
	maps.Copy(claims, change)
	payload, err := json.Marshal(claims)
	if err != nil {
		h.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(`{"alg":"RS256","kid":"one","typ":"JWT"}`)) + "." + encode(payload)
	hash := crypto.SHA256.New()
	hash.Write([]byte(input))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.PrivateKey, crypto.SHA256, hash.Sum(nil))
	if err != nil {
		h.t.Fatal(err)
	}
	return input + "." + encode(signature)
}

// asserted adds an assertion to a request.
func asserted(values url.Values, assertion string) url.Values {
	return replaced(values, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion", assertion)
}

// TestDocumentClients runs clients with the documents of real products through whole flows,
// from the sign-in to the revocation.
func TestDocumentClients(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, redirect, host, caution string
		signs                         bool
	}{
		{"claude-code", "http://localhost:53682/callback", "claude.ai", "a program on this computer", false},
		{"claude-code", "http://127.0.0.1:53682/callback", "claude.ai", "a program on this computer", false},
		{"chatgpt", "https://chatgpt.com/connector/oauth/notes-connector", "chatgpt.com", "", true},
		{"chatgpt", "https://chatgpt.com/connector/oauth/notes-connector", "chatgpt.com", "", false},
		{"vscode", "http://127.0.0.1:33418/", "vscode.dev", "a program on this computer", false},
		{"vscode", "http://127.0.0.1:49999", "vscode.dev", "a program on this computer", false},
		{"vscode", "https://vscode.dev/redirect", "vscode.dev", "", false},
		{"codex", "http://127.0.0.1:1455/callback", "chatgpt.com", "a program on this computer", false},
		{"opencode", "http://127.0.0.1:19876/mcp/oauth/callback", "opencode.ai", "a program on this computer", false},
	} {
		t.Run(tt.file+" "+tt.redirect, func(t *testing.T) {
			t.Parallel()
			h, web := withDocuments(t, nil)
			id := web.Publish(filepath.Join("../dcr/testdata/documents", tt.file+".json"))
			web.Document(web.URL("chatgpt.com", "/oauth/jwks.json"), clientKey().set())
			c, b := described(id, tt.redirect), h.newBrowser()
			prove := func(values url.Values) url.Values {
				if tt.signs {
					return asserted(values, h.assertion(clientKey(), id, h.issuer, nil))
				}
				return values
			}
			code := b.code(asks(c))
			showsClient(t, b, tt.host, tt.caution)
			answer := h.toToken(c, prove(redemption(c, code)))
			access, refresh := answer.member(t, "access_token"), answer.member(t, "refresh_token")
			if answer.status != http.StatusOK || !h.active(access) || claims(t, access)["client_id"] != id {
				t.Fatalf("redeem: %s", answer)
			}
			answer = h.toToken(c, prove(refreshing(c, refresh)))
			if refresh = answer.member(t, "refresh_token"); answer.status != http.StatusOK || refresh == "" {
				t.Fatalf("refresh: %s", answer)
			}
			answer = h.send(h.newRequest(http.MethodPost, h.issuer+"/revoke", prove(form("token", refresh, "client_id", id))))
			if answer.status != http.StatusOK || h.active(access) {
				t.Errorf("revoke: %s", answer)
			}
			if n := web.Hits(id); n != 1 {
				t.Errorf("the document was read %d times", n)
			}
		})
	}
}

// showsClient checks the consent page that a browser has passed.
func showsClient(t *testing.T, b *browser, host, caution string) {
	t.Helper()
	page := b.page.body
	if !strings.Contains(page, "Unverified") || !strings.Contains(page, `<bdi class="host">`+host) || !strings.Contains(page, caution) {
		t.Errorf("consent page without %q or %q: %s", host, caution, page)
	}
}

func TestDocumentsAreAnnounced(t *testing.T) {
	t.Parallel()
	h, _ := withDocuments(t, nil)
	doc := h.send(h.newRequest("GET", "/.well-known/oauth-authorization-server", nil)).json(t)
	methods, _ := doc["token_endpoint_auth_methods_supported"].([]any)
	if doc["client_id_metadata_document_supported"] != true || !slices.Contains(methods, any("none")) || !slices.Contains(methods, any("private_key_jwt")) {
		t.Errorf("document %v", doc)
	}
	for _, endpoint := range []string{"token", "revocation"} {
		if got := fmt.Sprint(doc[endpoint+"_endpoint_auth_signing_alg_values_supported"]); got != "[ES256 EdDSA RS256 PS256]" {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
	closed := newHarness(t, setup{}).send(h.newRequest("GET", "/.well-known/oauth-authorization-server", nil)).json(t)
	if _, ok := closed["client_id_metadata_document_supported"]; ok {
		t.Error("announced and off")
	}
}

const plainDocument = `{"client_id":%q,"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"]}`

// TestDocumentThatCannotBeRead: programs and people get an error that asks them to try again.
// The error is not invalid_client, because clients delete their tokens after that.
func TestDocumentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	id := web.URL("client.example.com", "/client.json")
	c, b := described(id, "http://127.0.0.1:49152/callback"), h.newBrowser()
	web.Document(id, fmt.Sprintf(plainDocument, id), "Cache-Control: max-age=600")
	held := b.tokens(c, asks(c))
	web.Serve(id, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	h.clock.advance(9 * time.Minute)
	if answer := h.toToken(c, refreshing(c, held.refresh)); answer.status != http.StatusOK {
		t.Fatalf("within its time: %s", answer)
	} else {
		held.refresh = answer.member(t, "refresh_token")
	}
	h.clock.advance(2 * time.Minute)
	answer := h.toToken(c, refreshing(c, held.refresh))
	if answer.status != http.StatusServiceUnavailable || answer.member(t, "error") != "temporarily_unavailable" || answer.header.Get("Retry-After") == "" {
		t.Errorf("token: %s", answer)
	}
	for _, hidden := range []string{"502", "127.0.0.1", "storage"} {
		if strings.Contains(answer.body, hidden) {
			t.Errorf("the answer tells %q: %s", hidden, answer)
		}
	}
	page := b.open(h.issuer + "/authorize?" + asks(c).Encode())
	if page.status != http.StatusServiceUnavailable || page.header.Get("Location") != "" || !strings.Contains(page.body, "cannot be identified right now") {
		t.Errorf("page: %s", page)
	}
	web.Document(id, fmt.Sprintf(plainDocument, id))
	h.clock.advance(5 * time.Second) // a failed fetch is not repeated before
	if answer := h.toToken(c, refreshing(c, held.refresh)); answer.status != http.StatusOK {
		t.Errorf("back again: %s", answer)
	}
}

// TestDocumentThatCannotBeUsed: the page describes the error, and nothing is redirected.
func TestDocumentThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, func(d *dcr.Documents) { d.Deny = []string{"bad.example.com"} })
	id := web.URL("client.example.com", "/client.json")
	web.Document(id, `{"client_id":"https://other.example.com/","client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"]}`)
	for address, want := range map[string]string{
		id: "not the address of the document", web.URL("client.example.com", "/none.json"): "404", web.URL("bad.example.com", "/c.json"): "not accepted here",
		"https://client.example.com/../c.json": "dot segments", "https://client.example.com/%3Cscript%3E\"": "percent-encoded",
	} {
		c := described(address, "http://127.0.0.1:49152/callback")
		page := h.newBrowser().open(h.issuer + "/authorize?" + asks(c).Encode())
		if page.status != http.StatusBadRequest || page.header.Get("Location") != "" || !strings.Contains(page.body, want) || strings.Contains(page.body, "<script") {
			t.Errorf("%s: page %s", address, page)
		}
		if answer := h.toToken(c, redemption(c, "code")); answer.status != http.StatusUnauthorized || answer.member(t, "error") != "invalid_client" {
			t.Errorf("%s: %s", address, answer)
		}
	}
}

// TestDocumentChangesAtConsent: the person's decision applies only to the metadata that the
// page showed.
func TestDocumentChangesAtConsent(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	id := web.URL("client.example.com", "/client.json")
	web.Document(id, fmt.Sprintf(plainDocument, id), "Cache-Control: no-store")
	c, b := described(id, "http://127.0.0.1:49152/callback"), h.newBrowser()
	b.code(asks(c)) // signed in
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	if !strings.Contains(b.last.body, `name="decision"`) {
		t.Fatalf("no consent: %s", b.last)
	}
	web.Document(id, strings.Replace(fmt.Sprintf(plainDocument, id), "Notes", "Bank", 1))
	h.clock.advance(time.Minute)
	if b.submit("decision", "allow"); b.last.status != http.StatusBadRequest || !strings.Contains(b.last.body, "has changed") || b.last.header.Get("Location") != "" {
		t.Errorf("answer %s", b.last)
	}
	if code := b.code(asks(c)); code == "" || !strings.Contains(b.page.body, "Bank") {
		t.Errorf("asked again: %s", b.last)
	}
}

// TestRememberedDocument: the list of what is remembered names a client of a document as the person
// saw it, with the host that published it, and reads no document for that.
func TestRememberedDocument(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	id := web.Publish("../dcr/testdata/documents/chatgpt.json")
	c, b := described(id, "https://chatgpt.com/connector/oauth/notes-connector"), h.newBrowser()
	b.decide(asks(c), "always")
	read := web.Hits(id)
	h.clock.advance(24 * time.Hour)
	page := h.newBrowser().account(personName, "/account/remembered").body
	for _, shown := range []string{"<h2><bdi>ChatGPT</bdi></h2>", `<bdi class="host">chatgpt.com`, "ChatGPT</bdi> asks again"} {
		if !strings.Contains(page, shown) {
			t.Errorf("the list does not show %q:\n%s", shown, page)
		}
	}
	if web.Hits(id) != read {
		t.Error("the list reads the document")
	}
}

// TestDocumentIsNoOpenRedirector: an error is redirected to a web address in an unknown
// document only after the person has acted, and at once if the operator vouches for the
// document's host.
func TestDocumentIsNoOpenRedirector(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, func(d *dcr.Documents) { d.Allow = []string{"good.example.com"} })
	for host, sent := range map[string]bool{"good.example.com": true, "client.example.com": false} {
		id := web.URL(host, "/client.json")
		web.Document(id, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":["https://www.example.org/cb"]}`, id))
		request := replaced(asks(described(id, "https://www.example.org/cb")), "response_type", "token")
		page := h.newBrowser().open(h.issuer + "/authorize?" + request.Encode())
		if redirected := page.status == http.StatusSeeOther; redirected != sent {
			t.Errorf("%s: %s", host, page)
		}
	}
}

// signing returns a client that must authenticate with an assertion.
func signing(h *harness) testClient {
	c := storage.Client{ID: "signing-client", Source: storage.ClientConfigured, Metadata: metadata.Client{
		RedirectURIs: []string{"https://client.example.org/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodPrivateKeyJWT,
		GrantTypes: bothGrants, ResponseTypes: []string{"code"}, ClientName: "Signing", JWKS: json.RawMessage(clientKey().set()),
	}}
	h.addClient(c)
	return testClient{Client: c, redirect: "https://client.example.org/callback"}
}

// TestClientAssertion: a client must use exactly one method, the registered one, and a
// failure does not use up the code.
func TestClientAssertion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := signing(h)
	for method, secret := range map[string]storage.SecretHash{metadata.AuthMethodBasic: storage.HashSecret("s"), metadata.AuthMethodNone: nil} {
		other := c.Client
		other.ID, other.Secret, other.Metadata.TokenEndpointAuthMethod = "keys-and-"+method, secret, method
		h.addClient(other)
	}
	code := h.newBrowser().code(asks(c))
	good := func() string { return h.assertion(clientKey(), c.ID, h.issuer, nil) }
	stranger := func() keyPair {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		return keyPair{key}
	}()
	used := good()
	for _, tt := range []struct {
		name   string
		change []string
		basic  string
		status int
		code   string
	}{
		{"no method", nil, "", 401, "invalid_client"},
		{"a secret", []string{"client_secret", "s"}, "", 401, "invalid_client"},
		{"Basic", nil, "s", 401, "invalid_client"},
		{"an assertion and a secret", []string{"client_assertion", good(), "client_secret", "s"}, "", 400, "invalid_request"},
		{"an assertion and Basic", []string{"client_assertion", good()}, "s", 400, "invalid_request"},
		{"an assertion without a type", []string{"client_assertion", good(), "client_assertion_type", ""}, "", 401, "invalid_client"},
		{"a type without an assertion", []string{"client_assertion", ""}, "", 401, "invalid_client"},
		{"another type", []string{"client_assertion", good(), "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"}, "", 401, "invalid_client"},
		{"another client_id", []string{"client_assertion", good(), "client_id", "native-client"}, "", 400, "invalid_request"},
		{"garbage", []string{"client_assertion", "a.b.c"}, "", 401, "invalid_client"},
		{"another key", []string{"client_assertion", h.assertion(stranger, c.ID, h.issuer, nil)}, "", 401, "invalid_client"},
		{"an unknown client", []string{"client_assertion", h.assertion(stranger, "nobody", h.issuer, nil), "client_id", ""}, "", 401, "invalid_client"},
		{"a client that registered no keys", []string{"client_assertion", h.assertion(clientKey(), "native-client", h.issuer, nil), "client_id", ""}, "", 401, "invalid_client"},
		{"a client that registered a secret", []string{"client_assertion", h.assertion(clientKey(), "basic-client", h.issuer, nil), "client_id", ""}, "", 401, "invalid_client"},
		{"a client with keys and a secret", []string{"client_assertion", h.assertion(clientKey(), "keys-and-client_secret_basic", h.issuer, nil), "client_id", ""}, "", 401, "invalid_client"},
		{"a public client with keys", []string{"client_assertion", h.assertion(clientKey(), "keys-and-none", h.issuer, nil), "client_id", ""}, "", 401, "invalid_client"},
		{"another audience", []string{"client_assertion", h.assertion(clientKey(), c.ID, "https://other.example.com", nil)}, "", 401, "invalid_client"},
		{"the audience of another endpoint", []string{"client_assertion", h.assertion(clientKey(), c.ID, h.issuer+"/revoke", nil)}, "", 401, "invalid_client"},
		{"expired", []string{"client_assertion", h.assertion(clientKey(), c.ID, h.issuer, map[string]any{"exp": h.clock.Now().Unix() - 60})}, "", 401, "invalid_client"},
	} {
		values := redemption(c, code)
		if slices.Contains(tt.change, "client_assertion") {
			values.Set("client_assertion_type", dcr.AssertionType)
		}
		for i := 0; i < len(tt.change); i += 2 {
			values.Set(tt.change[i], tt.change[i+1]) // empty is left out: OAuth 2.1 section 3.1
		}
		r := h.newRequest(http.MethodPost, h.issuer+"/token", values)
		if tt.basic != "" {
			r.SetBasicAuth(c.ID, tt.basic)
		}
		writes := h.meter.writes.Load()
		if answer := h.send(r); answer.status != tt.status || answer.member(t, "error") != tt.code {
			t.Errorf("%s: %s", tt.name, answer)
		}
		if n := h.meter.writes.Load() - writes; n != 0 {
			t.Errorf("%s: %d writes", tt.name, n)
		}
	}
	before := h.roundTrips.Load()
	answer := h.toToken(c, asserted(replaced(redemption(c, code), "client_id", ""), used))
	if answer.status != http.StatusOK {
		t.Fatalf("with everything right: %s", answer)
	}
	if n := h.roundTrips.Load() - before; n > 4 { // the client, the jti, the grant, the swap
		t.Errorf("%d round trips", n)
	}
	again := h.toToken(c, asserted(refreshing(c, answer.member(t, "refresh_token")), used))
	if again.status != http.StatusUnauthorized || again.member(t, "error") != "invalid_client" {
		t.Errorf("the assertion again: %s", again)
	}
	before = h.roundTrips.Load()
	answer = h.toToken(c, asserted(refreshing(c, answer.member(t, "refresh_token")), good()))
	if n := h.roundTrips.Load() - before; answer.status != http.StatusOK || n != 3 {
		t.Errorf("refresh: %d round trips, %s", n, answer)
	}
}

// TestClientAssertionWithoutStore: while the store cannot be asked whether an assertion was
// used before, the error is not invalid_client.
func TestClientAssertionWithoutStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := signing(h)
	held := h.newBrowser().code(asks(c))
	step := func(op, key string) {
		if op == "put" && strings.HasPrefix(key, "gatehouse:assertion:") {
			h.faults.SetDown(true)
		}
	}
	h.meter.before.Store(&step)
	answer := h.toToken(c, asserted(redemption(c, held), h.assertion(clientKey(), c.ID, h.issuer, nil)))
	if answer.status != http.StatusServiceUnavailable || answer.member(t, "error") != "temporarily_unavailable" {
		t.Errorf("answer %s", answer)
	}
}

// TestProbeWithAddress: common libraries try HTTP Basic with an empty password first. Some of
// them percent-encode the URL that is their client id.
func TestProbeWithAddress(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	id := web.URL("client.example.com", "/client.json")
	web.Document(id, fmt.Sprintf(plainDocument, id))
	c := described(id, "http://127.0.0.1:49152/callback")
	b := h.newBrowser()
	for _, user := range []string{url.QueryEscape(id), id} {
		r := h.newRequest(http.MethodPost, h.issuer+"/token", replaced(redemption(c, b.code(asks(c))), "client_id", ""))
		r.SetBasicAuth(user, "")
		if answer := h.send(r); answer.status != http.StatusOK {
			t.Errorf("%s: %s", user, answer)
		}
	}
}
