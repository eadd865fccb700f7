package catalogue_test

import (
	"context"
	"fmt"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
)

// One process fills the catalogue and commits its progress with the rows. Any number of readers
// read it at the same time.
func ExampleWriter_Commit() {
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

	servers := catalogue.New(store)
	w, err := servers.OpenWriter(ctx, "host-1") // catalogue.ErrLeased while another writer holds the lease
	if err != nil {
		panic(err)
	}
	defer w.Close(ctx)
	page := []catalogue.Entry{
		{Name: "com.example/notes", Version: "1.0.0", Server: []byte(`{"name":"com.example/notes"}`), Updated: time.Unix(1, 0)},
		{Name: "com.example/notes", Version: "1.1.0", Server: []byte(`{"name":"com.example/notes"}`), Updated: time.Unix(2, 0), Latest: true},
	}
	if err := w.Commit(ctx, page, []byte(`{"cursor":"next"}`)); err != nil {
		panic(err) // open another writer and continue from its State().Progress
	}

	q, after := catalogue.Query{Latest: true}, ""
	for more := true; more; {
		page, err := servers.Page(ctx, q, after, 100)
		if err != nil {
			panic(err)
		}
		for _, e := range page.Entries {
			fmt.Println(e.Name, e.Version)
		}
		after, more = page.Next, page.More
	}
	// Output: com.example/notes 1.1.0
}
