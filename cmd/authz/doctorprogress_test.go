package main

import (
	"strings"
	"testing"
)

// TestDoctorProgress: progress stays on one line of the terminal, however long a URL is.
func TestDoctorProgress(t *testing.T) {
	for text, want := range map[string]string{
		"GET https://a":                  "GET https://a",
		strings.Repeat("a", 19):          strings.Repeat("a", 19),
		strings.Repeat("a", 20):          strings.Repeat("a", 19),
		strings.Repeat("a", 300):         strings.Repeat("a", 19),
		strings.Repeat("日", 300):         strings.Repeat("日", 9),
		"GET " + "é" + "xxxxxxxxxxxxxxx": "GET é" + "xxxxxxxxxxxxx",
	} {
		if got := oneLine(text, 20); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if n := columns(nil); n != 80 {
		t.Errorf("%d columns", n)
	}
}
