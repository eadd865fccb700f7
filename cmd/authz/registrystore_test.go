package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestRegistryInAFile: a registry keeps its catalogue in a file, which a round in another process
// reaches while it runs, and which is there at the next start.
func TestRegistryInAFile(t *testing.T) {
	t.Parallel()
	store := "--store=file:" + filepath.Join(t.TempDir(), "registry.db")
	const notes = "servers:\n  - url: https://notes.example.com/mcp\n    title: Notes\n"
	want := func(r *running, titles ...string) {
		t.Helper()
		var found []string
		for _, s := range r.catalogue(t).Servers {
			found = append(found, s.Server.Title)
		}
		if slices.Sort(found); !slices.Equal(found, titles) {
			t.Errorf("the catalogue has %q, want %q", found, titles)
		}
	}
	first := startRegistry(t, nil, store, "--servers-file", save(t, "servers.yaml", notes))
	want(first, "Notes")
	var out, said lockedBuffer
	both := save(t, "both.yaml", notes+"  - url: https://mail.example.com/mcp\n    title: Mail\n")
	if status := run(t.Context(), []string{"registry", "sync", store, "--servers-file", both}, nil, nil, &out, &said); status != exitDone {
		t.Errorf("a round beside it: exit status %d\n%s%s", status, out.String(), said.String())
	}
	eventually(t, "the running registry has what the round brought", func() bool { return len(first.catalogue(t).Servers) == 2 })
	first.stop()
	if status := <-first.status; status != exitDone {
		t.Errorf("it ends with %d\n%s", status, first.stderr.String())
	}
	want(startRegistry(t, nil, store), "Mail", "Notes")
}
