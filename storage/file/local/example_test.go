package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
)

// A server shares its store with other programs of its user, which open it by the same path.
func ExampleServe() {
	folder, err := os.MkdirTemp("", "gatehouse")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "gatehouse.db")
	backend, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	server, err := local.Serve(path, backend)
	if err != nil {
		panic(err)
	}
	defer server.Close()

	// In another program:
	shared, err := local.Open(context.Background(), path)
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	entries, err := shared.IndexLen(context.Background(), "people")
	fmt.Println(entries, err)

	// Output: 0 <nil>
}
