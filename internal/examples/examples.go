// Package examples shows how protected servers of several kinds put the middleware
// around their handler. The examples are tests, so they compile and run with every
// change. They live here and not beside the middleware, because whoever uses the
// middleware would have to download everything that its tests import.
//
//   - plain net/http: nethttp_test.go
//   - github.com/gorilla/mux: gorilla_test.go
//   - the official Go SDK of the protocol: gosdk_test.go
//   - github.com/mark3labs/mcp-go: mcpgo/mcpgo_test.go, a module of its own
//   - a listener of one's own: listener_test.go
//   - what docs/middleware.md shows: page_test.go
//
// embed is an authorization server in a program of one's own, which a module outside of this
// one builds and tests too.
package examples
