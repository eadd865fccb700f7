package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
)

const (
	scopeRead  = "notes:read"
	scopeWrite = "notes:write"
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

// desk is what the tools work with.
type desk struct {
	notes *notebook
	// caller returns who calls, nil if that is not known.
	caller func(*mcp.CallToolRequest) *middleware.Token
}

// needs are the tools and the scopes that each one needs.
func (d desk) needs() map[string][]string {
	return map[string][]string{"whoami": {}, "list_notes": {scopeRead}, "add_note": {scopeWrite}}
}

// newServer is the protocol server with its tools.
func newServer(d desk) *mcp.Server {
	about := &mcp.Implementation{Name: "gatehouse-demo", Title: "Notes (demo)", Version: "0.1.0", Icons: iconsOf("notes")}
	server := mcp.NewServer(about, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list of tools never changes
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.CacheScope = "private" // answers to people who signed in stay with them
		},
	})
	addTool(server, d, "whoami", "Say who is calling.", reads(), d.whoami)
	addTool(server, d, "list_notes", "List your notes.", reads(), d.list)
	addTool(server, d, "add_note", "Add a note.", writes(), d.add)
	return server
}

func reads() mcp.ToolAnnotations {
	hints := writes()
	hints.ReadOnlyHint = true
	return hints
}

func writes() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
}

func (d desk) whoami(_ context.Context, caller *middleware.Token, _ nothing) (identity, error) {
	return identity{
		Subject: caller.Subject, ClientID: caller.ClientID, Issuer: caller.Issuer, Scopes: append([]string{}, caller.Scopes...),
	}, nil
}

func (d desk) list(_ context.Context, caller *middleware.Token, _ nothing) (notesList, error) {
	return notesList{Notes: append([]string{}, d.notes.list(caller.Principal())...)}, nil
}

func (d desk) add(_ context.Context, caller *middleware.Token, note newNote) (noteCount, error) {
	count, err := d.notes.add(caller.Principal(), note.Text)
	return noteCount{Count: count}, err
}

// addTool adds a tool that runs only for callers whose token has its scopes.
func addTool[In, Out any](server *mcp.Server, d desk, name, description string, hints mcp.ToolAnnotations,
	do func(context.Context, *middleware.Token, In) (Out, error)) {
	needs := d.needs()[name]
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description, Annotations: &hints, Icons: iconsOf(name)},
		func(ctx context.Context, request *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			var none Out
			caller := d.caller(request)
			if caller == nil {
				return nil, none, fmt.Errorf("%s needs an access token", name)
			}
			for _, scope := range needs {
				if !caller.HasScope(scope) {
					return nil, none, fmt.Errorf("%s needs the scope %s", name, scope)
				}
			}
			out, err := do(ctx, caller, in)
			return nil, out, err
		})
}
