package authz_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// TestGrantEndsWhileKeysAreFetched: a grant that ends while the keys of its client are fetched is over,
// also for a refresh token that is sent again, which changes nothing in the store.
func TestGrantEndsWhileKeysAreFetched(t *testing.T) {
	t.Parallel()
	web := webtest.New(t)
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Fetcher, c.Documents, c.RefreshWindow = web.Fetcher(nil), dcr.Documents{Trust: dcr.TrustAsk}, time.Minute
	}})
	c := testClients()["native"]
	c.ID, c.Metadata.TokenEndpointAuthMethod = "keyed", metadata.AuthMethodPrivateKeyJWT
	c.Metadata.JWKSURI = web.URL("keys.example.com", "/jwks.json")
	h.addClient(c.Client)
	fetched := func() {}
	web.Serve(c.Metadata.JWKSURI, func(w http.ResponseWriter, _ *http.Request) {
		fetched()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, clientKey().set())
	})
	signed := func() string { return h.assertion(clientKey(), c.ID, h.issuer, nil) }
	first := h.toToken(c, asserted(redemption(c, h.newBrowser().code(asks(c))), signed())).member(t, "refresh_token")
	again := func() reply { return h.toToken(c, asserted(refreshing(c, first), signed())) }
	for range 2 {
		if answer := again(); answer.status != http.StatusOK {
			t.Fatal(answer)
		}
	}
	h.restart() // a process that has read neither the client nor its keys
	token, _ := storage.ParseRefreshToken(first)
	fetched = func() {
		if err := h.store.Revoke(t.Context(), token.GrantID, "its person ended it"); err != nil {
			t.Error(err)
		}
	}
	hits := web.Hits(c.Metadata.JWKSURI)
	if answer := again(); answer.status != http.StatusBadRequest || answer.member(t, "error") != "invalid_grant" {
		t.Errorf("after the grant has ended: %s", answer)
	}
	if web.Hits(c.Metadata.JWKSURI) == hits {
		t.Error("the keys were not fetched")
	}
}
