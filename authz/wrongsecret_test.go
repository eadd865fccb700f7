package authz_test

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
)

// sendFrom sends a request as if from an address.
func (h *harness) sendFrom(address string, r *http.Request) reply {
	h.t.Helper()
	r.Header.Set("X-Forwarded-For", address)
	return h.send(r)
}

// secretEndpoint is an endpoint that requires a secret.
type secretEndpoint struct {
	wrong, right func(i int) *http.Request
	status       int    // of the right secret
	code         string // of a wrong one
}

// TestWrongSecrets: for every kind of secret, one network may send twenty wrong ones in ten
// minutes, and then gets the time to wait. The right secret is never delayed, from that
// network or another.
func TestWrongSecrets(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { behindProxy(c); c.Registration = authz.RegistrationToken }})
	for name, d := range h.secretEndpoints(t) {
		t.Run(name, func(t *testing.T) {
			for i := range 20 {
				if r := h.sendFrom("192.0.2.1", d.wrong(i)); r.status != http.StatusUnauthorized || r.member(t, "error") != d.code {
					t.Fatalf("wrong secret %d: %s", i, r)
				}
			}
			slowed := h.sendFrom("192.0.2.1", d.wrong(20))
			wait := mustWait(t, "the next wrong secret", slowed)
			if slowed.member(t, "error") == "" || slowed.member(t, "error_description") == "" || slowed.header.Get("Cache-Control") != "no-store" {
				t.Errorf("not an answer of OAuth: %s", slowed)
			}
			for i := range 30 {
				if r := h.sendFrom("192.0.2.1", d.right(i)); r.status != d.status {
					t.Fatalf("the right secret from the same network: %s", r)
				}
			}
			mustWait(t, "a wrong secret after right ones", h.sendFrom("192.0.2.1", d.wrong(21)))
			if r := h.sendFrom("198.51.100.1", d.right(30)); r.status != d.status {
				t.Errorf("the right secret from elsewhere: %s", r)
			}
			if r := h.sendFrom("198.51.100.1", d.wrong(22)); r.status != http.StatusUnauthorized {
				t.Errorf("a wrong secret from elsewhere: %s", r)
			}
			h.clock.advance(wait)
			if r := h.sendFrom("192.0.2.1", d.wrong(23)); r.status != http.StatusUnauthorized {
				t.Errorf("a wrong secret after %s: %s", wait, r)
			}
			h.clock.advance(time.Hour)
		})
	}
}

// secretEndpoints returns all endpoints that require a secret. A request with the right
// secret has another error that is checked later, or changes nothing.
func (h *harness) secretEndpoints(t *testing.T) map[string]secretEndpoint {
	t.Helper()
	request := func(c testClient, path string, change func(*http.Request, url.Values)) func(int) *http.Request {
		return func(i int) *http.Request {
			values := identified(c, form("grant_type", "refresh_token", "refresh_token", "none", "token", "none"))
			basic := &http.Request{Header: http.Header{}}
			change(basic, values)
			r := h.newRequest(http.MethodPost, h.issuer+path, values)
			r.Header.Set("Authorization", basic.Header.Get("Authorization"))
			if r.Header.Get("Authorization") == "" {
				r.Header.Del("Authorization")
			}
			return r
		}
	}
	basic := func(id, secret string) func(*http.Request, url.Values) {
		return func(r *http.Request, _ url.Values) { r.SetBasicAuth(url.QueryEscape(id), secret) }
	}
	posted := func(secret string) func(*http.Request, url.Values) {
		return func(_ *http.Request, v url.Values) { v.Set("client_secret", secret) }
	}
	signed := func(k func() keyPair, c testClient) func(*http.Request, url.Values) {
		return func(_ *http.Request, v url.Values) {
			v.Set("client_assertion_type", dcr.AssertionType)
			v.Set("client_assertion", h.assertion(k(), c.ID, h.issuer, nil))
		}
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b, p, s := testClients()["basic"], testClients()["post"], signing(h)
	introspected := func(secret string) func(int) *http.Request {
		return request(b, "/introspect", func(r *http.Request, v url.Values) {
			v.Del("client_id")
			r.SetBasicAuth(url.QueryEscape(notes), secret)
		})
	}
	doors := map[string]secretEndpoint{
		"basic at /token":       {request(b, "/token", basic(b.ID, "wrong")), request(b, "/token", basic(b.ID, b.secret)), 400, "invalid_client"},
		"post at /token":        {request(p, "/token", posted("wrong")), request(p, "/token", posted(p.secret)), 400, "invalid_client"},
		"assertions at /token":  {request(s, "/token", signed(func() keyPair { return keyPair{stranger} }, s)), request(s, "/token", signed(clientKey, s)), 400, "invalid_client"},
		"basic at /revoke":      {request(b, "/revoke", basic(b.ID, "wrong")), request(b, "/revoke", basic(b.ID, b.secret)), 200, "invalid_client"},
		"a resource server":     {introspected("wrong"), introspected(notesSecret), 200, "invalid_client"},
		"initial access tokens": h.registering(t),
	}
	doors["registration access tokens"] = h.managing(t)
	return doors
}

func (h *harness) registering(t *testing.T) secretEndpoint {
	t.Helper()
	token, err := dcr.MintInitialToken(t.Context(), h.store, 1000, h.clock.Now().Add(1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	with := func(token func(int) string) func(int) *http.Request {
		return func(i int) *http.Request {
			r := h.newRequest(http.MethodPost, "/register", nil)
			r, err := http.NewRequest(http.MethodPost, r.URL.String(), strings.NewReader(`{"redirect_uris":["https://client.example.org/callback"]}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token(i))
			return r
		}
	}
	return secretEndpoint{with(func(i int) string { return fmt.Sprint("gate_iat_", i) }), with(func(int) string { return token }), 201, "invalid_token"}
}

// managing registers a client, which then reads its registration.
func (h *harness) managing(t *testing.T) secretEndpoint {
	t.Helper()
	registered := h.sendFrom("203.0.113.1", h.registering(t).right(0))
	with := func(token func(int) string) func(int) *http.Request {
		return func(i int) *http.Request {
			r := h.newRequest(http.MethodGet, registered.member(t, "registration_client_uri"), nil)
			r.Header.Set("Authorization", "Bearer "+token(i))
			return r
		}
	}
	token := registered.member(t, "registration_access_token")
	return secretEndpoint{with(func(i int) string { return fmt.Sprint("gate_rat_", i) }), with(func(int) string { return token }), 200, "invalid_token"}
}

// TestClientsThatAreNotKnown get invalid_client however often they ask: it makes them
// register again, and there is no secret to guess.
func TestClientsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	for i := range 300 {
		r := h.newRequest(http.MethodPost, h.issuer+"/token", form("grant_type", "refresh_token", "refresh_token", "x", "client_id", fmt.Sprint("gone", i%2)))
		if answer := h.sendFrom("192.0.2.1", r); answer.status != http.StatusUnauthorized || answer.member(t, "error") != "invalid_client" {
			t.Fatalf("request %d: %s", i, answer)
		}
	}
}

// TestOneSecretOverManyClients is throttled by network.
func TestOneSecretOverManyClients(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	refused := 0
	for i := range 300 {
		c := testClients()["post"].Client
		c.ID = fmt.Sprint("sprayed-", i)
		h.addClient(c)
		r := h.newRequest(http.MethodPost, h.issuer+"/token", form("grant_type", "refresh_token", "refresh_token", "x", "client_id", c.ID, "client_secret", "Spring2026"))
		if h.sendFrom("192.0.2.1", r).status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of 300 were slowed, want at least 100", refused)
	}
}
