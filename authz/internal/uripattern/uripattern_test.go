package uripattern

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

const tenant = "https://mcp.example.com/{tenant}/mcp"

func parse(t testing.TB, raw string) Pattern {
	t.Helper()
	p, err := Parse(raw)
	if err != nil {
		t.Fatalf("Parse(%q): %v", raw, err)
	}
	return p
}

// TestMatch: a placeholder is one segment of unreserved characters, and the rest is compared byte
// for byte.
func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, uri string
		want         bool
	}{
		{tenant, "https://mcp.example.com/acme/mcp", true},
		{tenant, "https://mcp.example.com/Acme-1_2.3~x/mcp", true},
		{tenant, "https://mcp.example.com/azAZ09/mcp", true},
		{"https://mcp.example.com/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}", "https://mcp.example.com/1/2/3/4/5/6/7/8", true}, // as many as there may be
		{tenant, "https://mcp.example.com/.../mcp", true},
		{tenant, "https://mcp.example.com/" + strings.Repeat("a", 128) + "/mcp", true},
		{tenant, "https://mcp.example.com/" + strings.Repeat("a", 129) + "/mcp", false},
		{tenant, "https://mcp.example.com/./mcp", false},
		{tenant, "https://mcp.example.com/../mcp", false},
		{tenant, "https://mcp.example.com//mcp", false},
		{tenant, "https://mcp.example.com/a%2Fb/mcp", false},
		{tenant, "https://mcp.example.com/%61cme/mcp", false},
		{tenant, "https://mcp.example.com/%2e%2e/mcp", false},
		{tenant, "https://mcp.example.com/{tenant}/mcp", false},
		{tenant, "https://mcp.example.com/{}/mcp", false},
		{tenant, "https://mcp.example.com/acmé/mcp", false},
		{tenant, "https://mcp.example.com/a;b/mcp", false},
		{tenant, "https://mcp.example.com/a@b/mcp", false},
		{tenant, "https://mcp.example.com/a:b/mcp", false},
		{tenant, "https://mcp.example.com/acme/mcp/", false},
		{tenant, "https://mcp.example.com/acme/mcp?", false},
		{tenant, "https://mcp.example.com/acme/mcp?a=b", false},
		{tenant, "https://mcp.example.com/acme/MCP", false},
		{tenant, "https://mcp.example.com/acme", false},
		{tenant, "https://mcp.example.com/acme/x/mcp", false},
		{tenant, "https://mcp.example.com", false},
		{tenant, "https://mcp.example.com:8443/acme/mcp", false},
		{tenant, "http://mcp.example.com/acme/mcp", false},
		{tenant, "https://evil.example.org/acme/mcp", false},
		{tenant, "https://mcp.example.com.evil.example.org/acme/mcp", false},
		{tenant, "", false},
		{"https://mcp.example.com/{a}", "https://mcp.example.com/", false},
		{"https://mcp.example.com/{a}", "https://mcp.example.com/x", true},
		{"https://mcp.example.com/{a}", "https://mcp.example.com/x?y", false},
		{"https://mcp.example.com/{a}/", "https://mcp.example.com/x/", true},
		{"https://mcp.example.com/{a}/", "https://mcp.example.com/x", false},
		{"https://mcp.example.com/{a}/{b}/mcp", "https://mcp.example.com/x/y/mcp", true},
		{"http://127.0.0.1:8081/{a}/mcp", "http://127.0.0.1:8081/x/mcp", true},
	} {
		p := parse(t, tt.pattern)
		if got := p.Match(tt.uri); got != tt.want {
			t.Errorf("%s matches %s: %t", tt.pattern, tt.uri, got)
		}
		var tree Tree[string]
		tree.Add(p, tt.pattern)
		if got, ok := tree.Find(tt.uri); ok != tt.want || ok && got != tt.pattern {
			t.Errorf("a tree of %s finds %s: %t", tt.pattern, tt.uri, ok)
		}
	}
	if (Pattern{}).Match("") || (Pattern{}).Match("https://mcp.example.com/") {
		t.Error("the zero pattern matches")
	}
}

