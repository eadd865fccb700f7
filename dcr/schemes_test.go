package dcr_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// TestSchemesThatAnybodyCouldClaim: a private-use scheme must be a domain name in reverse
// order, that of a widely used client, or one that the operator listed.
func TestSchemesThatAnybodyCouldClaim(t *testing.T) {
	for _, tt := range []struct {
		scheme string
		ok     bool
	}{
		{"com.example.app", true}, {"org.example", true}, {"io.example.my-app2", true}, {"xn--p1ai.example.app", true}, {"dev.example.1app", true},
		{"cursor", true}, {"vscode", true}, {"vscode-insiders", true}, {"vscodium", true}, {"windsurf", true}, {"warp", true}, {"raycast", true},
		{"myapp", false}, {"steamy", false}, {"cursor2", false}, {"vscode-", false}, {"vscode-insider", false}, {"cursors", false}, {"x-cursor", false}, {"code", false},
		{"cursor.", false}, {"com.", false}, {"com..app", false}, {"com.example.", false}, {"c.example", false}, {"com.-app", false}, {"com.app-", false}, {"com1.example", false},
		{"com.exa+mple", false}, {"com." + strings.Repeat("a", 64), false}, {"ms-word.example", false}, {"javascript", false},
	} {
		f := newFixture(t, nil)
		for _, rest := range []string{":/cb", "://host/cb", ":cb"} {
			a := f.post(t, fmt.Sprintf(`{"redirect_uris":["https://client.example.com/cb","%s%s"]}`, tt.scheme, rest))
			if !tt.ok {
				assertRefused(t, f, a, http.StatusBadRequest, "invalid_redirect_uri")
				if !strings.Contains(a.raw, "redirect_uris[1]") || !strings.Contains(a.raw, tt.scheme[:min(len(tt.scheme), 20)]) {
					t.Errorf("%s%s: the answer does not say which: %s", tt.scheme, rest, a.raw)
				}
			} else if a.status != http.StatusCreated {
				t.Errorf("%s%s: %s", tt.scheme, rest, a.raw)
			}
		}
	}
}

// TestNamedSchemes: with a list of schemes, only these are allowed.
func TestNamedSchemes(t *testing.T) {
	named := dcr.Policy{PrivateUseSchemes: []string{"myapp", "org.example.app"}}
	for uri, ok := range map[string]bool{"myapp://cb": true, "org.example.app:/cb": true, "cursor://anysphere.cursor-mcp/oauth/callback": false, "com.example.app:/cb": false, "otherapp:/cb": false} {
		f := newFixture(t, func(c *dcr.Config) { c.Policy = named })
		a := f.post(t, `{"redirect_uris":["`+uri+`"]}`)
		if got := a.status == http.StatusCreated; got != ok {
			t.Errorf("%s: %s", uri, a.raw)
		}
	}
}

// TestClientsOfTheOperator: configured clients may have any private-use scheme.
func TestClientsOfTheOperator(t *testing.T) {
	newFixture(t, func(c *dcr.Config) {
		c.Static = []storage.Client{{ID: "app", Source: storage.ClientConfigured, Metadata: metadata.Client{
			RedirectURIs: []string{"myapp://cb"}, TokenEndpointAuthMethod: metadata.AuthMethodNone, ClientName: "The app",
			GrantTypes: []string{metadata.GrantAuthorizationCode}, ResponseTypes: []string{"code"},
		}}}
	})
}
