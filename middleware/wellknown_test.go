package middleware_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

func TestMetadata(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.ResourceName, c.ResourceDocumentation = "Notes", "https://notes.example.com/docs"
		c.ChallengeScopes = []string{"notes:read"}
	})
	paths := guard.MetadataPaths()
	if want := []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"}; !slices.Equal(paths, want) {
		t.Fatalf("the paths are %q, want %q", paths, want)
	}
	for _, path := range paths {
		res := serve(guard.Metadata(), newRequest("GET", "https://notes.example.com"+path, "Mcp-Protocol-Version", "2026-07-28"))
		body, _ := io.ReadAll(res.Body)
		doc, err := metadata.ParseResource(body, resource)
		if err != nil || doc.Validate() != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %s %s, %v", path, res.Status, body, err)
		}
		if !slices.Equal(doc.AuthorizationServers, []string{issuer.URL()}) || !slices.Equal(doc.ScopesSupported, []string{"notes:read", "notes:write"}) ||
			!slices.Equal(doc.BearerMethodsSupported, []string{"header"}) || doc.ResourceName != "Notes" || doc.ResourceDocumentation == "" {
			t.Errorf("%s: %s", path, body)
		}
		for method, want := range map[string]int{"HEAD": 200, "OPTIONS": 204, "POST": 405, "DELETE": 405} {
			if res := serve(guard.Metadata(), newRequest(method, "https://notes.example.com"+path)); res.StatusCode != want {
				t.Errorf("%s %s: %s", method, path, res.Status)
			}
		}
	}
	paths[0] = "changed"
	if guard.MetadataPaths()[0] == "changed" {
		t.Error("the caller can change the paths")
	}
}

func TestMetadataElsewhere(t *testing.T) {
	guard := newGuard(t, middlewaretest.NewIssuer(t))
	for _, path := range []string{
		"/", "/mcp", "/.well-known/", "/.well-known/oauth-protected-resource/", "/.well-known/oauth-protected-resource/other", "/.well-known/oauth-protected-resource/mcp/",
		"/.well-known/oauth-protected-resource/MCP", "/.well-known/oauth-protected-resource/mcp/admin", "/.well-known/oauth-protected-resource/%6Dcp", "/mcp/.well-known/oauth-protected-resource",
		"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/.well-known/oauth-protected-resource//mcp",
	} {
		res := serve(guard.Metadata(), newRequest("GET", "https://notes.example.com"+path))
		if res.StatusCode != http.StatusNotFound || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
}

func TestMetadataOfAnOrigin(t *testing.T) {
	guard := newGuard(t, middlewaretest.NewIssuer(t), func(c *middleware.Config) { c.Resource = "https://notes.example.com/" })
	if paths := guard.MetadataPaths(); !slices.Equal(paths, []string{"/.well-known/oauth-protected-resource"}) {
		t.Errorf("the paths are %q", paths)
	}
	res := serve(guard.Metadata(), newRequest("GET", "https://notes.example.com/.well-known/oauth-protected-resource"))
	body, _ := io.ReadAll(res.Body)
	if !strings.Contains(string(body), `"resource":"https://notes.example.com/"`) {
		t.Errorf("the resource is not spelled as configured: %s", body)
	}
}

// TestOnAMux serves a guard as in the package comment.
func TestOnAMux(t *testing.T) {
	for _, configured := range []string{resource, "https://notes.example.com", "https://notes.example.com/a%2Fb/", "https://notes.example.com/mcp?tenant=a"} {
		guard := newGuard(t, middlewaretest.NewIssuer(t), func(c *middleware.Config) { c.Resource = configured })
		mux := http.NewServeMux()
		for _, path := range guard.MetadataPaths() {
			mux.Handle(path, guard.Metadata())
		}
		url, err := metadata.ResourceMetadataURL(configured)
		if err != nil {
			t.Fatal(err)
		}
		if res := serve(mux, newRequest("GET", url)); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", url, res.Status)
		}
	}
}
