//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The official TypeScript clients step up: the person allows notes:read alone, add_note is
// refused, and the person is asked once more. Version 2 asks for everything that it had and
// what is missing, also while it holds a refresh token. Version 1 asks for what the
// challenge names and nothing else, and only without a refresh token: it takes a new token
// for the same scopes for a step up otherwise.
func TestTypeScriptClientStepsUp(t *testing.T) {
	node, sdk := typescript(t)
	for _, tt := range []struct {
		name, pkg           string
		grants              []string
		first, asked, after string // the scopes of both authorization requests, and those of the token at the end
		scopes              string
	}{
		{"version 2", "@modelcontextprotocol/client", []string{"authorization_code"},
			"notes:read notes:write", "notes:read notes:write", "notes:read notes:write", `["notes:read","notes:write"]`},
		{"version 2 with a refresh token", "@modelcontextprotocol/client", []string{"authorization_code", "refresh_token"},
			"notes:read notes:write offline_access", "notes:read notes:write offline_access", "notes:read notes:write", `["notes:read","notes:write"]`},
		{"version 1", "@modelcontextprotocol/sdk", []string{"authorization_code"},
			"notes:read notes:write", "notes:write", "notes:write", `["notes:write"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, demo := startPair(t)
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("testdata", "stepup.mjs"), tt.pkg,
				demo.URL + "/mcp", "http://127.0.0.1:41999/callback"}, tt.grants...)...)
			cmd.Env = append(cleanEnvironment(), "TYPESCRIPT_SDK="+sdk)
			pages := 0
			got := converse(t, cmd, func(page string) *url.URL {
				pages++
				return decide(t, newBrowser(t), page, "allow", func(scope string) bool { return pages > 1 || scope == "notes:read" })
			})
			want := []string{
				`{"asked":"` + tt.first + `","refusals":[]}`,
				`{"granted":"notes:read"}`,
				`{"scopes":["notes:read"]}`,
				`{"asked":"` + tt.asked + `","refusals":["insufficient_scope"]}`,
				`{"granted":"` + tt.after + `"}`,
				`{"added":{"count":1}}`,
				`{"scopes":` + tt.scopes + `}`,
				`{"grants":["authorization_code","authorization_code"]}`,
			}
			if !slices.Equal(got, want) {
				t.Errorf("the client reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
