package audit_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

func TestDeps(t *testing.T) { deptest.CheckTests(t) }
