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

// revision is the header with the revision of the protocol that a client uses.
const revision = "Mcp-Protocol-Version"

// stateless is the first protocol revision without sessions. Revisions are dates.
const stateless = "2026-07-28"

const (
	maxBody  = 1 << 20          // the maximum size of a message, in bytes
	bodyTime = 15 * time.Second // the time in which a message must arrive
)

// guardConfig returns the configuration of the guard. The guard reads every message and answers
// a call that the token does not cover with 403 and a challenge with the scopes of the tool;
// the protocol server would answer it with 200. Every tool checks its scopes again.
func (s settings) guardConfig(tools map[string][]string, log *slog.Logger) middleware.Config {
	return middleware.Config{
		Resource: s.Resource, AuthorizationServers: []string{s.Issuer}, ResourceName: "Notes (demo)",
		Scopes: []string{scopeRead, scopeWrite}, Policy: middleware.Policy{Tools: tools},
		EndStreams: true, MaxBody: maxBody, Logger: log,
		Observe:                 observing(log),
		InsecureUnboundSessions: true, // the handler knows the caller, and binds each session itself
	}
}

// newHandler serves the protected endpoint at the path of the resource and the metadata at the
// well-known paths, and nothing else.
func newHandler(guard *middleware.Guard, resource string, endpoint http.Handler) (http.Handler, error) {
	u, err := url.Parse(resource)
	if err != nil {
		return nil, err
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/{$}"
	}
	mux := http.NewServeMux()
	mux.Handle(path, guard.Protect(endpoint))
	for _, p := range append(guard.MetadataPaths(), "/.well-known/") {
		mux.Handle(p, guard.Metadata()) // clients probe for other documents too, and pages must be able to read the 404
	}
	return withDeadline(mux, bodyTime), nil
}

// newEndpoint returns the protocol server behind the guard.
func newEndpoint(server *mcp.Server, ids *sessions, log *slog.Logger) http.Handler {
	return withoutDeadline(ids.check(middleware.AnswerErrors(logged(log, sdkSession(eras(server, log))))))
}

// eras serves stateless clients and clients with sessions on one endpoint. The revision header
// distinguishes them: only the stateless revisions require it on the first request. The guard
// has checked Host and Origin already, and admits the name of the resource behind a proxy,
// which the check of the SDK would not.
func eras(server *mcp.Server, log *slog.Logger) http.Handler {
	get := func(*http.Request) *mcp.Server { return server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: log, DisableLocalhostProtection: true,
	})
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		SessionTimeout: 30 * time.Minute, Logger: log, DisableLocalhostProtection: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isStateless(r) {
			modern.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

func isStateless(r *http.Request) bool { return r.Header.Get(revision) >= stateless }

// tokenKey is the key in auth.TokenInfo.Extra for the token.
const tokenKey = "token"

// sdkSession passes the verified token to the SDK, which binds each session to its person. The
// SDK needs an Authorization header, which the guard has removed, so sdkSession sets a
// placeholder.
func sdkSession(next http.Handler) http.Handler {
	known := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		token, ok := middleware.TokenFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{
			Scopes: token.Scopes, Expiration: token.Expiry, UserID: token.Principal(),
			Extra: map[string]any{tokenKey: token},
		}, nil
	}, &auth.RequireBearerTokenOptions{ClockSkew: time.Minute})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer verified")
		known.ServeHTTP(w, r)
	})
}

// callerOf returns the token of a request, nil without one. It does not use the context of the
// session, which is that of its first request.
func callerOf(request *mcp.CallToolRequest) *middleware.Token {
	extra := request.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	token, _ := extra.TokenInfo.Extra[tokenKey].(*middleware.Token)
	return token
}

// withDeadline sets a deadline for the body of every request, also of a request that is refused
// unread, because the server reads the body before it sends the response.
func withDeadline(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // fails only without a network
		}
		next.ServeHTTP(w, r)
	})
}

// withoutDeadline removes the deadline of withDeadline. It runs behind the guard, which has read
// the body; the response has no deadline.
func withoutDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // fails only without a network
		next.ServeHTTP(w, r)
	})
}
