package authz_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// An authorization server for one resource, which reads the metadata documents of clients.
func ExampleNew() {
	ctx := context.Background()
	key := make([]byte, 32) // keep it if the store outlives the process
	_, _ = rand.Read(key)
	backend, err := redis.Open(ctx, redis.Options{URL: "embedded:"})
	if err != nil {
		panic(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{key}})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	fetcher, err := safefetch.New(safefetch.Config{})
	if err != nil {
		panic(err)
	}
	server, err := authz.New(ctx, authz.Config{
		Issuer:    "https://auth.example.com",
		Store:     store,
		Resources: []authz.Resource{{URI: "https://notes.example.com/mcp", Name: "Notes"}},
		Fetcher:   fetcher,
		Documents: dcr.Documents{Trust: dcr.TrustAsk},
	})
	if err != nil {
		panic(err)
	}
	// go server.Run(ctx), and serve it: see the package's comment.

	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest("GET", "https://auth.example.com/.well-known/oauth-authorization-server", nil))
	var document metadata.AuthorizationServer
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		panic(err)
	}
	fmt.Println(document.AuthorizationEndpoint, document.ClientIDMetadataDocumentSupported)
	// Output: https://auth.example.com/authorize true
}
