package main

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

func TestDeps(t *testing.T) { deptest.Check(t) }
