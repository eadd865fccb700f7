package authz_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
)

// profile is the behaviour of a client, as the tests of internal/e2e recorded it from the
// product.
type profile struct {
	name     string // of its registration in dcr/testdata/clients
	document string // of its document in dcr/testdata/documents, "" for a client without one
	redirect string // its redirect URI in this run
	scope    string // its scope parameter after the challenge and the metadata of the demo
	prompt   string // its prompt parameter, if any
	margin   time.Duration
	twice    bool // whether it registers a second time before the sign-in
}

const (
	both    = "notes:read notes:write"
	offline = both + " offline_access"
)

// profiles are current clients with their default settings.
var profiles = []profile{
	{name: "codex-0.169", document: "codex", redirect: "http://127.0.0.1:38211/callback", scope: offline},
	{name: "claude-code-2.1", document: "claude-code", redirect: "http://localhost:57435/callback", scope: offline, prompt: "consent", margin: 5 * time.Minute},
	{name: "gemini-cli-0.61", redirect: "http://localhost:34849/oauth/callback", scope: offline, margin: 5 * time.Minute},
	{name: "opencode-1.18", redirect: "http://127.0.0.1:19876/mcp/oauth/callback", scope: offline, prompt: "consent", twice: true},
	{name: "mcporter-0.12", redirect: "http://127.0.0.1:40435/callback", scope: both, margin: time.Minute},
	{name: "mcp-remote-0.15", redirect: "http://localhost:20148/oauth/callback", scope: offline, prompt: "consent"},
	{name: "inspector-cli", redirect: "http://127.0.0.1:6276/oauth/callback", scope: offline, prompt: "consent"},
	{name: "inspector-web-2.12", redirect: "http://127.0.0.1:6274/oauth/callback", scope: offline, prompt: "consent"},
	{name: "use-mcp-0.0", redirect: "http://127.0.0.1:39003/oauth/callback", scope: both},
	{name: "ai-sdk-mcp-2.0", redirect: "http://127.0.0.1:41999/callback", scope: both},
	{name: "copilot-cli-1.0", redirect: "http://127.0.0.1:36041/", scope: offline, prompt: "consent"},
	{name: "amp-0.0", redirect: "http://localhost:41592/oauth/callback", scope: both},
	{name: "qwen-code-0.24", redirect: "http://localhost:7777/oauth/callback", scope: both, margin: 5 * time.Minute},
	{name: "mcp-cli-2.0", redirect: "http://127.0.0.1:49153/oauth/callback", scope: both},
	{name: "mcp-go-1.2", redirect: "http://127.0.0.1:8085/oauth/callback", scope: both},
}

// TestRecordedClients replays each client: it registers, or uses its document where it has
// one and the server offers that; it sends an authorization request, which a person allows;
// it redeems the code, calls for an hour, and refreshes when its token ends within its
// margin.
func TestRecordedClients(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		t.Run(p.name+"/registration", func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			body, err := os.ReadFile(filepath.Join("../dcr/testdata/clients", p.name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			c, _ := h.registered(t, body)
			if p.twice {
				c, _ = h.registered(t, body)
			}
			p.live(t, h, c)
		})
		if p.document == "" {
			continue
		}
		t.Run(p.name+"/document", func(t *testing.T) {
			t.Parallel()
			web := webtest.New(t)
			h := newHarness(t, setup{config: func(c *authz.Config) {
				c.Fetcher, c.Documents = web.Fetcher(nil), dcr.Documents{Trust: dcr.TrustAsk}
			}})
			c := described(web.Publish(filepath.Join("../dcr/testdata/documents", p.document+".json")), p.redirect)
			p.live(t, h, c)
		})
	}
}

// live simulates an hour with one call each minute.
func (p profile) live(t *testing.T, h *harness, c testClient) {
	t.Helper()
	c.redirect = p.redirect
	request := replaced(asks(c), "scope", p.scope, "resource", notes, "prompt", p.prompt)
	held := h.redeemed(t, c, h.newBrowser().code(request))
	first, refreshes := held.lives, 0
	for range 60 {
		h.clock.advance(time.Minute)
		if held.ends.Sub(h.clock.Now()) <= p.margin {
			refreshes++
			held = h.holds(t, h.toToken(c, naming(refreshing(c, held.refresh), notes)), held.refresh)
		}
		if !h.active(held.access) {
			t.Fatal("it calls with a token that does not count")
		}
	}
	if want := int(time.Hour / (first - p.margin)); refreshes != want {
		t.Errorf("%d refreshes in an hour, want %d", refreshes, want)
	}
}

// holding is what a client keeps of a token response.
type holding struct {
	access, refresh string
	lives           time.Duration
	ends            time.Time
}

func (h *harness) redeemed(t *testing.T, c testClient, code string) holding {
	t.Helper()
	answer := h.toToken(c, naming(redemption(c, code), notes))
	if claims(t, answer.member(t, "access_token"))["client_id"] != c.ID || answer.member(t, "scope") != both {
		t.Errorf("it is granted %s", answer)
	}
	return h.holds(t, answer, "")
}

// holds reads a token response. Its refresh token must differ from before.
func (h *harness) holds(t *testing.T, answer reply, before string) holding {
	t.Helper()
	seconds, _ := answer.json(t)["expires_in"].(float64)
	l := holding{access: answer.member(t, "access_token"), refresh: answer.member(t, "refresh_token"), lives: time.Duration(seconds) * time.Second}
	if answer.status != http.StatusOK || l.refresh == "" || l.refresh == before || !strings.EqualFold(answer.member(t, "token_type"), "bearer") {
		t.Fatalf("tokens: %s", answer)
	}
	l.ends = h.clock.Now().Add(l.lives)
	return l
}
