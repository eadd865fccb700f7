package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type (
	nothing  struct{}
	identity struct {
		Subject  string   `json:"subject" jsonschema:"the person, as the authorization server names them"`
		ClientID string   `json:"client_id" jsonschema:"the client that acts for the person"`
		Issuer   string   `json:"issuer" jsonschema:"the authorization server"`
		Scopes   []string `json:"scopes" jsonschema:"what the token covers"`
	}
	notesList struct {
		Notes []string `json:"notes" jsonschema:"the notes, the oldest first"`
	}
	newNote struct {
		Text string `json:"text" jsonschema:"what the note says, at most 4096 bytes"`
	}
	noteCount struct {
		Count int `json:"count" jsonschema:"how many notes there are now"`
	}
)

// newServer is the protocol server with its three tools.
func newServer(notes *notebook) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "gatehouse-demo", Title: "Notes (demo)", Version: "0.1.0"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list of tools never changes
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.CacheScope = "private" // answers to people who signed in stay with them
		},
	})
	addTool(server, "whoami", "Say who is calling.", true, func(caller *auth.TokenInfo, _ nothing) (identity, error) {
		return identity{
			Subject: fmt.Sprint(caller.Extra["sub"]), ClientID: fmt.Sprint(caller.Extra["client_id"]),
			Issuer: fmt.Sprint(caller.Extra["iss"]), Scopes: append([]string{}, caller.Scopes...),
		}, nil
	})
	addTool(server, "list_notes", "List your notes.", true, func(caller *auth.TokenInfo, _ nothing) (notesList, error) {
		return notesList{Notes: append([]string{}, notes.list(caller.UserID)...)}, nil
	})
	addTool(server, "add_note", "Add a note.", false, func(caller *auth.TokenInfo, note newNote) (noteCount, error) {
		count, err := notes.add(caller.UserID, note.Text)
		return noteCount{Count: count}, err
	})
	return server
}

// addTool adds a tool that runs only for callers whose token has its scopes. The caller
// is that of the request and not of the session, whose context is that of its first
// request.
func addTool[In, Out any](server *mcp.Server, name, description string, readOnly bool, do func(*auth.TokenInfo, In) (Out, error)) {
	no := false
	hints := &mcp.ToolAnnotations{ReadOnlyHint: readOnly, DestructiveHint: &no, OpenWorldHint: &no}
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description, Annotations: hints},
		func(_ context.Context, request *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			var none Out
			caller := callerOf(request)
			if caller == nil {
				return nil, none, fmt.Errorf("%s needs an access token", name)
			}
			for _, scope := range toolScopes[name] {
				if !slices.Contains(caller.Scopes, scope) {
					return nil, none, fmt.Errorf("%s needs the scope %s", name, scope)
				}
			}
			out, err := do(caller, in)
			return nil, out, err
		})
}

func callerOf(request *mcp.CallToolRequest) *auth.TokenInfo {
	if extra := request.GetExtra(); extra != nil {
		return extra.TokenInfo
	}
	return nil
}
