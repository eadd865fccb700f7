package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// registration sends a registration.
func (h *harness) registration(body string) reply {
	h.t.Helper()
	r, err := http.NewRequest(http.MethodPost, h.issuer+"/register", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return h.send(r)
}

// TestHostsOfClients: a host that browsers would rewrite is refused in registrations and
// documents, and the error shows how to write it.
func TestHostsOfClients(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	for host, says := range map[string]string{
		"2130706433": "127.0.0.1", "0x7f.1": "127.0.0.1", "127.1": "127.0.0.1", "0177.0.0.1": "127.0.0.1", "0xC0.0x0.02.235": "write the host in lowercase",
		"[0:0:0:0:0:0:0:1]": "[::1]", "CLIENT.example.org": "client.example.org", "client.example.org.": "client.example.org", "clïent.example.org": "xn--",
		"cli\u00adent.example.org": "xn--", "ｃlient.example.org": "xn--", "client。example.org": "xn--", "cl%69ent.example.org": "percent-encoding", "xn--client-.example.org": "no international name",
	} {
		uri := "https://" + host + "/callback"
		answer := h.registration(fmt.Sprintf(`{"redirect_uris":["http://127.0.0.1/callback",%q]}`, uri))
		if answer.status != http.StatusBadRequest || answer.member(t, "error") != "invalid_redirect_uri" || !strings.Contains(answer.member(t, "error_description"), says) {
			t.Errorf("%s: %s", host, answer)
		}
		for _, member := range []string{"client_uri", "logo_uri", "tos_uri", "policy_uri"} {
			answer := h.registration(fmt.Sprintf(`{"redirect_uris":["http://127.0.0.1/callback"],%q:%q}`, member, uri))
			if answer.status != http.StatusBadRequest || answer.member(t, "error") != "invalid_client_metadata" || !strings.Contains(answer.member(t, "error_description"), member+": ") {
				t.Errorf("%s %s: %s", member, host, answer)
			}
		}
		id := web.URL(clientHost, fmt.Sprintf("/%x.json", host))
		web.Document(id, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback",%q]}`, id, uri))
		for _, client := range []string{id, "https://" + host + "/client.json"} {
			page := h.newBrowser().open(h.issuer + "/authorize?" + asks(described(client, "http://127.0.0.1:49152/callback")).Encode())
			if page.status != http.StatusBadRequest || !strings.Contains(page.body, says) {
				t.Errorf("the document %s: %s", client, page)
			}
		}
		cfg := newHarness(t, setup{}).cfg
		static := testClients()["web"].Client
		static.Metadata.RedirectURIs = []string{uri}
		cfg.Clients = []storage.Client{static}
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("configured with %s: %v", host, err)
		}
		// The server does not redirect to one that was stored before the rule existed either.
		old := testClients()["web"]
		old.ID, old.redirect, old.Metadata.RedirectURIs = fmt.Sprintf("%x", host), uri, []string{uri}
		h.addClient(old.Client)
		if page := h.newBrowser().open("/authorize?" + asks(old).Encode()); page.status != http.StatusBadRequest || page.header.Get("Location") != "" || strings.Contains(page.body, "href=") {
			t.Errorf("stored with %s: %s", host, page)
		}
	}
	c := testClients()["native"]
	for _, requested := range []string{"http://2130706433:49152/callback", "http://0x7f.1/callback", "http://LOCALHOST/callback", "http://127.0.0.1.:1/callback"} {
		if page := h.newBrowser().open("/authorize?" + replaced(asks(c), "redirect_uri", requested).Encode()); page.status != http.StatusBadRequest || page.header.Get("Location") != "" {
			t.Errorf("%s: %s", requested, page)
		}
	}
}

// TestOneFormIsShown: all pages show a host in the same form, and the link still has the
// form that the client registered.
func TestOneFormIsShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := testClients()["web"]
	c.ID, c.redirect, c.Metadata.RedirectURIs = "with-a-port", "https://client.example.org:443/callback", []string{"https://client.example.org:443/callback"}
	h.addClient(c.Client)
	b := h.newBrowser()
	b.open("/authorize?" + asks(c).Encode())
	pages := []string{b.follow().body}
	b.submit("username", personName, "password", personPassword)
	refused := b.h.newBrowser().open("/authorize?" + replaced(asks(c), "scope", "notes:fly").Encode())
	pages = append(pages, b.follow().body, refused.body)
	for i, body := range pages {
		if !strings.Contains(body, `<bdi class="host">client.example.org</bdi>`) || strings.Contains(body, "client.example.org:443</bdi>") {
			t.Errorf("page %d shows another form:\n%s", i, body)
		}
	}
	if !strings.Contains(refused.body, `href="https://client.example.org:443/callback?error=invalid_scope`) {
		t.Errorf("no link: %s", refused)
	}
	if answer := b.submit("decision", "deny"); !strings.HasPrefix(answer.header.Get("Location"), "https://client.example.org:443/callback?") {
		t.Errorf("the answer goes elsewhere: %s", answer)
	}
}
