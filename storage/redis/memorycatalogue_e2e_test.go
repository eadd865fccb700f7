//go:build e2e

package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// The bounds for the memory of a server that a row of the catalogue takes, with a record of 1000
// bytes and its entries in lists: a new row, and a changed one. A changed row keeps the fields of
// before, and not the record twice.
const (
	rowMemory     = 2600
	changedMemory = 500
)

// TestMemoryOfCatalogue: the memory of rows, new and changed.
func TestMemoryOfCatalogue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: server.URL()})
	defer b.Close()
	store, err := storage.New(b, storage.Options{Issuer: "https://registry.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := catalogue.New(store).OpenWriter(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	const pages, each = 50, 100
	record := []byte(strings.Repeat("x", 1000))
	commit := func(page int, updated time.Time) {
		entries := make([]catalogue.Entry, each)
		for i := range entries {
			entries[i] = catalogue.Entry{
				Name: fmt.Sprintf("io.github.example-%03d/server-%06d", page, i), Version: "1.0.0", Server: record, Status: "active", Latest: true,
				Published: updated, Updated: updated, StatusChanged: updated, Origin: "https://registry.example.com",
			}
		}
		if err := w.Commit(t.Context(), entries, nil); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	t.Logf("a row: %d bytes", perItem(t, server, rowMemory*each, pages, func(i int) { commit(i, begin) })/each)
	t.Logf("that it has changed: %d bytes", perItem(t, server, changedMemory*each, pages, func(i int) { commit(i, begin.Add(time.Hour)) })/each)
}
