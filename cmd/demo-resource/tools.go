package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
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
	archivedCount struct {
		Archived int `json:"archived" jsonschema:"how many notes the archive has now"`
	}
)

// desk has the data and dependencies of the tools.
type desk struct {
	notes   *notebook
	archive *archive // nil if there is none
	// caller returns the token of the caller, nil if it is not known.
	caller func(*mcp.CallToolRequest) *middleware.Token
}

// needs returns the tools and the scopes that each one needs.
func (d desk) needs() map[string][]string {
	tools := map[string][]string{"whoami": {}, "list_notes": {scopeRead}, "add_note": {scopeWrite}}
	if d.archive != nil {
		tools["archive_notes"] = []string{scopeRead}
	}
	return tools
}

// newServer returns the protocol server with its tools.
func newServer(d desk) *mcp.Server {
	about := &mcp.Implementation{Name: "gatehouse-demo", Title: "Notes (demo)", Version: "0.1.0", Icons: iconsOf("notes")}
	server := mcp.NewServer(about, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list of tools never changes
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.CacheScope = "private" // results depend on the person
		},
	})
	no, yes := false, true
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	addTool(server, d, mcp.Tool{Name: "whoami", Description: "Say who is calling.", Annotations: reads}, d.whoami)
	addTool(server, d, mcp.Tool{Name: "list_notes", Description: "List your notes.", Annotations: reads}, d.list)
	writes := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	addTool(server, d, mcp.Tool{Name: "add_note", Description: "Add a note.", Annotations: writes}, d.add)
	if d.archive != nil {
		sends := &mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &yes}
		addTool(server, d, mcp.Tool{Name: "archive_notes", Description: "Copy your notes to the archive.", Annotations: sends}, d.keep)
	}
	return server
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

func (d desk) keep(ctx context.Context, caller *middleware.Token, _ nothing) (archivedCount, error) {
	notes := append([]string{}, d.notes.list(caller.Principal())...)
	return archivedCount{Archived: len(notes)}, d.archive.keep(ctx, caller.Principal(), notes)
}

// addTool adds a tool that runs only for callers whose token has its scopes.
func addTool[In, Out any](server *mcp.Server, d desk, tool mcp.Tool, do func(context.Context, *middleware.Token, In) (Out, error)) {
	tool.Icons, tool.OutputSchema = iconsOf(tool.Name), returned[Out]()
	needs := d.needs()[tool.Name]
	mcp.AddTool(server, &tool, func(ctx context.Context, request *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var none Out
		caller := d.caller(request)
		if caller == nil {
			return nil, none, fmt.Errorf("%s needs an access token", tool.Name)
		}
		for _, scope := range needs {
			if !caller.HasScope(scope) {
				return nil, none, fmt.Errorf("%s needs the scope %s", tool.Name, scope)
			}
		}
		out, err := do(ctx, caller, in)
		return nil, out, err
	})
}

// returned returns the schema of the result of a tool. Its lists are never null, so the schema
// does not allow null: some clients accept only one type for each value.
func returned[Out any]() *jsonschema.Schema {
	schema, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(err) // a type of this package has no schema
	}
	for _, property := range schema.Properties {
		if slices.Equal(property.Types, []string{"null", "array"}) {
			property.Type, property.Types = "array", nil
		}
	}
	return schema
}
