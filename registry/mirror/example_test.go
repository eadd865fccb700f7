package mirror_test

import (
	"context"
	"fmt"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
)

// A mirror without an upstream publishes own servers in a catalogue. With a Client it also
// copies another registry; Run updates the copy until its context ends.
func ExampleNew() {
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

	notes, err := registry.OwnServer{Title: "Notes", URL: "https://notes.example.com/mcp"}.Item()
	if err != nil {
		panic(err)
	}
	servers := catalogue.New(store)
	m, err := mirror.New(mirror.Config{Catalogue: servers, Own: func() []registry.Item { return []registry.Item{notes} }})
	if err != nil {
		panic(err)
	}
	report, err := m.Sync(ctx) // catalogue.ErrLeased while another process holds the lease
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Added, "added")
	latest, err := servers.Latest(ctx, "com.example.notes/mcp")
	fmt.Println(latest.Version, latest.Origin, err)
	// Output:
	// 1 added
	// 1.0.0 own <nil>
}
