package doctor_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestBasis: each way says how it is known. A version that was run is the one that the scripts
// install or that go.mod has, so that a newer one is not believed to have been run.
func TestBasis(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	installed := regexp.MustCompile(`[\s_](TYPESCRIPT_CLIENT_VERSION=|[a-z@./-]+[ @])v?([0-9][0-9.]*)`).FindAllStringSubmatch(
		read("../internal/e2e/testdata/clients.txt")+read("../scripts/test")+read("../go.mod"), -1)
	version := map[string]string{}
	for _, m := range installed {
		version[strings.TrimRight(m[1], " @=")] = m[2]
	}
	packages := map[string]string{
		"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini-cli": "@google/gemini-cli", "inspector": "@modelcontextprotocol/inspector",
		"mcp-remote": "mcp-remote", "go-sdk": "github.com/modelcontextprotocol/go-sdk", "typescript-sdk": "TYPESCRIPT_CLIENT_VERSION", "vscode": "code-server",
	}
	version["code-server"] = strings.Replace(version["code-server"], "4.", "1.", 1) // it counts as VS Code does, but for the first number
	report := examined(t, healthy(notes, issuer))
	for _, way := range report.As {
		if !regexp.MustCompile(`^20\d\d-\d\d-\d\d$`).MatchString(way.Dated) {
			t.Errorf("%s: %q is no day", way.Client, way.Dated)
		}
		if run := packages[way.Client] != ""; run != (way.Basis == doctor.Runs) || run && version[packages[way.Client]] != way.Version {
			t.Errorf("%s %s is known by %s, installed is %q", way.Client, way.Version, way.Basis, version[packages[way.Client]])
		}
	}
	for _, client := range []string{"", "cursor", "codex"} {
		of := report
		if client != "" {
			of, _ = report.Only(client)
		}
		var text strings.Builder
		if err := of.WriteText(&text, false); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "\nruns: compared with the program itself: ") != (client != "cursor") ||
			strings.Contains(text.String(), "\nreports: from reports only, the program was not run: ") != (client != "codex") {
			t.Errorf("%s:\n%s", client, text.String())
		}
	}
}
