package trail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// A program that embeds a server writes its events, and checks the file.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "audit.jsonl")
	key, err := trail.NewKey([]byte("a secret of thirty-two bytes or more"), "https://notes.example.com/mcp")
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := trail.Open(ctx, trail.Config{Path: path, Key: &key, Program: "notes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t.Record(audit.Event{Kind: audit.Operation, By: audit.ByClient, Client: "editor", Method: "tools/call", Name: "add_note"})
	if err := t.Close(ctx); err != nil {
		fmt.Println(err)
	}
	result, err := trail.Verify(ctx, trail.Verifying{Keys: []trail.Key{key}}, path)
	fmt.Println(len(result.Faults), "faults,", result.Chains[0].Lines, "lines, end:", result.Chains[0].End, err)
	// Output: 0 faults, 3 lines, end: closed <nil>
}
