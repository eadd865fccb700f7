// Command client connects the client of mcp-go to a protected server, as an application does for
// its user.
//
//	client SERVER REDIRECT
//
// Each line on standard output is JSON: {"open":URL} asks for that page to be opened, and the next
// line on standard input is the address at which the browser ended; the other lines report
// results.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, redirect string) error {
	store := transport.NewMemoryTokenStore()
	c, err := client.NewOAuthStreamableHttpClient(server, client.OAuthConfig{
		RedirectURI: redirect, Scopes: []string{"notes:read", "notes:write"}, TokenStore: store, PKCEEnabled: true,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		return err
	}
	err = initialize(ctx, c)
	if !client.IsOAuthAuthorizationRequiredError(err) {
		return fmt.Errorf("it should be asked to sign in, not: %v", err)
	}
	if err := signIn(ctx, client.GetOAuthHandler(err)); err != nil {
		return err
	}
	if err := initialize(ctx, c); err != nil {
		return err
	}
	if err := use(ctx, c); err != nil {
		return err
	}
	// A token that has expired is refreshed before it is used.
	token, err := store.GetToken(ctx)
	if err != nil {
		return err
	}
	before := token.RefreshToken
	token.ExpiresAt = time.Now().Add(-time.Minute)
	if err := store.SaveToken(ctx, token); err != nil {
		return err
	}
	if _, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
		return err
	}
	token, err = store.GetToken(ctx)
	return errors.Join(err, report(map[string]any{"rotated": token.RefreshToken != before}))
}

// signIn registers the client and has a person allow what it asks for.
func signIn(ctx context.Context, handler *transport.OAuthHandler) error {
	verifier, err1 := client.GenerateCodeVerifier()
	state, err2 := client.GenerateState()
	if err := errors.Join(err1, err2, handler.RegisterClient(ctx, "mcp-go")); err != nil {
		return err
	}
	page, err := handler.GetAuthorizationURL(ctx, state, client.GenerateCodeChallenge(verifier))
	if err != nil {
		return err
	}
	if err := report(map[string]any{"open": page}); err != nil {
		return err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	answer, err := url.Parse(line[:len(line)-1])
	if err != nil {
		return err
	}
	return handler.ProcessAuthorizationResponse(ctx, answer.Query().Get("code"), answer.Query().Get("state"), verifier)
}

func initialize(ctx context.Context, c *client.Client) error {
	_, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION, ClientInfo: mcp.Implementation{Name: "mcp-go", Version: "1"},
	}})
	return err
}

func use(ctx context.Context, c *client.Client) error {
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	names := make([]string, len(tools.Tools))
	for i, tool := range tools.Tools {
		names[i] = tool.Name
	}
	slices.Sort(names)
	if err := report(map[string]any{"tools": names}); err != nil {
		return err
	}
	call := mcp.CallToolRequest{}
	call.Params.Name, call.Params.Arguments = "add_note", map[string]any{"text": "milk"}
	result, err := c.CallTool(ctx, call)
	if err != nil {
		return err
	}
	return report(map[string]any{"added": result.StructuredContent})
}

func report(line map[string]any) error { return json.NewEncoder(os.Stdout).Encode(line) }
