package file_test

import (
	"fmt"
	"os"
	"path/filepath"

	"gatehouse.example/storage/file"
)

// A server makes the file at its first start. Every other program opens one that is there.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "gatehouse")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "gatehouse.db")

	_, err = file.Open(file.Options{Path: path})
	fmt.Println("without Create:", err != nil)

	backend, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	info, err := os.Stat(path)
	if err != nil {
		panic(err)
	}
	fmt.Println("permissions:", info.Mode())

	// Output:
	// without Create: true
	// permissions: -rw-------
}
