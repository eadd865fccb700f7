// Command consumer is a server of one page behind the middleware, in a module of its own.
package main

import (
	"log"
	"net/http"

	"gatehouse.example/middleware"
)

func main() {
	guard, err := middleware.New(middleware.Config{
		Resource:             "http://127.0.0.1:8081/mcp",
		AuthorizationServers: []string{"http://127.0.0.1:8080"},
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := middleware.TokenFrom(r.Context()); ok {
			_, _ = w.Write([]byte(token.Subject))
		}
	})
	http.Handle("/mcp", guard.Protect(hello))
	for _, path := range guard.MetadataPaths() {
		http.Handle(path, guard.Metadata())
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8081", nil))
}
