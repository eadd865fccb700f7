package doctor

import "cmp"

// screens are the texts that the users of a client see where it stops. Keys are the step and the
// finding ("call: server-fault"), the finding, or the step ("call: "); the first of these is taken.
// "…" stands for what differs. The texts of programs that were run were compared with what they show.
type screens map[string]string

// at returns what the user sees, the title of the finding if that is not known.
func (s screens) at(step, id string) string {
	return cmp.Or(s[step+": "+id], s[id], s[step+": "], title(id))
}

// typescriptSees are the texts of the TypeScript SDK. Without resource metadata, clients with it try
// to register at the server itself.
var typescriptSees = screens{
	"wrong-status":                         "Error POSTing to endpoint: …",
	"sign-in-page":                         "Error POSTing to endpoint: …",
	"call: server-fault":                   "Error POSTing to endpoint: …",
	"resource metadata: ":                  "Dynamic Client Registration rejected (HTTP 404)",
	"authorization server: ":               "Dynamic Client Registration rejected (HTTP 404)",
	"server-metadata-missing":              "Dynamic Client Registration rejected (HTTP 404)",
	"resource: ":                           "Protected resource … does not match expected … (or origin)",
	"server-metadata-not-json":             "Unexpected token '<' … is not valid JSON",
	"server metadata: server-fault":        "HTTP 500 trying to load OAuth metadata from …",
	"server metadata: issuer-missing":      `[{ … "path": [ "issuer" ], "message": "Invalid input: expected string, received undefined" }]`,
	"server metadata: endpoint-missing":    `[{ … "path": [ … ], "message": "Invalid …`,
	"server metadata: response-types":      `[{ … "path": [ "response_types_supported" ], "message": "Invalid input: expected array, …`,
	"server metadata: pkce-s256":           `[{ … "path": [ "code_challenge_methods_supported" ], "message": "Invalid input: expected array, …`,
	"openid-members":                       `[{ … "path": [ … ], "message": "Invalid input: expected …, received undefined"`,
	"issuer-mismatch":                      "Issuer mismatch in authorization server metadata (RFC 8414 §3.3): expected …, received …",
	"issuer-slash":                         "Issuer mismatch in authorization server metadata (RFC 8414 §3.3): expected …, received …",
	"pkce-s256":                            "Incompatible auth server: does not support code challenge method S256",
	"response-types":                       "Incompatible auth server: does not support response type code",
	"no-way-in":                            "Incompatible auth server: does not support dynamic client registration",
	"no-registration":                      "Incompatible auth server: does not support dynamic client registration",
	"registration-refused":                 "Dynamic Client Registration rejected (HTTP …",
	"registration-locked":                  "Dynamic Client Registration rejected (HTTP …",
	"registration: registration-answer":    `[{ … "path": [ "client_id" ], "message": "Invalid input: expected string, received undefined" }]`,
	"registration: registration-redirects": `[{ … "path": [ "redirect_uris" ], "message": "Invalid input: expected array, received undefined" }]`,
}

// with returns the texts with others in place of some.
func (s screens) with(others screens) screens {
	all := screens{}
	for _, texts := range []screens{s, others} {
		for key, text := range texts {
			all[key] = text
		}
	}
	return all
}

// claudeSees are the texts of Claude Code, which runs the TypeScript SDK on another engine.
var claudeSees = typescriptSees.with(screens{"server-metadata-not-json": "JSON Parse error: Unrecognized token '<'"})

// remoteSees are the texts of mcp-remote, which reads the resource metadata once more by itself.
var remoteSees = typescriptSees.with(screens{"resource metadata: resource-servers": "TypeError: Invalid URL"})

// goSees are the texts of the Go SDK.
var goSees = screens{
	"challenge-malformed":     "failed to parse WWW-Authenticate header",
	"pkce-missing":            "authorization server at … does not implement PKCE",
	"issuer-mismatch":         "metadata issuer … does not match issuer URL …",
	"resource-servers":        "protected resource metadata has no authorization servers specified",
	"server-metadata-type":    "failed to get authorization server metadata: bad content type",
	"server-metadata-missing": "registration failed with status 404 Not Found",
	"plain-http":              "URL … does not use HTTPS or is not a loopback address",
}

// codexSees are the texts of Codex, at codex mcp add or, where that says nothing, at codex mcp login.
var codexSees = screens{
	"resource metadata: ":               "Registration failed: HTTP 404 Not Found",
	"authorization server: ":            "Registration failed: HTTP 404 Not Found",
	"resource metadata: server-fault":   "OAuth metadata discovery failed for … unexpected HTTP status …",
	"resource: ":                        "Protected resource metadata resource mismatch: reference …, permitted …",
	"resource: resource-missing":        "Protected resource metadata missing required resource field",
	"resource: resource-not-a-url":      "Protected resource metadata resource …",
	"server-metadata-missing":           "names authorization servers …, but none published usable metadata",
	"server metadata: endpoint-missing": "names authorization servers …, but none published usable metadata",
	"server metadata: pkce-s256":        "names authorization servers …, but none published usable metadata",
	"server metadata: server-fault":     "OAuth metadata discovery failed for … unexpected HTTP status …",
	"issuer-mismatch":                   "OAuth authorization server issuer does not match authorization metadata origin",
	"issuer-missing":                    "OAuth issuer-bound callbacks require an authorization server issuer",
	"pkce-s256":                         "Authorization server does not support the required PKCE code challenge method (S256)",
	"response-types":                    "Invalid scope: code",
	"endpoint-missing":                  "OAuth authorization endpoint must be a valid URL",
	"no-way-in":                         "Dynamic registration failed: Registration failed: Dynamic client registration not supported",
	"registration: ":                    "Dynamic registration failed: Registration failed: …",
}

// vscodeSees are the texts of VS Code, in a window that asks for the ID of a client.
var vscodeSees = screens{
	"resource metadata: ":    noAutomatic,
	"authorization server: ": noAutomatic,
	"server metadata: ":      noAutomatic,
	"registration: ":         noAutomatic,
}

const noAutomatic = "The authorization server … does not support automatic client registration. Do you want to proceed by manually providing a client registration (client ID)?"

// geminiSees are the texts of Gemini CLI, after "Failed to authenticate with MCP server".
var geminiSees = screens{
	"call: ":                    "MCP issues detected. Run /mcp list for status.",
	"resource-metadata-missing": "Failed to discover OAuth configuration from MCP server",
	"resource metadata: ":       "Protected resource undefined does not match expected …",
	"challenge-elsewhere":       "Insecure HTTP OAuth endpoint … is not allowed",
	"resource-missing":          "Protected resource undefined does not match expected …",
	"resource: ":                "Protected resource … does not match expected …",
	"authorization server: ":    "Invalid OAuth endpoint URL … Invalid URL",
	"server-metadata-missing":   "Failed to discover OAuth configuration from MCP server",
	"issuer-missing":            "Cannot perform dynamic registration without issuer",
	"issuer-mismatch":           "DNS lookup failed for OAuth endpoint host … ENOTFOUND …",
	"no-way-in":                 "No client ID provided and dynamic registration not supported",
	"no-registration":           "No client ID provided and dynamic registration not supported",
	"registration-refused":      "Client registration failed",
	"registration-locked":       "Client registration failed",
	"registration-answer":       "Missing required OAuth configuration after discovery and registration",
	"endpoint-missing":          "Invalid OAuth endpoint URL …: Invalid URL",
	"plain-http":                "Insecure HTTP OAuth endpoint … is not allowed",
}
