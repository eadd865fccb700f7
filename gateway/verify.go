package gateway

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"gatehouse.example/middleware"
)

// askers are the guards of PathVerify: the one that sees no message, and the one that goes by headers.
// Each is nil if there is none.
type askers struct{ blind, sighted *middleware.Guard }

// newVerifier returns the handler of PathVerify, with which other proxies check a request. It
// answers 200 with the identity of the caller in headers, 401 or 403 with the challenge for the
// client, and 503 when the token cannot be verified.
//
// It does not get the message, so a token must cover the scopes of all operations, and the
// challenge names all of them. It uses only the credentials of the request: a client may have
// set all other headers about the original request, unless [OriginalRequest] says which are the
// proxy's.
func (g *Gateway) newVerifier(c Config) (http.Handler, error) {
	if g.binds {
		return http.HandlerFunc(g.unbound), nil
	}
	config := asks(c.Guard)
	config.Optional = false // the proxy needs an identity
	if needed := config.Policy.AllScopes(); g.reads || len(config.Policy.Routes) > 0 {
		config.Policy = middleware.Policy{Scopes: needed, Implies: config.Policy.Implies}
		config.ChallengeScopes = needed
	}
	var before askers
	if c.Before != nil {
		before = c.Before.askers
	}
	config.Before = cmp.Or(before.blind, c.Guard.Before)
	var err error
	if g.askers.blind, err = middleware.New(config); err != nil {
		return nil, err
	}
	whole := g.askers.blind.Protect(http.HandlerFunc(g.confirm))
	if !g.reads || !c.InsecureTrustMCPHeaders {
		return g.subrequest(func(http.Header) (http.Handler, []byte) { return whole, nil }), nil
	}
	config.Policy = c.Guard.Policy
	config.ChallengeScopes = c.Guard.ChallengeScopes
	config.Before = cmp.Or(before.sighted, c.Guard.Before)
	if g.askers.sighted, err = middleware.New(config); err != nil {
		return nil, err
	}
	one := g.askers.sighted.Protect(http.HandlerFunc(g.confirm))
	return g.subrequest(func(header http.Header) (http.Handler, []byte) {
		if message, ok := messageOf(header); ok {
			return one, message
		}
		return whole, nil
	}), nil
}

// subrequest returns a handler that makes a request to the resource from the credentials of a
// request to PathVerify, of any method, and passes it to the guard that choose returns, with the
// message that choose returns.
func (g *Gateway) subrequest(choose func(http.Header) (http.Handler, []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard, message := choose(r.Header)
		out := r.Clone(g.about(r))
		out.Method, out.Host, out.Body, out.ContentLength, out.TransferEncoding = http.MethodGet, g.places.resource.Host, http.NoBody, 0, nil
		out.Header, out.TLS = http.Header{}, nil // the connection is that of the proxy
		for _, name := range []string{"Authorization", "Dpop", "X-Forwarded-For", g.told.certHeader} {
			if values, ok := r.Header[name]; ok {
				out.Header[name] = values
			}
		}
		if message != nil {
			out.Method, out.ContentLength = http.MethodPost, int64(len(message))
			out.Body = io.NopCloser(strings.NewReader(string(message)))
			out.Header.Set("Content-Type", "application/json")
		}
		guard.ServeHTTP(&decision{ResponseWriter: w}, out)
	})
}

// confirm answers 200 with the identity of the caller.
func (g *Gateway) confirm(w http.ResponseWriter, r *http.Request) {
	token, ok := middleware.TokenFrom(r.Context())
	if !ok {
		g.refuse(w, r, refusal{status: http.StatusForbidden, description: "The request has no credentials."})
		return
	}
	headers, err := g.identify(token, nil)
	if err != nil {
		g.log.ErrorContext(r.Context(), "cannot sign an assertion", "error", err)
		g.refuse(w, r, refusal{status: http.StatusServiceUnavailable, description: "The gateway failed.", retryAfter: retryAfter})
		return
	}
	for name, values := range headers {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// decision maps the status of a response to those that proxies understand: 200, 401, 403 and
// 5xx.
type decision struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (d *decision) WriteHeader(status int) {
	switch {
	case status == http.StatusOK, status == http.StatusForbidden, status == http.StatusUnauthorized, status >= http.StatusInternalServerError:
	case d.Header().Get("WWW-Authenticate") != "":
		status = http.StatusUnauthorized
	default:
		status = http.StatusForbidden
	}
	d.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (d *decision) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// checked is the first revision in which servers compare the headers with the message. Revisions
// are dates.
const checked = "2026-07-28"

// messageOf returns a message with the operation that the headers describe. It returns false
// unless they describe it completely. It has no id: that of the client's message is not known, and
// an error response with another one would be the answer to another request (JSON-RPC 2.0, section 5).
func messageOf(header http.Header) ([]byte, bool) {
	revision, method := single(header["Mcp-Protocol-Version"]), single(header["Mcp-Method"])
	if len(revision) != len(checked) || revision < checked || method == "" {
		return nil, false
	}
	params := map[string]string{}
	switch member := nameOf(method); member {
	case "":
	case unnamed:
		return nil, false // no header repeats its name
	default:
		name := single(header["Mcp-Name"])
		if name == "" {
			return nil, false
		}
		params[member] = name
	}
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	return message, err == nil
}

// single returns the decoded value of a header, and "" unless there is exactly one valid value.
// The value may be in base64 (MCP Streamable HTTP, revision 2026-07-28).
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	value := values[0]
	if encoded, ok := strings.CutPrefix(value, "=?base64?"); ok {
		encoded, closed := strings.CutSuffix(encoded, "?=")
		decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !closed || err != nil || !utf8.Valid(decoded) {
			return ""
		}
		return string(decoded)
	}
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
		return ""
	}
	return value
}

// unnamed is the result of nameOf for methods whose names no header repeats.
const unnamed = "-"

// nameOf returns the member of a message that Mcp-Name repeats, empty for methods without names.
func nameOf(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "resources/subscribe", "resources/unsubscribe", "completion/complete", "subscriptions/listen":
		return unnamed
	}
	return ""
}
