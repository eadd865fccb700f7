// Command embed is a program that embeds the authorization server. It reads client documents and
// shows the logos of clients. Set ISSUER, STORE (see [redis.Open]) and MASTER_KEY_FILE, the path
// of a file of 32 random bytes; [gatehouse.example/authz/admin.AddUser] adds the people who sign
// in.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/middleware"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/transfer"
)

func main() {
	ctx, key := context.Background(), must(os.ReadFile(os.Getenv("MASTER_KEY_FILE")))
	server := newServer(ctx, openStore(ctx, os.Getenv("STORE"), os.Getenv("ISSUER"), key), safefetch.Config{})
	go func() { log.Fatal(server.Run(ctx)) }()
	front := &http.Server{Addr: "127.0.0.1:8080", Handler: middleware.CloseUnclear(server), ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second}
	log.Fatal(front.ListenAndServe())
}

func openStore(ctx context.Context, url, issuer string, key []byte) *storage.Store {
	backend := must(redis.Open(ctx, redis.Options{URL: url}))
	guarded := must(transfer.Guard(ctx, backend)) // refuses a store that was copied to another one
	return must(storage.New(guarded, storage.Options{Issuer: issuer, MasterKeys: [][]byte{key}}))
}

func newServer(ctx context.Context, store *storage.Store, fetching safefetch.Config) *authz.Server {
	return must(authz.New(ctx, authz.Config{
		Issuer: store.Issuer(), Store: store,
		Resources: []authz.Resource{{URI: "https://notes.example.com/mcp", Name: "Notes", Scopes: []authz.Scope{{Name: "notes:read", Description: "Read your notes"}}}},
		Fetcher:   must(safefetch.New(fetching)), Documents: dcr.Documents{Trust: dcr.TrustAsk},
	}))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
