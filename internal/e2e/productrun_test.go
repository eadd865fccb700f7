//go:build e2e && clients

package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatehouse.example/storage/redis/redistest"
)

// signIn is how a product identifies itself: by a document, if its maker has one and the server
// offers documents, and otherwise by a registration.
type signIn struct {
	profile  string // how it registers: a file in dcr/testdata/clients
	document string // the same document as its maker's, a file in dcr/testdata/documents
	early    bool   // whether it refreshes five minutes before a token ends
}

// run drives a product with the default settings of the server, which offers documents if it can
// reach the public web. A product with a document is driven in both ways on every machine: with
// pinned documents, and without documents.
func (s signIn) run(t *testing.T, folder string, drive func(p *product, resource string)) {
	t.Run("default settings", func(t *testing.T) { s.check(t, s.drive(t, folder, drive)) })
	if s.early {
		t.Run("tokens of four minutes", func(t *testing.T) {
			if s.drive(t, folder, drive, "--client-documents", "off", "--access-token-ttl", "4m").granted("refresh_token") == 0 {
				t.Error("it does not refresh early, as authz/TestRecordedClients has it")
			}
		})
	}
	if s.document == "" {
		return
	}
	t.Run("without documents", func(t *testing.T) {
		record := s.drive(t, folder, drive, "--client-documents", "off")
		s.check(t, record)
		if len(record.all("/register")) == 0 {
			t.Error("it did not register")
		}
	})
	t.Run("with documents", func(t *testing.T) {
		record := s.drive(t, folder, drive, "--client-documents-pinned", s.id(t)+"="+s.file(), "--egress-check", "off")
		s.check(t, record)
		if n := len(record.all("/register")); n != 0 {
			t.Errorf("it registered %d times although documents are offered", n)
		}
	})
}

// check compares a sign-in with the profile of the product. With the default lifetime of tokens,
// no product refreshes a token that it just received.
func (s signIn) check(t *testing.T, record *tape) {
	t.Helper()
	if n := record.granted("refresh_token"); n != 0 {
		t.Errorf("%d refreshes of new tokens", n)
	}
	if len(record.all("/register")) > 0 || s.document == "" {
		checkProfile(t, record, s.profile)
		return
	}
	for _, h := range record.all("/token") {
		if form, err := url.ParseQuery(h.body); err != nil || form.Get("client_id") != s.id(t) {
			t.Errorf("it calls itself %s, want %s", form.Get("client_id"), s.id(t))
		}
	}
}

func (s signIn) file() string {
	return filepath.Join("../../dcr/testdata/documents", s.document+".json")
}

// id returns the URL of the document of the product.
func (s signIn) id(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(s.file())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	return document.ID
}

// drive has a product sign in and list the tools.
func (s signIn) drive(t *testing.T, folder string, drive func(p *product, resource string), args ...string) *tape {
	t.Helper()
	p := install(t, folder)
	_, resource, record := startTaped(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(record.story())
		}
	})
	drive(p, resource)
	if record.granted("authorization_code") == 0 || !record.called("tools/list") {
		t.Errorf("signed in %d times, listed tools: %t", record.granted("authorization_code"), record.called("tools/list"))
	}
	return record
}

