package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/transfer"
)

// A store moves from a file to Redis, here to one inside this process. Afterwards the file is
// refused to every program that has a guard in front of it.
func ExampleCopy() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "gatehouse")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	from, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db"), Create: true})
	if err != nil {
		panic(err)
	}
	defer from.Close()
	records := storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}}
	store, err := storage.New(from, records)
	if err != nil {
		panic(err)
	}
	if err := store.CreateUser(ctx, storage.User{Name: "ada", Subject: "1"}); err != nil {
		panic(err)
	}
	to, err := redis.Open(ctx, redis.Options{URL: "embedded:"})
	if err != nil {
		panic(err)
	}
	defer to.Close()

	copied, err := transfer.Copy(ctx, transfer.Options{
		From:    transfer.Side{Name: "file:gatehouse.db", Backend: from},
		To:      transfer.Side{Name: "embedded:", Backend: to.(storage.IndexLister)},
		Records: records,
	})
	fmt.Println(copied.Records["user"].Count, copied.Lists["users"].Count, err)
	_, err = transfer.Guard(ctx, from)
	var marked *transfer.MarkedError
	fmt.Println(errors.As(err, &marked), marked.Other)

	// Output:
	// 1 1 <nil>
	// true embedded:
}
