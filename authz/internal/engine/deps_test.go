package engine_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/house"
)

// TestDeps checks that the package imports only the records, the keys and fosite.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}

// TestSoleImporter checks that no other package of the module imports fosite, or the version
// of go-jose that fosite requires, in tests either.
func TestSoleImporter(t *testing.T) {
	root, engine, err := house.Here()
	if err != nil {
		t.Fatal(err)
	}
	h, err := house.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Packages) < 20 {
		t.Errorf("only %d packages were looked at under %s", len(h.Packages), root)
	}
	for _, p := range h.Packages {
		for _, f := range p.Files {
			if p.Path != engine && slices.ContainsFunc(f.Imports, ofFosite) {
				t.Errorf("%s imports fosite or what comes with it: only %s may", f.Name, engine)
			}
		}
	}
}

func ofFosite(imported string) bool {
	return strings.HasPrefix(imported, "github.com/ory/") || strings.HasPrefix(imported, "github.com/go-jose/go-jose/v3")
}
