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
	server := mcp.NewServer(&mcp.Implementation{Name: "gatehouse-demo", Title: "Notes (demo)", Version: "0.1.0"}, nil)
	addTool(server, "whoami", "Say who is calling.", func(caller *auth.TokenInfo, _ nothing) (identity, error) {
		return identity{
			Subject: fmt.Sprint(caller.Extra["sub"]), ClientID: fmt.Sprint(caller.Extra["client_id"]),
			Issuer: fmt.Sprint(caller.Extra["iss"]), Scopes: append([]string{}, caller.Scopes...),
		}, nil
	})
	addTool(server, "list_notes", "List your notes.", func(caller *auth.TokenInfo, _ nothing) (notesList, error) {
		return notesList{Notes: append([]string{}, notes.list(caller.UserID)...)}, nil
	})
	addTool(server, "add_note", "Add a note.", func(caller *auth.TokenInfo, note newNote) (noteCount, error) {
		count, err := notes.add(caller.UserID, note.Text)
		return noteCount{Count: count}, err
	})
	return server
}

// addTool adds a tool that runs only for callers whose token has its scopes.
func addTool[In, Out any](server *mcp.Server, name, description string, do func(*auth.TokenInfo, In) (Out, error)) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description},
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