func TestCodexSignsIn(t *testing.T) {
	s := signIn{profile: "codex-0.169", document: "codex"}
	s.run(t, "codex", func(p *product, resource string) {
		codex := p.native("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
		add := p.start(codex, "mcp", "add", "notes", "--url", resource)
		add.allows()
		says(t, add.end(), "Successfully logged in")
		says(t, p.run(codex, "mcp", "list"), "notes", "OAuth")
		// What it would show to a model needs no model.
		app := p.start(codex, "app-server")
		app.types(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"gatehouse","version":"1"}}}` + "\n")
		app.says(`"id":1`)
		app.types(`{"method":"initialized"}` + "\n" + `{"id":2,"method":"mcpServerStatus/list","params":{}}` + "\n")
		app.says(`"id":2`)
		says(t, app.finish(), `"list_notes"`, `"add_note"`)
	})
}

func TestClaudeCodeSignsIn(t *testing.T) {
	s := signIn{profile: "claude-code-2.1", document: "claude-code", early: true}
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
func TestGeminiCLISignsIn(t *testing.T) {
	signIn{profile: "gemini-cli-0.61", early: true}.run(t, "gemini", func(p *product, resource string) {
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

func TestOpencodeSignsIn(t *testing.T) {
	signIn{profile: "opencode-1.18"}.run(t, "opencode", func(p *product, resource string) {
		opencode := p.native("opencode-linux-x64/bin/opencode")
		p.run(opencode, "mcp", "add", "notes", "--url", resource)
		auth := p.start(opencode, "mcp", "auth", "notes")
		auth.allows()
		says(t, auth.end(), "uccess")
		says(t, p.run(opencode, "mcp", "list"), "notes", "connected")
	})
}

// mcporter listens on another port each time, and also on a configured one.
func TestMcporterSignsIn(t *testing.T) {
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

		fixed := "http://" + redistest.FreeAddress(t) + "/callback"
		p.run(mcporter, "config", "remove", "notes")
		p.run(mcporter, "config", "add", "notes", resource, "--oauth-redirect-url", fixed)
		auth := p.start(mcporter, "auth", "notes", "--reset")
		if page, err := url.Parse(auth.allows()); err != nil || page.Query().Get("redirect_uri") != fixed {
			t.Errorf("it listens at %s, want %s", page.Query().Get("redirect_uri"), fixed)
		}
		auth.end()
	})
}

// Where registration is closed, mcporter is a client that the operator configured, with its one
// configured redirect URI.
func TestConfiguredMcporterSignsIn(t *testing.T) {
	p := install(t, "mcporter")
	fixed := "http://" + redistest.FreeAddress(t) + "/callback"
	file := filepath.Join(p.home, "gatehouse.yaml")
	p.write(file, "registration: closed\nclients:\n  - client_id: tools\n    redirect_uris: ["+fixed+"]\n", 0o600)
	_, resource, record := startTaped(t, "--config", file)
	mcporter := p.node("mcporter/dist/cli.js")
	p.run(mcporter, "config", "add", "notes", resource, "--oauth-client-id", "tools", "--oauth-redirect-url", fixed)
	auth := p.start(mcporter, "auth", "notes")
	auth.allows()
	auth.end()
	says(t, p.run(mcporter, "list", "notes", "--schema"), "list_notes", "add_note")
	if len(record.all("/register")) != 0 || record.granted("authorization_code") != 1 {
		t.Errorf("it registered, or did not sign in:\n%s", record.story())
	}
}

// The Inspector reports nothing about the schemas of the demo's tools. On its command line it
// prints the page instead of opening it.
func TestInspectorSignsIn(t *testing.T) {
	signIn{profile: "inspector-cli"}.run(t, "inspector", func(p *product, resource string) {
		p.env = append(p.env, "MCP_INSPECTOR_SECRET_STORE=file")
		inspector := p.node(".bin/mcp-inspector")
		list := p.terminal(inspector, "--cli", resource, "--method", "tools/list", "--strict")
		list.allowsAt(list.prints(authorizePage))
		record := list.end()
		says(t, record, `"list_notes"`, `"add_note"`)
		for _, complaint := range []string{"portability", "warning", "Warning"} {
			if strings.Contains(record, complaint) {
				t.Errorf("it complains about a schema:\n%s", record)
			}
		}
		says(t, p.run(inspector, "--cli", resource, "--stored-auth-only", "--method", "tools/call", "--tool-name", "add_note", "--tool-arg", "text=milk"), "1")
	})
}

// In its page, the Inspector connects when the user switches the server on, and the sign-in takes
// the place of the page.
func TestInspectorPageSignsIn(t *testing.T) {
	signIn{profile: "inspector-web-2.12"}.run(t, "inspector", func(p *product, resource string) {
		p.env = append(p.env, "MCP_INSPECTOR_SECRET_STORE=memory", "MCP_AUTO_OPEN_ENABLED=false")
		web := p.start(p.node(".bin/mcp-inspector"), resource)
		chrome := openChromium(p.t)
		chrome.open(web.prints(`http://127\.0\.0\.1:\d+/?\?MCP_INSPECTOR_API_TOKEN=\w+`))
		chrome.do("switch the server on", chromedp.Click(chromedp.CSS(`input[aria-label^="Connect or disconnect"]`), chromedp.NodeReady))
		chrome.typeInto(`input[name="username"]`, personName)
		chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
		chrome.click(`button[name="decision"][value="allow"]`)
		until(p.t, "it is connected", func() bool {
			return chrome.holds(`Boolean(document.body?.innerText.includes("Authorization complete"))`)
		})
		chrome.do("open the tools", chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("label")].find((e) => e.innerText === "Tools").click()`))
		for _, tool := range []string{"add_note", "list_notes", "whoami"} {
			find := `[...document.querySelectorAll("button")].find((e) => e.innerText === "` + tool + `")`
			until(p.t, "it shows "+tool, func() bool { return chrome.holds(find + " !== undefined") })
			chrome.do("open "+tool, chromedp.Evaluate[chromedp.Void](find+".click()"))
			if text := chrome.await("body"); strings.Contains(strings.ToLower(text), "warning") {
				p.t.Errorf("it warns of %s:\n%s", tool, text)
			}
		}
	})
}

// Copilot CLI signs in when a session starts. With a model of one's own it needs no account, and the
// model is not asked.
func TestCopilotCLISignsIn(t *testing.T) {
	signIn{profile: "copilot-cli-1.0"}.run(t, "copilot", func(p *product, resource string) {
		copilot := p.node("@github/copilot/npm-loader.js")
		p.env = append(p.env, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:9/v1", "COPILOT_MODEL=none", "COPILOT_AUTO_UPDATE=false", noDesktop)
		p.run(copilot, "mcp", "add", "--transport", "http", "notes", resource)
		session := p.terminal(copilot)
		session.allows()
		session.says("Do you trust the files")
		session.slowly("\r")
		session.insists("list_notes", "/mcp show notes", "\r")
	})
}

// Amp needs a key to start, and asks nobody about it before it lists the tools. It opens a browser
// on a terminal only.
func TestAmpSignsIn(t *testing.T) {
	signIn{profile: "amp-0.0"}.run(t, "amp", func(p *product, resource string) {
		amp := p.native("@ampcode/cli-linux-x64/amp")
		p.env = append(p.env, "AMP_API_KEY=none", noDesktop)
		p.run(amp, "mcp", "add", "notes", resource)
		doctor := p.terminal(amp, "mcp", "doctor")
		doctor.allows()
		says(t, doctor.end(), "connected (3 tools: add_note, list_notes, whoami)")
		says(t, p.terminal(amp, "mcp", "doctor").end(), "connected (3 tools: add_note, list_notes, whoami)")
	})
}

func TestMcpCLISignsIn(t *testing.T) {
	signIn{profile: "mcp-cli-2.0"}.run(t, "mcp-cli", func(p *product, resource string) {
		p.env = append(p.env, noDesktop)
		session := p.terminal(p.node("@wong2/mcp-cli/src/cli.js"), "--url", resource)
		session.allows()
		session.says("list_notes")
	})
}

func TestMcpRemoteSignsIn(t *testing.T) {
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
