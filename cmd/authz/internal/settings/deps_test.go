package settings

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package away from the commands and from what they configure.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{
		Allowed: []string{"gatehouse.example/safefetch", "github.com/alecthomas/kong", "github.com/goccy/go-yaml/..."},
		InTests: []string{},
	})
}
