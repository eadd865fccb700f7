package admin_test

import (
	"context"
	"fmt"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// An operator's program adds a person and lists all people.
func ExampleUsers() {
	ctx := context.Background()
	backend, err := redis.Open(ctx, redis.Options{URL: "embedded:"}) // the store of the server
	if err != nil {
		panic(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	if _, err := admin.AddUser(ctx, store, "Ada", "correct horse battery"); err != nil {
		panic(err)
	}
	for user, err := range admin.Users(ctx, store) {
		if err != nil {
			panic(err)
		}
		fmt.Println(user.Name, user.Disabled)
	}
	// Output: ada false
}