// TestParseRefuses: what could mean two things is not a pattern.
func TestParseRefuses(t *testing.T) {
	for raw, why := range map[string]string{
		"https://mcp.example.com/mcp":                                 "no placeholder",
		"https://{tenant}.example.com/mcp":                            "in the path only",
		"{scheme}://mcp.example.com/mcp":                              "in the path only",
		"https://mcp.example.com/x{tenant}/mcp":                       "whole segment",
		"https://mcp.example.com/{tenant}x/mcp":                       "whole segment",
		"https://mcp.example.com/{ten{ant}/mcp":                       "whole segment",
		"https://mcp.example.com/{}/mcp":                              "with a name",
		"https://mcp.example.com/{a b}/mcp":                           "with a name",
		"https://mcp.example.com/{a.b}/mcp":                           "with a name",
		"https://mcp.example.com/{a*}/mcp":                            "with a name",
		"https://mcp.example.com/{tenant/mcp":                         "whole segment",
		"https://mcp.example.com/tenant}/mcp":                         "whole segment",
		"https://mcp.example.com/{a}/{a}":                             "twice",
		"https://mcp.example.com/{a}/../mcp":                          "dot segment",
		"https://mcp.example.com/{a}/./mcp":                           "dot segment",
		"https://mcp.example.com//{a}":                                "empty segment",
		"https://mcp.example.com/{a}/%2F":                             "percent-encoding",
		"https://mcp.example.com/{a}?b":                               "whole segment",
		"https://mcp.example.com/{a}/mcp?b={c}":                       "whole segment",
		"https://mcp.example.com/{a}/mcp?b":                           "query",
		"https://mcp.example.com/{a}/mcp#b":                           "fragment",
		"https://mcp.example.com?x/{a}":                               "query",
		"HTTPS://mcp.example.com/{a}":                                 "canonical",
		"https://MCP.example.com/{a}":                                 "canonical",
		"https://mcp.example.com:443/{a}":                             "canonical",
		"https://user@mcp.example.com/{a}":                            "user information",
		"ftp://mcp.example.com/{a}":                                   "scheme",
		"/{a}":                                                        "in the path only",
		"https://mcp.example.com/é/{a}":                               "percent-encoded",
		"https://mcp.example.com/{a}" + strings.Repeat("/{b}", 40):    "segments",
		"https://mcp.example.com/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}": "placeholders",
		"https://mcp.example.com/{" + strings.Repeat("a", 33) + "}":   "with a name",
	} {
		if p, err := Parse(raw); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Parse(%q) = %v, %v; want an error with %q", raw, p, err, why)
		}
	}
}

// TestAmbiguous: of two patterns that overlap one must be more specific wherever they differ.
func TestAmbiguous(t *testing.T) {
	const host = "https://mcp.example.com"
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"/{a}/mcp", "/{b}/mcp", true}, // one shape
		{"/{a}/mcp", "/acme/{b}", true},
		{"/{a}/x/{c}", "/y/{b}/{c}", true},
		{"/{a}/{b}", "/acme/{b}", false},
		{"/{a}/{b}", "/acme/mcp/{c}", false},
		{"/{a}/mcp", "/{a}/sse", false},
		{"/{a}/mcp", "/{a}/mcp/", false},
		{"/{a}/mcp", "/b;c/{d}", false}, // no URI has b;c in the place of {a}
		{"/{a}/{b}/mcp", "/x/{b}/mcp", false},
		{"/{a}/{b}/mcp", "/x/y/{c}", true},
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			var tree Tree[string]
			tree.Add(parse(t, host+pair[0]), pair[0])
			if other, got := tree.Ambiguous(parse(t, host+pair[1])); got != tt.want || got && other.String() != host+pair[0] {
				t.Errorf("%s beside %s is ambiguous: %t with %q", pair[1], pair[0], got, other)
			}
		}
	}
}

