package redis_test

import (
	"context"
	"fmt"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// A store in this process. With redis://, redis+sentinel:// or redis+cluster:// the same lines
// keep it on a server.
func ExampleOpen() {
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
	fmt.Println(store.Ping(ctx))
	// Output: <nil>
}
