package dcr_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps this package between the storage and the authorization server. Of the
// import table's row only what is used today is allowed.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
