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

// revision is the header in which a client says which revision it speaks.
const revision = "Mcp-Protocol-Version"

// stateless is the first protocol revision without sessions. Revisions are dates.
const stateless = "2026-07-28"

const (
	maxBody  = 1 << 20          // bytes of a message
	bodyTime = 15 * time.Second // how long a message may take to arrive
)

// guardConfig is how the middleware protects the tools. It reads every message and answers
// a call that the token does not cover with 403 and a challenge that names what the tool
// needs, before the protocol server would turn it into a 200. Every tool checks once more
// itself.
func (s settings) guardConfig(tools map[string][]string, log *slog.Logger) middleware.Config {
	return middleware.Config{
		Resource: s.Resource, AuthorizationServers: []string{s.Issuer}, ResourceName: "Notes (demo)",
		Scopes: []string{scopeRead, scopeWrite}, Policy: middleware.Policy{Tools: tools},
		EndStreams: true, MaxBody: maxBody, Logger: log,
		Observe:                 observing(log),
		InsecureUnboundSessions: true, // the handler knows who calls, and holds each session to them itself
	}
}

// newHandler puts the guard around the endpoint, at the path of the resource, and serves
// its metadata at the well-known paths, and nothing else.
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
	return hurried(mux, bodyTime), nil
}

// newEndpoint is the protocol server behind the guard.
func newEndpoint(server *mcp.Server, ids *sessions, log *slog.Logger) http.Handler {
	return arrived(ids.check(middleware.AnswerErrors(logged(log, sdkSession(eras(server, log))))))
}

// eras answers clients of both eras on one endpoint. The header says which: only the
// stateless revisions require it on the first request. The guard has looked at Host and
// Origin already, and it admits the name of the resource behind a proxy, which the SDK's
// own check would not.
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

// tokenKey is where sdkSession leaves the token for the tools.
const tokenKey = "token"

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
			Extra: map[string]any{tokenKey: token},
		}, nil
	}, &auth.RequireBearerTokenOptions{ClockSkew: time.Minute})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer verified")
		known.ServeHTTP(w, r)
	})
}

// callerOf returns the token of a request, nil without one. It is that of the request and
// not of the session, whose context is that of its first request.
func callerOf(request *mcp.CallToolRequest) *middleware.Token {
	extra := request.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	token, _ := extra.TokenInfo.Extra[tokenKey].(*middleware.Token)
	return token
}

// hurried gives the body of every request some time to arrive, also when the request is
// refused unread: the server waits for the body before it sends the answer.
func hurried(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // not supported: not on a network
		}
		next.ServeHTTP(w, r)
	})
}

// arrived takes the limit of hurried back where the guard has read the body: the answer
// may take its time.
func arrived(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not supported: not on a network
		next.ServeHTTP(w, r)
	})
}
