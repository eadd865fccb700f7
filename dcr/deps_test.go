package dcr_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps this package between the storage and the authorization server. Of the
// import table's row only what is used today is allowed.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/metadata", "gatehouse.example/storage", "gatehouse.example/message/icon", "gatehouse.example/internal/fair", "gatehouse.example/safefetch", "gatehouse.example/internal/strictjson", "github.com/go-jose/go-jose/v4"}})
}
