package storage_test

import (
	"context"
	"errors"
	"fmt"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// A store is typed records over a backend. Of two writes that change the same version of a
// record, one wins.
func ExampleNew() {
	ctx := context.Background()
	backend, err := redis.Open(ctx, redis.Options{URL: "embedded:"})
	if err != nil {
		panic(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	err = store.CreateUser(ctx, storage.User{Name: "alice"})
	again := store.CreateUser(ctx, storage.User{Name: "alice"})
	fmt.Println(err, errors.Is(again, storage.ErrConflict))
	// Output: <nil> true
}
