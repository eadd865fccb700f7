package metadata_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

func TestResourceMetadataURL(t *testing.T) {
	const root = "/.well-known/oauth-protected-resource"
	for _, tt := range []struct {
		resource, url string
		paths         []string
	}{
		{"https://notes.example.com", "https://notes.example.com" + root, []string{root}},
		{"https://notes.example.com/", "https://notes.example.com" + root, []string{root}},
		{"https://notes.example.com/mcp", "https://notes.example.com" + root + "/mcp", []string{root + "/mcp", root}},
		{"https://notes.example.com/mcp/", "https://notes.example.com" + root + "/mcp/", []string{root + "/mcp/", root}},
		{"https://notes.example.com/a/b", "https://notes.example.com" + root + "/a/b", []string{root + "/a/b", root}},
		{"https://notes.example.com/a%2Fb", "https://notes.example.com" + root + "/a%2Fb", []string{root + "/a%2Fb", root}},
		{"https://notes.example.com?t=1", "https://notes.example.com" + root + "?t=1", []string{root}},
		{"https://notes.example.com/?t=1", "https://notes.example.com" + root + "?t=1", []string{root}},
		{"https://notes.example.com/mcp?t=1", "https://notes.example.com" + root + "/mcp?t=1", []string{root + "/mcp", root}},
		{"HTTPS://Notes.example.com:443/mcp", "https://notes.example.com" + root + "/mcp", []string{root + "/mcp", root}},
		{"http://[::1]:8081/mcp", "http://[::1]:8081" + root + "/mcp", []string{root + "/mcp", root}},
	} {
		url, err := metadata.ResourceMetadataURL(tt.resource)
		if err != nil || url != tt.url {
			t.Errorf("ResourceMetadataURL(%q) = %q, %v; want %q", tt.resource, url, err, tt.url)
		}
		paths, err := metadata.ResourceMetadataPaths(tt.resource)
		if err != nil || !slices.Equal(paths, tt.paths) {
			t.Errorf("ResourceMetadataPaths(%q) = %q, %v; want %q", tt.resource, paths, err, tt.paths)
		}
	}
	for _, bad := range []string{"", "/mcp", "mcp", "https://notes.example.com/mcp#", "ftp://notes.example.com", "https://u@notes.example.com"} {
		if got, err := metadata.ResourceMetadataURL(bad); err == nil {
			t.Errorf("ResourceMetadataURL(%q) = %q", bad, got)
		}
		if got, err := metadata.ResourceMetadataPaths(bad); err == nil {
			t.Errorf("ResourceMetadataPaths(%q) = %q", bad, got)
		}
	}
}

func TestAuthorizationServerMetadataURLs(t *testing.T) {
	for issuer, want := range map[string][]string{
		"https://auth.example.com": {
			"https://auth.example.com/.well-known/oauth-authorization-server",
			"https://auth.example.com/.well-known/openid-configuration",
		},
		"https://auth.example.com/tenant/one": {
			"https://auth.example.com/.well-known/oauth-authorization-server/tenant/one",
			"https://auth.example.com/.well-known/openid-configuration/tenant/one",
			"https://auth.example.com/tenant/one/.well-known/openid-configuration",
		},
		"http://127.0.0.1:8080": {
			"http://127.0.0.1:8080/.well-known/oauth-authorization-server",
			"http://127.0.0.1:8080/.well-known/openid-configuration",
		},
	} {
		urls, err := metadata.AuthorizationServerMetadataURLs(issuer)
		if err != nil || !slices.Equal(urls, want) {
			t.Errorf("AuthorizationServerMetadataURLs(%q) = %q, %v; want %q", issuer, urls, err, want)
		}
		paths, err := metadata.AuthorizationServerMetadataPaths(issuer)
		if err != nil || len(paths) != len(urls) {
			t.Fatalf("AuthorizationServerMetadataPaths(%q) = %q, %v", issuer, paths, err)
		}
		for i := range urls {
			if !strings.HasSuffix(urls[i], paths[i]) || !strings.HasPrefix(paths[i], "/") {
				t.Errorf("the path %q does not belong to %q", paths[i], urls[i])
			}
		}
	}
	for _, bad := range []string{"", "https://auth.example.com/", "http://auth.example.com", "https://auth.example.com?a", "auth.example.com"} {
		if got, err := metadata.AuthorizationServerMetadataURLs(bad); err == nil {
			t.Errorf("AuthorizationServerMetadataURLs(%q) = %q", bad, got)
		}
		if got, err := metadata.AuthorizationServerMetadataPaths(bad); err == nil {
			t.Errorf("AuthorizationServerMetadataPaths(%q) = %q", bad, got)
		}
	}
}
