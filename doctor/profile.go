package doctor

// profile is the way of a client, as data. The steps in play.go and playlater.go read it.
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
	thenGET     bool     // signs in also when its stream is refused, which it opens after the first message
	signsIn403  bool     // takes 403 for 401
	pastAll     bool     // looks in the next place after every answer that is not JSON
	sameOrigin  bool     // ends at a challenge that names metadata of another origin
	atIssuer    bool     // registers at the issuer of the metadata, if the challenge led to it, and compares no issuer otherwise
	rootPlaces  bool     // looks for metadata of the server at the root of its host too
	anyPKCE     bool     // does not look at code_challenge_methods_supported
	pastUnfit   bool     // looks in the next place after everything that is not metadata of a server which fits its schema
	pastPages   bool     // looks in the next place also after a page, or other text that is not JSON
	anyIssuer   bool     // does not compare the issuer of the metadata with the one that was named
	typed       bool     // reads documents by a schema, so that one with a member of another type is none; needs redirect_uris of its registration
	exactTypes  bool     // takes a document with a member of another type for none, and is less strict otherwise
	openID      bool     // needs the members that OpenID Connect requires, in OpenID Connect metadata
	rootPaths   bool     // its fallback is at the root of the authorization server's host
	mediaType   bool     // ends at metadata with another content type than application/json
	fallback    bool     // without metadata of the server uses /authorize, /token and /register
	next502     bool     // looks in the next place also after 502
	looseSlash  bool     // takes an issuer with a slash at the end for the same
	needsPKCE   bool     // ends without code_challenge_methods_supported
	needsCode   bool     // ends if there is a response_types_supported that lacks code
	noFragment  bool     // ends at a resource with a fragment
	order       []string // of its steps, if it is not that of the table
	needsHTTPS  bool     // ends at endpoints with http, except on loopback
	needsURLs   bool     // ends if an endpoint is missing or no URL
	document    string   // its client ID metadata document, "" for none
	offline     bool     // asks for offline_access too where the authorization server lists it
	prompt      string   // its parameter prompt then
	needsPublic bool     // uses its document only where none is a token_endpoint_auth_method
	sees        screens
}

// matching is how a client compares the resource of the metadata with the URL it was given.
type matching int

const (
	matchExactly matching = iota // byte for byte; another document counts as none
	matchPrefix                  // the same origin, and a path above the URL's
	matchParts                   // scheme, host, port and path, in any spelling
)

// typescriptOrder is how the TypeScript SDK goes: it reads all metadata before it compares the resource,
// and looks at what the server can do when it makes the URL of the sign-in.
var typescriptOrder = []string{
	"call", "challenge", "resource metadata", "authorization server", "server metadata", "issuer", "resource", "endpoints", "registration", "abilities",
}

// geminiOrder is how Gemini CLI goes: it looks at endpoints when it uses them.
var geminiOrder = []string{
	"call", "challenge", "resource metadata", "resource", "authorization server", "server metadata", "issuer", "abilities", "registration", "endpoints",
}

// profiles are the clients in the order of [Clients].
var profiles = []profile{
	{
		name: claudeCode, version: "2.1.332", dated: "2026-11-28", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, anyIssuer: true, signsIn403: true, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true,
		document: "https://claude.ai/oauth/claude-code-client-metadata", needsPublic: true, offline: true, prompt: "consent", order: typescriptOrder, sees: claudeSees,
	},
	{
		name: codex, version: "0.171.0", dated: "2026-11-28", known: Runs,
		beginsGET: true, pastPages: true, match: matchPrefix, looseSlash: true, rootPlaces: true, exactTypes: true, needsCode: true, noFragment: true, needsURLs: true, offline: true, document: "https://chatgpt.com/oauth/codex/client.json", needsPublic: true, sees: codexSees,
	},
	{
		name: vscode, version: "1.139.1", dated: "2026-11-27", known: Runs,
		signsIn403: true, thenGET: true, placed: true, pastUnfit: true, anyIssuer: true, anyPKCE: true, match: matchExactly, needsURLs: true,
		document: "https://vscode.dev/oauth/client-metadata.json", sees: vscodeSees,
	},
	{
		name: cursor, version: "2026-09", dated: "2026-09-22", known: Reports,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, order: typescriptOrder, sees: typescriptSees,
	},
	{
		name: geminiCLI, version: "0.61.0", dated: "2026-11-27", known: Runs,
		sameOrigin: true, pastAll: true, match: matchParts, rootPlaces: true, atIssuer: true, anyPKCE: true, needsHTTPS: true, needsURLs: true, offline: true, order: geminiOrder, sees: geminiSees,
	},
	{
		name: inspector, version: "2.12.0", dated: "2026-11-27", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, rootPaths: true, needsURLs: true, offline: true, prompt: "consent", order: typescriptOrder, sees: typescriptSees,
	},
	{
		name: mcpRemote, version: "0.15.1", dated: "2026-11-27", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, offline: true, prompt: "consent", order: typescriptOrder, sees: remoteSees,
	},
	{
		name: goSDK, version: "1.8.0", dated: "2026-11-23", known: Runs,
		placed: true, typed: true, fallback: true, strict: true, match: matchExactly, mediaType: true, looseSlash: true, needsPKCE: true, needsHTTPS: true, sees: goSees,
	},
	{
		name: typescriptSDK, version: "2.4.0", dated: "2026-11-23", known: Runs,
		onlyLink: true, fallback: true, match: matchPrefix, next502: true, needsCode: true, typed: true, openID: true, rootPaths: true, needsURLs: true, offline: true, prompt: "consent", order: typescriptOrder, sees: typescriptSees,
	},
}
