package headername_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/headername"
)

// TestDeps keeps the package free of other packages of the module.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}

func TestNamesAreFolded(t *testing.T) {
	set := headername.NewSet("mcp-session-id", "x-forwarded*")
	for name, want := range map[string]struct {
		fold           string
		has, canonical bool
	}{
		"Mcp-Session-Id":    {"mcp-session-id", true, true},
		"mcp-session-id":    {"mcp-session-id", true, false},
		"Mcp_Session.Id":    {"mcp-session-id", true, false},
		"MCP~SESSION~ID":    {"mcp-session-id", true, false},
		"Mcp-Session-Idx":   {"mcp-session-idx", false, true},
		"X-Forwarded":       {"x-forwarded", true, true},
		"X.forwarded_user":  {"x-forwarded-user", true, false},
		"X-Forwarde":        {"x-forwarde", false, true},
		"Mcp-Param-My_tool": {"mcp-param-my-tool", false, false},
		"":                  {"", false, true},
	} {
		if headername.Fold(name) != want.fold || set.Has(name) != want.has || headername.Canonical(name) != want.canonical || !headername.Is(name, want.fold) || headername.Is(name+"-", want.fold) {
			t.Errorf("%q: %q %t %t", name, headername.Fold(name), set.Has(name), headername.Canonical(name))
		}
	}
	if n := testing.AllocsPerRun(10, func() { _ = headername.Is("Content_Length", "content-length") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
