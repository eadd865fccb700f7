package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// neverLinked are redirect URIs with schemes of browsers, operating systems or other
// protocols.
var neverLinked = []string{
	"javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "ms-settings:privacy", "ms-msdt:/id", "ms-invented:/x", "ms-word:ofe|u|https://client.example.org/x",
	"intent://client.example.org#Intent;end", "intent://client.example.org/x", "view-source:https://client.example.org/", "about:blank", "blob:https://client.example.org/1",
	"filesystem:https://client.example.org/x", "chrome://settings/", "chrome-extension://abc/x", "edge://settings/", "search-ms:query=x", "shell:startup", "tel:1", "sms:1", "mailto:a@example.org",
	"skype:x?call", "facetime://x", "market://details?id=x", "itms-apps://x/y", "magnet:?xt=x", "ssh://client.example.org/", "rdp://client.example.org/", "smb://client.example.org/x", "x-apple-help:x",
	"webcal://client.example.org/x", "app-settings:x", "zoommtg://client.example.org/join", "jnlp://client.example.org/x", "microsoft-edge-holographic:x",
}

// TestDangerousSchemes: whatever the configuration, such URIs are neither registered nor
// followed nor linked, even if an old record contains them.
func TestDangerousSchemes(t *testing.T) {
	t.Parallel()
	for i, raw := range neverLinked {
		scheme, _, _ := strings.Cut(raw, ":")
		h := newHarness(t, setup{config: func(c *authz.Config) { c.RegistrationPolicy.PrivateUseSchemes = []string{scheme} }})
		answer := h.registration(fmt.Sprintf(`{"redirect_uris":[%q]}`, raw))
		if answer.status != http.StatusBadRequest || answer.member(t, "error") != "invalid_redirect_uri" {
			t.Errorf("%s: %s", raw, answer)
		}
		c := testClients()["app"]
		c.ID, c.Source, c.redirect, c.Metadata.RedirectURIs = fmt.Sprint("old-", i), storage.ClientConfigured, raw, []string{raw}
		h.addClient(c.Client)
		for _, request := range []string{asks(c).Encode(), replaced(asks(c), "redirect_uri", "").Encode(), replaced(asks(c), "response_type", "token").Encode()} {
			page := h.newBrowser().open("/authorize?" + request)
			if page.status != http.StatusBadRequest || page.header.Get("Location") != "" || strings.Contains(page.body, "href=") {
				t.Errorf("%s: %s", raw, page)
			}
		}
	}
}

// TestPrivateUseErrors: before the person has acted, an error does not start a program
// unless the operator configured its scheme or the client. The person's decision is sent
// there.
func TestPrivateUseErrors(t *testing.T) {
	t.Parallel()
	uris := map[string]string{
		"cursor": "cursor://anysphere.cursor-mcp/oauth/callback", "vscode": "vscode://example.notes/callback", "com.example.app": "com.example.app:/oauth/cb", "steamy": "steamy:run", "zed": "zed://x?y=z",
	}
	errors := map[string]string{"response_type": "token", "prompt": "none", "scope": "notes:fly", "code_challenge": "", "resource": "https://other.example.com/", "request": "x"}
	for scheme, uri := range uris {
		for _, tt := range []struct {
			name    string
			allowed []string
			source  storage.ClientSource
			sent    bool
		}{
			{"any scheme", nil, storage.ClientRegistered, false},
			{"a list with it", []string{"other", scheme}, storage.ClientRegistered, true},
			{"a list without it", []string{"other"}, storage.ClientRegistered, false},
			{"a client of the operator", nil, storage.ClientConfigured, true},
		} {
			h := newHarness(t, setup{config: func(c *authz.Config) { c.RegistrationPolicy.PrivateUseSchemes = tt.allowed }})
			c := testClients()["app"]
			c.ID, c.Source, c.redirect, c.Metadata.RedirectURIs = "an-app", tt.source, uri, []string{uri}
			h.addClient(c.Client)
			b := h.newBrowser()
			for name, value := range errors {
				page := b.open("/authorize?" + replaced(asks(c), name, value).Encode())
				linked := strings.Contains(page.body, `href="`+uri)
				sent := page.status == http.StatusSeeOther && strings.HasPrefix(page.header.Get("Location"), uri)
				if sent != tt.sent || linked == tt.sent || page.status != http.StatusSeeOther && page.status != http.StatusBadRequest {
					t.Errorf("%s, %s, %s=%q: sent %v, linked %v: %s", uri, tt.name, name, value, sent, linked, page)
				}
			}
			if answer := b.walk(asks(c), "deny"); !strings.HasPrefix(answer.header.Get("Location"), uri) {
				t.Errorf("%s, %s: denied: %s", uri, tt.name, answer)
			}
			if code := b.code(asks(c)); code == "" {
				t.Errorf("%s, %s: no code: %s", uri, tt.name, b.last)
			}
		}
	}
}
