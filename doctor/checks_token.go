package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// longLife is how long an access token may live without a warning.
const longLife = 24 * time.Hour

// withTokenChecks are about a valid token. They find nothing without Options.Token.
var withTokenChecks = []check{
	{Entry{
		ID: "token-refused", Severity: Error, Rule: "MCP Token Handling; RFC 9068 section 4",
		Title:    "A token is refused",
		Symptoms: []string{"401 after sign-in", "401 loop after sign-in", "invalid_token", "audience mismatch", "invalid signature"},
		Mend:     "Compare what the token says (iss, aud, exp) with what the server expects: issuer byte for byte, its own resource in aud, the keys of jwks_uri.",
		Clients:  everyone,
	}, func(w *walk) []string {
		e := w.call("token.session")
		return saw(w.unauthorized() != nil && e.code() == http.StatusUnauthorized,
			fmt.Sprintf("%s with WWW-Authenticate %s; the token has %s", e, quoted(e.get("WWW-Authenticate")), w.says()))
	}},
	{Entry{
		ID: "token-no-answer", Severity: Error, Rule: "MCP Lifecycle; MCP Transports",
		Title:    "initialize with a token has no answer",
		Symptoms: []string{"connected, then Streamable HTTP error", "HTTP 400 after sign-in", "HTTP 406"},
		Mend:     "Answer initialize with 200 and application/json or text/event-stream.",
		Clients:  everyone,
	}, func(w *walk) []string {
		e := w.call("token.session")
		refused := e.code() == http.StatusUnauthorized || e.code() == http.StatusForbidden
		return saw(w.unauthorized() != nil && e.answered() && !refused && !w.takes(), e.String())
	}},
	{Entry{
		ID: "token-other-audience", Severity: Error, Rule: "MCP Token Handling; RFC 9068 section 4; RFC 8707 section 2",
		Title:    "A token for another server, or for none, is accepted",
		Symptoms: []string{"aud is missing", "aud is the client", "token passthrough"},
		Mend:     "Require the server's own resource in aud. If the authorization server does not put it there, configure it to (RFC 8707).",
		Mends: map[string]string{
			"Keycloak":  "add an audience mapper to the client scope: the parameter resource has no effect without it.",
			"Auth0":     "set a default audience, or have clients send audience; resource counts since the compatibility setting for it.",
			"Ory Hydra": "it does not know resource: clients ask with audience, which must be on the list of the client.",
			"WorkOS":    "add the URL of the server to the resource indicators in its dashboard, under Connect, Configuration.",
		},
	}, func(w *walk) []string {
		c := claims(w.token)
		return saw(w.takes() && c != nil && !slices.Contains(audience(c), w.identity()) && !slices.Contains(audience(c), w.target),
			fmt.Sprintf("the token has aud %s, the resource is %s", quotedAll(audience(c)), quoted(w.identity())))
	}},
	{Entry{
		ID: "token-expired-accepted", Severity: Error, Rule: "RFC 9068 section 4; RFC 7519 section 4.1.4",
		Title:    "An expired token is accepted",
		Symptoms: []string{"tokens never expire"},
		Mend:     "Refuse tokens after exp, with at most a minute of leeway.",
	}, func(w *walk) []string {
		end, ok := claims(w.token)["exp"].(float64)
		return saw(w.takes() && ok && w.now.Sub(time.Unix(int64(end), 0)) > 5*time.Minute, fmt.Sprintf("the token has exp %.0f", end))
	}},
	{Entry{
		ID: "token-long", Severity: Warning, Rule: "RFC 9700 section 2.2.1; MCP Token Theft",
		Title:    "An access token lives for more than a day, or for ever",
		Symptoms: []string{"access token without exp"},
		Mend:     "Issue tokens for minutes, and refresh tokens.",
	}, func(w *walk) []string {
		c := claims(w.token)
		end, ok := c["exp"].(float64)
		return saw(c != nil && (!ok || time.Unix(int64(end), 0).Sub(w.now) > longLife), "the token has "+w.says())
	}},
	{Entry{
		ID: "altered-token-accepted", Severity: Error, Rule: "RFC 9068 section 4; RFC 8725 section 3.3",
		Title:    "A token with another signature is accepted",
		Symptoms: []string{"signature is not verified"},
		Mend:     "Verify the signature with the keys of the authorization server. Decoding is not verifying.",
	}, func(w *walk) []string {
		e := w.call("token.altered")
		return saw(w.unauthorized() != nil && w.call("call.unsigned-token").code() >= 300 && e.answered() && e.code() < 300, fmt.Sprintf("%s to the token with an altered signature", e))
	}},
	{Entry{
		ID: "session-lost", Severity: Warning, Rule: "MCP Session Management",
		Title:    "A session that does not exist is not answered with 404",
		Symptoms: []string{"Bad Request: No valid session ID provided", "server restarted and client hangs", "Session not found"},
		Mend:     "Answer 404 to an unknown Mcp-Session-Id: clients begin a new session at 404 only.",
		Clients:  []string{claudeCode, inspector, mcpRemote, typescriptSDK, goSDK},
	}, func(w *walk) []string {
		e := w.call("token.lost")
		keeps := w.call("token.session").get("Mcp-Session-Id") != ""
		return saw(w.takes() && keeps && e.answered() && e.code() != http.StatusNotFound, fmt.Sprintf("%s to an unknown Mcp-Session-Id", e))
	}},
	{Entry{
		ID: "unknown-method", Severity: Warning, Rule: "JSON-RPC 2.0 section 5.1; MCP Transports",
		Title:    "An unknown method is not answered as such",
		Symptoms: []string{"HTTP 500 for a new method", "client hangs at a new method"},
		Mend:     "Answer with the JSON-RPC error -32601, with 404 or 200.",
	}, func(w *walk) []string {
		e := w.call("token.unknown")
		return saw(w.takes() && (e.code() >= 500 || e.ok() && e.media() == "text/html"), e.String())
	}},
	{Entry{
		ID: "sessions-only", Severity: Note, Rule: "MCP Versioning",
		Title:    "The stateless revision is not spoken",
		Symptoms: []string{"UnsupportedProtocolVersion"},
		Mend:     "Nothing, while clients of both kinds exist: they fall back to sessions at 400, 404 and 405.",
	}, func(w *walk) []string {
		e := w.call("token.stateless")
		return saw(w.takes() && e.answered() && !e.ok(), e.String())
	}},
}

// takes reports whether the token was accepted.
func (w *walk) takes() bool { return w.call("token.session").ok() }

// says returns the claims that decide whether a token is accepted.
func (w *walk) says() string {
	c := claims(w.token)
	if c == nil {
		return "no claims that can be read"
	}
	return fmt.Sprintf("iss %s, aud %s, exp %s", quoted(fmt.Sprint(c["iss"])), quotedAll(audience(c)), clean(string(marshal(c["exp"]))))
}

// audience returns aud of a token, which is a string or an array.
func audience(c map[string]any) []string {
	if s, ok := c["aud"].(string); ok {
		return []string{s}
	}
	return texts(c["aud"])
}
