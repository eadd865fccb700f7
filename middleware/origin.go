package middleware

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// admitOrigin refuses requests from web pages to a server on loopback, which a browser can
// reach from any page that a person visits. The Host header reveals a page that rebinds its own
// name to 127.0.0.1, the Origin header any other page. For other servers every origin may call,
// because a page cannot know the token.
func (g *Guard) admitOrigin(r *http.Request) error {
	if !g.loopback && !onLoopback(r) {
		return nil
	}
	if host := hostname(g.proxies.host(r)); !metadata.IsLoopbackHost(host) && host != g.hostname {
		return forbidden("The Host header does not name this server.")
	}
	for _, origin := range r.Header["Origin"] {
		if !g.originAllowed(origin) {
			return forbidden("This origin may not call a server on loopback.")
		}
	}
	return nil
}

func (g *Guard) originAllowed(origin string) bool {
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.Path != "" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return metadata.IsLoopbackHost(host) || origin == g.origin
}

// onLoopback reports whether the connection came in on a loopback address.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// hostname returns a Host header in lowercase and without its port and brackets.
func hostname(host string) string {
	u := url.URL{Host: strings.ToLower(host)}
	return u.Hostname()
}

// corsHeaders are the headers that a browser client sends to a protocol server.
const corsHeaders = "Accept, Authorization, Content-Type, DPoP, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"

// mcpParam is the prefix of the headers with arguments of a call.
const mcpParam = "mcp-param-"

// setCORS lets a page of any origin read the response, without cookies or other ambient
// credentials, and with the headers that it needs to react to a challenge.
func setCORS(header http.Header) {
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Expose-Headers", "WWW-Authenticate, DPoP-Nonce, Retry-After, MCP-Protocol-Version, Mcp-Session-Id, X-Request-Id")
}

// preflight answers OPTIONS. A preflight never has credentials (Fetch standard, section 4.8),
// so OPTIONS never reaches the handler. With any, all headers are allowed: those of a handler that is
// no server of the protocol are not known. "*" does not have Authorization (Fetch standard, section
// 3.3.3).
func preflight(w http.ResponseWriter, r *http.Request, any bool) {
	header := w.Header()
	allowed := corsHeaders
	if any {
		allowed = "*, Authorization"
	}
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if suffix, ok := strings.CutPrefix(name, mcpParam); ok && plainName(suffix) {
			allowed += ", " + name
		}
	}
	header.Set("Access-Control-Allow-Headers", allowed)
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	header.Set("Access-Control-Max-Age", "7200")
	header.Set("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// plainName accepts letters, digits, hyphens and underscores.
func plainName(s string) bool {
	for i := range len(s) {
		if !base64URL(s[i]) {
			return false
		}
	}
	return s != ""
}

// base64URL reports whether c is a character of base64url (RFC 4648 section 5).
func base64URL(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_'
}

func unescape(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return out
	}
	return s
}
