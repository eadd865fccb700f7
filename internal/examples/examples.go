// Package examples shows how protected servers of several kinds put the middleware around
// their handler. The examples are tests, so they compile and run with every change. They are
// not in package middleware, because its users would have to download every module that its
// tests import.
//
//   - plain net/http: nethttp_test.go
//   - github.com/gorilla/mux: gorilla_test.go
//   - the official Go SDK of the protocol: gosdk_test.go
//   - github.com/mark3labs/mcp-go: mcpgo/mcpgo_test.go, a module of its own
//   - from three other libraries to the guard: migration, a module of its own
//   - a plain HTTP API, by method and path: routes_test.go
//   - gRPC: grpc/grpc.go, a module of its own
//   - metrics for Prometheus: prometheus/prometheus.go, a module of its own
//   - spans for OpenTelemetry: opentelemetry/opentelemetry.go, a module of its own
//   - a listener of one's own: listener_test.go
//   - the snippets of docs/middleware.md: page_test.go
//
// The command embed embeds the authorization server in another program. It is also built and
// tested as a separate module.
package examples
