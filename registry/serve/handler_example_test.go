package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"gatehouse.example/registry/serve"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
)

// This program reads a catalogue with one server.
func ExampleHandler() {
	ctx := context.Background()
	backend, err := redis.Open(ctx, redis.Options{URL: "embedded:"})
	if err != nil {
		panic(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://registry.example.com"})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	servers := catalogue.New(store)
	writer, err := servers.OpenWriter(ctx, "example")
	if err != nil {
		panic(err)
	}
	defer writer.Close(ctx)
	err = writer.Commit(ctx, []catalogue.Entry{{
		Name: "com.example/notes", Version: "1.0.0", Status: "active", Latest: true,
		Server: []byte(`{"name":"com.example/notes","description":"Keeps notes.","version":"1.0.0"}`),
	}}, nil)
	if err != nil {
		panic(err)
	}

	handler, err := serve.New(serve.Config{Catalogue: servers})
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v0.1/servers?shape=record", nil))
	fmt.Println(answer.Code, answer.Body)
	// Output:
	// 200 {"servers":[{"name":"com.example/notes","description":"Keeps notes.","version":"1.0.0","status":"active","_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","isLatest":true}}}],"metadata":{"count":1}}
}
