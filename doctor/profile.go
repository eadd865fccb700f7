package doctor

// profile is the way of a client before a sign-in, as data. Steps in play.go read it.
type profile struct {
	name    string
	version string // whose way this is
	dated   string // when it was looked at
	known   Basis

	onlyLink    bool     // reads the metadata that the challenge names, and looks nowhere else then
	placed      bool     // uses a document only if its resource is the one expected in its place
	strict      bool     // ends at a challenge with a quote that does not end, or an empty value
	match       matching // how it compares the resource with the URL
	beginsGET   bool     // asks with GET first, so that the answer to a message does not matter
	signsIn403  bool     // takes 403 for 401
	pastAll     bool     // looks in the next place after every answer that is not JSON
	sameOrigin  bool     // ends at a challenge that names metadata of another origin
	atIssuer    bool     // registers at the issuer of the metadata, if the challenge led to it, and compares no issuer otherwise
	rootPlaces  bool     // looks for metadata of the server at the root of its host too
	anyPKCE     bool     // does not look at code_challenge_methods_supported
	pastPages   bool     // looks in the next place also after a page, or other text that is not JSON
	anyIssuer   bool     // does not compare the issuer of the metadata with the one that was named
	typed       bool     // takes a document with a member of another type for none; needs redirect_uris of its registration
	openID      bool     // needs the members that OpenID Connect requires, in OpenID Connect metadata
	rootPaths   bool     // its fallback is at the root of the authorization server's host
	mediaType   bool     // ends at metadata with another content type than application/json
	fallback    bool     // without metadata of the server uses /authorize, /token and /register
	next502     bool     // looks in the next place also after 502
	looseSlash  bool     // takes an issuer with a slash at the end for the same
	needsPKCE   bool     // ends without code_challenge_methods_supported
	needsCode   bool     // ends if response_types_supported lacks code
	needsHTTPS  bool     // ends at endpoints with http, except on loopback
	needsURLs   bool     // ends if an endpoint is missing or no URL
	document    string   // its client ID metadata document, "" for none
	needsPublic bool     // uses its document only where none is a token_endpoint_auth_method
	sees        map[string]string
}

// matching is how a client compares the resource of the metadata with the URL it was given.
type matching int

const (
	matchExactly matching = iota // byte for byte; another document counts as none
	matchPrefix                  // the same origin, and a path above the URL's
	matchParts                   // scheme, host, port and path, in any spelling
)

// typescriptSees are the texts of the TypeScript SDK.
var typescriptSees = map[string]string{
	"server-metadata-missing":  "HTTP 404 from /register at the server",
	"issuer-mismatch":          "IssuerMismatchError: the issuer of the metadata is another",
	"issuer-slash":             "IssuerMismatchError: the issuer of the metadata is another",
	"pkce-s256":                "Incompatible auth server: does not support code challenge method S256",
	"response-types":           "Incompatible auth server: does not support response type code",
	"no-way-in":                "Incompatible auth server: does not support dynamic client registration",
	"no-registration":          "Incompatible auth server: does not support dynamic client registration",
	"resource-mismatch":        "Protected resource … does not match expected … (or origin)",
	"resource-scheme":          "Protected resource … does not match expected … (or origin)",
	"resource-slash":           "Protected resource … does not match expected … (or origin)",
	"server-fault":             "HTTP 500 trying to load OAuth metadata",
	"server-metadata-not-json": "SyntaxError: Unexpected token '<' … is not valid JSON",
}

// goSees are the texts of the Go SDK.
var goSees = map[string]string{
	"challenge-malformed":     "failed to parse WWW-Authenticate header",
	"pkce-missing":            "authorization server at … does not implement PKCE",
	"issuer-mismatch":         "metadata issuer … does not match issuer URL …",
	"resource-servers":        "protected resource metadata has no authorization servers specified",
	"server-metadata-type":    "failed to get authorization server metadata: bad content type",
	"server-metadata-missing": "registration failed with status 404 Not Found",
	"plain-http":              "URL … does not use HTTPS or is not a loopback address",
}

// geminiSees are the texts of Gemini CLI, after "Failed to authenticate with MCP server".
var geminiSees = map[string]string{
	"wrong-status":              "MCP issues detected. Run /mcp list for status.",
	"sign-in-page":              "MCP issues detected. Run /mcp list for status.",
	"resource-metadata-missing": "Failed to discover OAuth configuration from MCP server",
	"resource-missing":          "Protected resource undefined does not match expected …",
	"resource-mismatch":         "Protected resource … does not match expected …",
	"resource-scheme":           "Protected resource … does not match expected …",
	"resource-slash":            "Protected resource … does not match expected …",
	"resource-wider":            "Protected resource … does not match expected …",
	"server-metadata-missing":   "Failed to discover OAuth configuration from MCP server",
	"issuer-missing":            "Cannot perform dynamic registration without issuer",
	"no-way-in":                 "No client ID provided and dynamic registration not supported",
	"no-registration":           "No client ID provided and dynamic registration not supported",
	"registration-refused":      "Client registration failed",
	"registration-locked":       "Client registration failed",
	"registration-answer":       "Missing required OAuth configuration after discovery and registration",
	"plain-http":                "Insecure HTTP OAuth endpoint … is not allowed",
}

// profiles are the clients in the order of [Clients].
var profiles = []profile{
	{
		name: claudeCode, version: "2.1.330", dated: "2026-11-24", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, anyIssuer: true, signsIn403: true, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true,
		document: "https://claude.ai/oauth/claude-code-client-metadata", needsPublic: true, sees: typescriptSees,
	},
	{
		name: codex, version: "0.169.0", dated: "2026-11-24", known: Runs,
		beginsGET: true, pastPages: true, match: matchPrefix, looseSlash: true, next502: true, needsURLs: true, document: "https://chatgpt.com/oauth/codex/client.json",
	},
	{
		name: vscode, version: "1.124", dated: "2026-09-22", known: Reports,
		match: matchExactly, next502: true, needsURLs: true, document: "https://vscode.dev/oauth/client-metadata.json",
	},
	{
		name: cursor, version: "2026-09", dated: "2026-09-22", known: Reports,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, sees: typescriptSees,
	},
	{
		name: geminiCLI, version: "0.61.0", dated: "2026-11-24", known: Runs,
		sameOrigin: true, pastAll: true, match: matchParts, rootPlaces: true, atIssuer: true, anyPKCE: true, needsHTTPS: true, needsURLs: true, sees: geminiSees,
	},
	{
		name: inspector, version: "2.12.0", dated: "2026-11-24", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, rootPaths: true, needsURLs: true, sees: typescriptSees,
	},
	{
		name: mcpRemote, version: "0.15.1", dated: "2026-11-24", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, sees: typescriptSees,
	},
	{
		name: goSDK, version: "1.8.0", dated: "2026-11-23", known: Runs,
		placed: true, typed: true, fallback: true, strict: true, match: matchExactly, mediaType: true, looseSlash: true, needsPKCE: true, needsHTTPS: true, sees: goSees,
	},
	{
		name: typescriptSDK, version: "2.4.0", dated: "2026-11-23", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, sees: typescriptSees,
	},
}
