package doctor_test

import (
	"net/http"
	"testing"
)

// TestGeminiWay: Gemini CLI asks for the challenge with HEAD. Only if it is given a link there, it
// registers at the issuer that the metadata has, and ends at a link to another origin.
func TestGeminiWay(t *testing.T) {
	silent := func(s *stable) { s.with("GET "+notes, http.NotFound) } // and so to HEAD
	other := func(s *stable) { s.server["issuer"] = "https://auth.internal.example.org" }
	away := challenge(`Bearer resource_metadata="http://notes.example.com/metadata"`)
	for name, c := range map[string]struct {
		change []func(*stable)
		want   string
	}{
		"another issuer, linked":         {[]func(*stable){other}, "issuer-mismatch"},
		"another issuer, not linked":     {[]func(*stable){other, silent}, ""},
		"a path at the issuer, linked":   {[]func(*stable){func(s *stable) { s.server["issuer"] = tenant }}, ""},
		"another origin, linked":         {[]func(*stable){away}, "challenge-elsewhere"},
		"another origin, not linked":     {[]func(*stable){away, silent}, ""},
		"500 in every place of metadata": {[]func(*stable){route("GET "+servers, answer(500, "", "")), route("GET "+openid, answer(500, "", ""))}, "server-fault"},
		"refusals that are JSON":         {[]func(*stable){route("GET "+placed, answer(404, jsonType, `{}`)), route("GET "+servers, answer(500, jsonType, `{}`))}, ""},
		"a query at the resource":        {[]func(*stable){resource("resource", notes+"?a=b#c")}, ""},
	} {
		s := healthy(notes, issuer)
		for _, change := range c.change {
			change(s)
		}
		for _, way := range examined(t, s).As {
			if way.Client == "gemini-cli" && way.Finding != c.want {
				t.Errorf("%s: it stops at %q, want %q", name, way.Finding, c.want)
			}
		}
	}
}
