package fingerprint_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package free of other packages of the module.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
