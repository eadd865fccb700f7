// Package migration holds the code of docs/migration: servers that check tokens with libraries of
// others, each before and after they use the guard. Its tests compare the two, and the pages with
// the code.
package migration

import (
	"net/http"

	"gatehouse.example/middleware"
)

// serve is what all servers do after the change: the guard in front of the handler, and the
// resource metadata beside it.
func serve(guard *middleware.Guard, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.Protect(handler))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux
}
