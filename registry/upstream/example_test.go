package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"gatehouse.example/registry/upstream"
)

func ExampleClient_Items() {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{
			"servers": [{
				"server": {"name": "com.example/notes", "description": "Notes.", "version": "1.0.0"},
				"_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}}
			}],
			"metadata": {"count": 1, "nextCursor": "com.example/notes:1.0.0"}
		}`)
	}))
	defer origin.Close()

	client, err := upstream.New(upstream.Config{Base: origin.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	resume := ""
	for page, err := range client.Items(context.Background(), upstream.Query{}) {
		if errors.Is(err, upstream.ErrBusy) {
			fmt.Println("later, from", resume)
			break
		}
		for _, item := range page.Items {
			fmt.Println(item.Record, item.Official.Status)
		}
		resume = page.Next
	}
	// Output:
	// com.example/notes 1.0.0 active
	// later, from com.example/notes:1.0.0
}
