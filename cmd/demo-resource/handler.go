package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
)

// stateless is the first protocol revision without sessions. Revisions are dates.
const stateless = "2026-07-28"

// newHandler puts the guard around the protocol server: the endpoint at the path of the
// resource, its metadata at the well-known paths, and nothing else.
func newHandler(guard *middleware.Guard, resource string, log *slog.Logger) (http.Handler, error) {
	u, err := url.Parse(resource)
	if err != nil {
		return nil, err
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/{$}"
	}
	mux := http.NewServeMux()
	mux.Handle(path, guard.Protect(scopePerTool(guard, sdkSession(eras(log)))))
	for _, p := range append(guard.MetadataPaths(), "/.well-known/") {
		mux.Handle(p, guard.Metadata()) // clients probe for other documents too, and pages must be able to read the 404
	}
	return hurried(mux, bodyTime), nil
}

// eras answers clients of both eras on one endpoint. The header says which: only the
// stateless revisions require it on the first request. The guard has looked at Host and
// Origin already, and it admits the name of the resource behind a proxy, which the SDK's
// own check would not.
func eras(log *slog.Logger) http.Handler {
	server := newServer(newNotebook())
	get := func(*http.Request) *mcp.Server { return server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: log, DisableLocalhostProtection: true,
	})
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		SessionTimeout: 30 * time.Minute, Logger: log, DisableLocalhostProtection: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= stateless {
			modern.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// sdkSession tells the SDK who calls, so that it pins a session to its person. The SDK
// insists on an Authorization header; the token itself is gone by now, and a placeholder
// stands in for it.
func sdkSession(next http.Handler) http.Handler {
	known := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		token, ok := middleware.TokenFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{
			Scopes: token.Scopes, Expiration: token.Expiry, UserID: token.Principal(),
			Extra: map[string]any{"sub": token.Subject, "client_id": token.ClientID, "iss": token.Issuer},
		}, nil
	}, &auth.RequireBearerTokenOptions{ClockSkew: time.Minute})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer verified")
		known.ServeHTTP(w, r)
	})
}
