package examples

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// pagedEndpoint is a server of the official Go SDK with pages of one item. Its cursors contain the
// name of the last item.
func pagedEndpoint() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, &mcp.ServerOptions{PageSize: 1})
	for _, name := range []string{"a_hidden_tool", "list_notes", "m_hidden_tool", "whoami", "z_hidden_tool"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, whoami)
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
}

// TestOfficialClientReadsPages: the official client reads the pages of the official server
// through the guard and the gateway, and no cursor contains the name of a hidden item.
func TestOfficialClientReadsPages(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	policy := func(c *middleware.Config) {
		c.Policy.Tools = map[string][]string{"whoami": nil, "list_notes": nil}
	}
	for name, build := range map[string]func(string) (http.Handler, error){
		"guard": guarded(issuer.URL(), pagedEndpoint(), policy), "gateway": gated(t, issuer.URL(), pagedEndpoint(), policy),
	} {
		url := start(t, "/mcp", build)
		session, err := connect(t, url, &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": url})})
		if err != nil {
			t.Fatal(err)
		}
		var names, cursors []string
		params := &mcp.ListToolsParams{}
		for {
			page, err := session.ListTools(t.Context(), params)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, tool := range page.Tools {
				names = append(names, tool.Name)
			}
			if page.NextCursor == "" {
				break
			}
			cursors = append(cursors, page.NextCursor)
			params = &mcp.ListToolsParams{Cursor: page.NextCursor}
		}
		if !slices.Equal(names, []string{"list_notes", "whoami"}) || len(cursors) != 4 {
			t.Errorf("%s: %q in %d pages", name, names, len(cursors)+1)
		}
		stranger, err := connect(t, url, &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": url, "sub": "stranger"})})
		if err != nil {
			t.Fatal(err)
		}
		for _, cursor := range cursors {
			if _, err := stranger.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor}); err == nil || !strings.Contains(err.Error(), "cursor") {
				t.Errorf("%s: a cursor of somebody else: %v", name, err)
			}
		}
	}
}
