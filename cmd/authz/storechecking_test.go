package main

import (
	"slices"
	"testing"
	"time"
)

// TestChecking: a start that checks a large file says so, and not too often; a quick one says nothing.
func TestChecking(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var said []string
	told := checking("/var/lib/gatehouse/gatehouse.db", func() time.Time { return at }, func(s string) { said = append(said, s) })
	for range 260 { // 26 seconds
		at = at.Add(100 * time.Millisecond)
		told(at.Unix()-1_800_000_000, 26)
	}
	want := []string{
		"checking the store /var/lib/gatehouse/gatehouse.db before it is used: 3 % done",
		"checking the store /var/lib/gatehouse/gatehouse.db before it is used: 42 % done",
		"checking the store /var/lib/gatehouse/gatehouse.db before it is used: 80 % done",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
	checking("", func() time.Time { return at }, func(s string) { t.Error(s) })(0, 0)
}