// TestMostSpecificFirst: of several patterns that match, the one with the plain segment comes
// first, in whatever order they were added.
func TestMostSpecificFirst(t *testing.T) {
	patterns := []string{"/{a}/{b}/mcp", "/acme/{b}/mcp", "/acme/prod/{c}x", "/{a}/{b}/{c}"}
	patterns = slices.DeleteFunc(patterns, func(p string) bool { return strings.HasSuffix(p, "}x") })
	for range len(patterns) {
		patterns = append(patterns[1:], patterns[0])
		var tree Tree[string]
		for _, p := range patterns {
			tree.Add(parse(t, "https://mcp.example.com"+p), p)
		}
		var got []string
		tree.Each("https://mcp.example.com/acme/prod/mcp", func(p string) bool { got = append(got, p); return true })
		if first, ok := tree.Find("https://mcp.example.com/acme/prod/mcp"); !ok || first != "/acme/{b}/mcp" {
			t.Errorf("added as %v, %q is found, %t", patterns, first, ok)
		}
		if want := []string{"/acme/{b}/mcp", "/{a}/{b}/mcp", "/{a}/{b}/{c}"}; !slices.Equal(got, want) {
			t.Errorf("added as %v, the order is %v; want %v", patterns, got, want)
		}
	}
}

// TestManyPatterns: a search does not look at patterns that share no prefix with the URI.
func TestManyPatterns(t *testing.T) {
	var tree Tree[int]
	for i := range 10000 {
		p := parse(t, fmt.Sprintf("https://mcp.example.com/service-%d/{tenant}/mcp", i))
		if other, ok := tree.Ambiguous(p); ok {
			t.Fatalf("%s is ambiguous with %s", p, other)
		}
		tree.Add(p, i)
	}
	uri := "https://mcp.example.com/service-7777/acme/mcp"
	if i, ok := tree.Find(uri); !ok || i != 7777 {
		t.Errorf("found %d, %t", i, ok)
	}
	if n := testing.AllocsPerRun(100, func() { tree.Find(uri) }); n > 4 {
		t.Errorf("a search allocates %v times", n)
	}
}

// slowMatch is an independent reading of the rule: it cuts both into segments at every slash.
func slowMatch(pattern, uri string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(uri, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "{") {
			if want[i] != got[i] {
				return false
			}
			continue
		}
		const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
		if strings.Trim(got[i], allowed) != "" || len(got[i]) == 0 || len(got[i]) > 128 || got[i] == "." || got[i] == ".." {
			return false
		}
	}
	return true
}

// FuzzMatch compares the pattern, the tree and the slow reading, and requires of each match that
// it is a URI in canonical form.
func FuzzMatch(f *testing.F) {
	f.Add(tenant, "https://mcp.example.com/acme/mcp")
	f.Add("https://mcp.example.com/{a}/{b}", "https://mcp.example.com/a/%2e%2e")
	f.Add("https://mcp.example.com/{a}/", "https://mcp.example.com/a/")
	f.Add("http://[::1]:8081/x/{a}", "http://[::1]:8081/x/..")
	f.Add(tenant, tenant)
	f.Add(tenant, "https://MCP.example.com/a\x00b/mcp")
	f.Fuzz(func(t *testing.T, raw, uri string) {
		p, err := Parse(raw)
		if err != nil {
			return
		}
		canonical, invalid := metadata.Canonical(uri)
		want := slowMatch(raw, uri)
		if got := p.Match(uri); got != want {
			t.Errorf("%q matches %q: %t; the slow reading says %t", raw, uri, got, want)
		}
		if want && (invalid != nil || canonical != uri) {
			t.Errorf("%q matches %q, which is not canonical: %q, %v", raw, uri, canonical, invalid)
		}
		var tree Tree[bool]
		tree.Add(p, true)
		if _, got := tree.Find(uri); got != want {
			t.Errorf("a tree of %q finds %q: %t", raw, uri, got)
		}
		if p.Match(raw) || p.Match(p.Shape()) {
			t.Errorf("%q matches itself", raw)
		}
		if again, err := Parse(p.String()); err != nil || again.Shape() != p.Shape() {
			t.Errorf("%q is read again as %q, %v", raw, again, err)
		}
	})
}
