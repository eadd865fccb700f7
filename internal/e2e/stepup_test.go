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

// typescriptClients are the official ones. Version 2 steps up with a refresh token as well;
// version 1 would only take a new token for the same scopes then, and give up.
var typescriptClients = []struct{ name, pkg, grants string }{
	{"version 2", "@modelcontextprotocol/client", "authorization_code"},
	{"version 2 with a refresh token", "@modelcontextprotocol/client", "authorization_code,refresh_token"},
	{"version 1", "@modelcontextprotocol/sdk", "authorization_code"},
}

// The official TypeScript clients step up: the person allows notes:read alone, add_note is
// refused, and the person is asked once more. Version 2 asks for what it had and for what
// is missing. Version 1 asks for what the challenge names, and nothing else.
func TestTypeScriptClientStepsUp(t *testing.T) {
	t.Parallel()
	for _, tt := range typescriptClients {
		t.Run(tt.name, func(t *testing.T) {
			_, demo := startPair(t)
			pages := 0
			got := stepUp(t, tt.pkg, tt.grants, demo, func(page string) *url.URL {
				pages++
				return decide(t, newBrowser(t), page, "allow", func(scope string) bool { return pages > 1 || scope == "notes:read" })
			}, `{"name":"whoami"}`, `{"name":"add_note","arguments":{"text":"milk"}}`, `{"name":"whoami"}`)
			offline := ""
			if strings.Contains(tt.grants, "refresh_token") {
				offline = " offline_access"
			}
			asked, granted, scopes := "notes:read notes:write"+offline, "notes:read notes:write", `["notes:read","notes:write"]`
			if tt.name == "version 1" {
				asked, granted, scopes = "notes:write", "notes:write", `["notes:write"]`
			}
			reports(t, got,
				`{"asked":"notes:read notes:write`+offline+`","refusals":[]}`,
				`{"granted":"notes:read"}`,
				`{"whoami":["notes:read"]}`,
				`{"asked":"`+asked+`","refusals":["insufficient_scope"]}`,
				`{"granted":"`+granted+`"}`,
				`{"add_note":{"count":1}}`,
				`{"whoami":`+scopes+`}`,
				`{"grants":["authorization_code","authorization_code"]}`)
		})
	}
}

// stepUp runs a TypeScript client that makes calls, and answers the pages that it opens. It
// returns the report of the client.
func stepUp(t *testing.T, pkg, grants string, server *process, answer func(page string) *url.URL, calls ...string) []string {
	t.Helper()
	node, sdk := typescript(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("testdata", "stepup.mjs"), pkg,
		server.URL + "/mcp", "http://127.0.0.1:41999/callback", grants}, calls...)...)
	cmd.Env = append(cleanEnvironment(), "TYPESCRIPT_SDK="+sdk)
	return converse(t, cmd, answer)
}

func reports(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the client reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
