package main

import (
	"slices"
	"strings"
	"testing"
)

// TestServersFileThatChanged: a changed record in --servers-file without a new version is
// refused while the registry serves: readers get the first one, and the log names it. With a new
// version both are there.
func TestServersFileThatChanged(t *testing.T) {
	servers := save(t, "servers.yaml", "servers:\n  - url: https://notes.example.com/mcp\n    title: Notes\n")
	r := startRegistry(t, nil, "--servers-file", servers)
	titles := func() (all []string) {
		for _, item := range r.catalogue(t).Servers {
			all = append(all, item.Server.Title+" "+item.Server.Version)
		}
		return all
	}
	rewrite(t, servers, "servers:\n  - url: https://notes.example.com/mcp\n    title: Other notes\n")
	eventually(t, "the change is refused", func() bool {
		log := r.stderr.String()
		return strings.Contains(log, "is refused") && strings.Contains(log, "com.example.notes/mcp")
	})
	if got := titles(); !slices.Equal(got, []string{"Notes 1.0.0"}) {
		t.Errorf("%q", got)
	}
	rewrite(t, servers, "servers:\n  - url: https://notes.example.com/mcp\n    title: Notes\n  - url: https://notes.example.com/mcp\n    title: Other notes\n    version: 1.1.0\n")
	eventually(t, "the new version is there", func() bool { return slices.Equal(titles(), []string{"Notes 1.0.0", "Other notes 1.1.0"}) })
}
