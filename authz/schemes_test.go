package authz_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// TestSchemesOnEveryWayIn: a private-use scheme that any client could claim is refused in a
// registration, in its update and in a document, with an explanation.
func TestSchemesOnEveryWayIn(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	for i, tt := range []struct {
		uri string
		ok  bool
	}{{"cursor://anysphere.cursor-mcp/oauth/callback", true}, {"com.example.app:/cb", true}, {"myapp://cb", false}, {"steamy:run", false}, {"app.:x", false}} {
		refused := func(what string, answer reply) {
			t.Helper()
			if tt.ok == strings.Contains(answer.body, "could claim the scheme") || tt.ok == (answer.status == http.StatusBadRequest) {
				t.Errorf("%s: %s: %s", tt.uri, what, answer)
			}
		}
		refused("registration", h.registration(fmt.Sprintf(`{"redirect_uris":[%q]}`, tt.uri)))

		var held struct {
			ID    string `json:"client_id"`
			URI   string `json:"registration_client_uri"`
			Token string `json:"registration_access_token"`
		}
		first := h.registration(`{"redirect_uris":["http://127.0.0.1/cb"],"token_endpoint_auth_method":"none"}`)
		if err := json.Unmarshal([]byte(first.body), &held); err != nil || held.URI == "" {
			t.Fatalf("%s %v", first, err)
		}
		change, _ := http.NewRequest(http.MethodPut, held.URI, strings.NewReader(fmt.Sprintf(`{"client_id":%q,"redirect_uris":[%q],"token_endpoint_auth_method":"none"}`, held.ID, tt.uri)))
		change.Header.Set("Content-Type", "application/json")
		change.Header.Set("Authorization", "Bearer "+held.Token)
		refused("change", h.send(change))

		id := web.URL(clientHost, fmt.Sprint("/scheme", i, ".json"))
		web.Document(id, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":[%q]}`, id, tt.uri))
		refused("document", h.newBrowser().open("/authorize?"+asks(described(id, tt.uri)).Encode()))
	}
}

// TestClientsFromBefore: a scheme that a client registered before the rule, and one that
// the operator configured, still work.
func TestClientsFromBefore(t *testing.T) {
	t.Parallel()
	const uri = "myapp://cb"
	app := testClients()["app"]
	app.ID, app.redirect, app.Metadata.RedirectURIs = "from-the-file", uri, []string{uri}
	before := app
	before.ID, before.Source = "from-before", storage.ClientRegistered
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Clients = []storage.Client{app.Client} }})
	h.addClient(before.Client)
	for _, c := range []testClient{app, before} {
		b := h.newBrowser()
		b.open("/authorize?" + replaced(asks(c), "response_type", "token").Encode())
		if sent := b.last.status == http.StatusSeeOther; sent != (c.ID == app.ID) {
			t.Errorf("%s: an error before the person acted: %s", c.ID, b.last)
		}
		if b.code(asks(c)) == "" {
			t.Errorf("%s: no code: %s", c.ID, b.last)
		}
	}
}
