package dcr

import (
	"fmt"
	"strings"
	"testing"
)

// TestGenerations: a hundred thousand invented keys leave two generations, and an entry that
// is read in between stays.
func TestGenerations(t *testing.T) {
	for name, g := range map[string]*generations[int]{
		"by number": newGenerations[int](100, 1<<30), "by weight": newGenerations[int](1<<30, 1000),
	} {
		g.put("used", -1, 10)
		for i := range 100_000 {
			g.put(fmt.Sprint(i), i, 10)
			if i%90 == 0 {
				if v, ok := g.get("used"); !ok || v != -1 {
					t.Fatalf("%s: what is used is gone after %d", name, i)
				}
			}
			if len(g.young) > 100 || len(g.old) > 100 || g.weight > 1000 {
				t.Fatalf("%s: %d and %d entries of weight %d", name, len(g.young), len(g.old), g.weight)
			}
		}
		if _, ok := g.get("0"); ok {
			t.Errorf("%s: the first is still there", name)
		}
		if v, ok := g.get("99999"); !ok || v != 99999 {
			t.Errorf("%s: the last is %d", name, v)
		}
	}
}

func TestGenerationsReplace(t *testing.T) {
	g := newGenerations[int](10, 100)
	for i := range 1000 {
		g.put("same", i, 60)
	}
	if v, ok := g.get("same"); !ok || v != 999 || g.weight != 60 || len(g.young)+len(g.old) != 1 {
		t.Errorf("%d, weight %d, %d and %d entries", v, g.weight, len(g.young), len(g.old))
	}
	g.put("heavy", 1, 1000) // alone in its generation, whatever it weighs
	if _, ok := g.get("heavy"); !ok {
		t.Error("gone")
	}
}

// FuzzDocumentID: an accepted address of a document has a single spelling and nothing
// ambiguous.
func FuzzDocumentID(f *testing.F) {
	for _, seed := range []string{
		"https://client.example.com/c.json", "https://client.example.com:8443/a/b?c=d", "https://user@client.example.com/c", "https://client.example.com/%2e%2e/c",
		"https://client.example.com", "https://[::1]/c", "https://127.1/c", "http://localhost/c", "https://CLIENT.example.com/c", "https://client.example.com/c#d",
		"https://a..b/c", "https://a.b./c", "https://a:0443/c", "https://a/\\c", "https://a/;/../c", "https://2130706433/c", "https://0x7f.1/c",
	} {
		f.Add(seed)
	}
	strict := Documents{Trust: TrustAsk}
	f.Fuzz(func(t *testing.T, id string) {
		if strict.refusesID(id) != "" {
			return
		}
		rest, secure := strings.CutPrefix(id, "https://")
		host, path, _ := strings.Cut(rest, "/")
		if !secure || len(id) > maxDocumentID || host == "" || path == "" || host != strings.ToLower(host) || !isDocument(id) {
			t.Fatalf("accepted %q", id)
		}
		for _, bad := range []string{"#", "\\", " ", "/../", "/./", "/%2e%2e/", "/%2E%2E/", "\x7f"} {
			if strings.Contains(id, bad) {
				t.Fatalf("accepted %q with %q", id, bad)
			}
		}
		if strings.ContainsAny(host, "@%[]?") || strings.Contains(host, "..") || hostOf(id) == "" {
			t.Fatalf("accepted %q at %q", id, host)
		}
		for _, c := range []byte(id) {
			if c <= ' ' || c > '~' {
				t.Fatalf("accepted %q", id)
			}
		}
	})
}

// TestGenerationsDrop: drop removes an entry from either generation, and its weight.
func TestGenerationsDrop(t *testing.T) {
	g := newGenerations[int](2, 100)
	for i, key := range []string{"old", "older", "young"} { // the third begins a generation
		g.put(key, i, 10)
	}
	for _, key := range []string{"old", "young", "unknown"} {
		g.drop(key)
		if _, ok := g.get(key); ok {
			t.Errorf("%s is still there", key)
		}
	}
	if _, ok := g.get("older"); !ok || g.weight != 10 {
		t.Errorf("the other one is there: %t, weight %d; want true, 10", ok, g.weight)
	}
}
