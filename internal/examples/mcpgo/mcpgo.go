// Package mcpgo shows how to protect a server of github.com/mark3labs/mcp-go. The example is a
// test, so it compiles and runs with every change. It is a module of its own because mcp-go needs
// a newer Go version than the middleware.
package mcpgo
