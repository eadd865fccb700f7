package authz_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// bodies returns the registrations that real clients send, by the name of the client.
func bodies(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../dcr/testdata/clients/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".json")] = body
	}
	return found
}

// registered sends a registration and returns the client with its credentials.
func (h *harness) registered(t *testing.T, body []byte) (testClient, []string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, h.newRequest(http.MethodPost, "/register", nil).URL.String(), strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer := h.send(r)
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		metadata.Client
	}
	if err := json.Unmarshal([]byte(answer.body), &given); err != nil || answer.status != http.StatusCreated {
		t.Fatalf("%v: %s", err, answer)
	}
	return testClient{Client: storage.Client{ID: given.ID, Metadata: given.Client}, secret: given.Secret}, given.RedirectURIs
}

var loopbackPort = regexp.MustCompile(`^(http://(?:127\.0\.0\.1|localhost|\[::1\]))(?::\d+)?(/.*)?$`)

// sentForms returns the forms in which a client sends a redirect URI that it registered: on
// loopback with any port.
func sentForms(uri string) []string {
	if !loopbackPort.MatchString(uri) {
		return []string{uri}
	}
	return []string{uri, loopbackPort.ReplaceAllString(uri, "$1:49321$2")}
}

// TestRegisteredClients drives the registrations of real clients through whole flows, to
// each of their redirect URIs, from the sign-in to the revocation.
func TestRegisteredClients(t *testing.T) {
	t.Parallel()
	for name, body := range bodies(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			c, uris := h.registered(t, body)
			for _, uri := range uris {
				for _, c.redirect = range sentForms(uri) {
					h.useClient(t, c)
				}
			}
		})
	}
}

// useClient runs a client from the sign-in to the revocation.
func (h *harness) useClient(t *testing.T, c testClient) {
	t.Helper()
	answer := h.toToken(c, redemption(c, h.newBrowser().code(asks(c))))
	access := answer.member(t, "access_token")
	if answer.status != http.StatusOK || !h.active(access) || claims(t, access)["client_id"] != c.ID {
		t.Fatalf("%s: redeem: %s", c.redirect, answer)
	}
	if !strings.Contains(strings.Join(c.Metadata.GrantTypes, " "), metadata.GrantRefreshToken) {
		if answer.member(t, "refresh_token") != "" {
			t.Errorf("%s: a refresh token that nobody asked for", c.redirect)
		}
		return
	}
	answer = h.toToken(c, refreshing(c, answer.member(t, "refresh_token")))
	refresh := answer.member(t, "refresh_token")
	if answer.status != http.StatusOK || refresh == "" {
		t.Fatalf("%s: refresh: %s", c.redirect, answer)
	}
	answer = h.as(c, "/revoke", identified(c, form("token", refresh)))
	if answer.status != http.StatusOK || h.active(access) {
		t.Errorf("%s: revoke: %s", c.redirect, answer)
	}
}
