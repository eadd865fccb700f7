package redis

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestDeps: the driver stands on storage and on the two Redis libraries, so that every
// rule about records stays in storage and every driver needs only that.
func TestDeps(t *testing.T) {
	allowed := []string{"gatehouse.example/storage", "github.com/redis/go-redis/v9", "github.com/alicebob/miniredis/v2"}
	for _, dir := range []string{".", "redistest"} {
		if dir == "redistest" {
			// Test code: it starts real servers, looks behind them and breaks their network.
			allowed = []string{"github.com/redis/go-redis/v9", "github.com/Shopify/toxiproxy/v2", "github.com/rs/zerolog"}
		}
		for file, path := range imports(t, dir) {
			for _, p := range path {
				if strings.Contains(strings.Split(p, "/")[0], ".") && !permitted(allowed, p) {
					t.Errorf("%s imports %s; this package may import the standard library and %q", file, p, allowed)
				}
			}
		}
	}
}

func permitted(allowed []string, path string) bool {
	for _, a := range allowed {
		if path == a || strings.HasPrefix(path, a+"/") && a != "gatehouse.example/storage" {
			return true
		}
	}
	return false
}

// imports returns what the files of a package import, tests excluded.
func imports(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	found := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[file] = append(found[file], path)
		}
	}
	return found
}
