// Package mcpgo shows how a server of github.com/mark3labs/mcp-go is protected. The
// example is a test, so it compiles and runs with every change. It is a module of its own,
// because mcp-go needs a newer Go than the middleware does.
package mcpgo
