package doctor

import "slices"

// The names of the clients whose ways are recorded.
const (
	claudeCode    = "claude-code"
	codex         = "codex"
	vscode        = "vscode"
	cursor        = "cursor"
	geminiCLI     = "gemini-cli"
	inspector     = "inspector"
	mcpRemote     = "mcp-remote"
	goSDK         = "go-sdk"
	typescriptSDK = "typescript-sdk"
)

// everyone, and groups of clients that behave alike in some respect.
var (
	everyone = []string{claudeCode, codex, vscode, cursor, geminiCLI, inspector, mcpRemote, goSDK, typescriptSDK}
	// exactly compare the resource of the metadata with the URL that they were given.
	exactly = []string{vscode, goSDK}
	// byIssuer compare the issuer of the metadata with the one that was named: all but Claude Code and VS Code.
	byIssuer = []string{codex, cursor, geminiCLI, inspector, mcpRemote, goSDK, typescriptSDK}
	// bySlash are those of them for which a slash at its end makes another issuer.
	bySlash = []string{cursor, inspector, mcpRemote, typescriptSDK}
	// onlyLinked look nowhere else for metadata if the challenge names a place.
	onlyLinked = []string{claudeCode, cursor, inspector, mcpRemote, typescriptSDK}
)

// Clients returns the names of the clients whose ways are recorded, in a fixed order.
func Clients() []string { return slices.Clone(everyone) }
