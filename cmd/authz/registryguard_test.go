package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

// TestRegistryProtectedForReaders: what a registry offers its readers is there behind a guard too:
// compressed answers, and pages of other origins that ask whether an answer has changed.
func TestRegistryProtectedForReaders(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	address := redistest.FreeAddress(t)
	resource := "http://" + address
	list := "servers:\n"
	for i := range 9 { // a long answer
		list += fmt.Sprintf("  - url: https://notes%d.example.com/mcp\n", i)
	}
	servers := save(t, "servers.yaml", list)
	startRegistry(t, nil, "--listen", address, "--resource", resource, "--issuer", issuer.URL(), "--servers-file", servers)
	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "mcp-registry:read"})
	ask := func(method string, fields ...string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, resource+"/v0.1/servers", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		return w
	}
	if w := ask("GET", "Authorization", "Bearer "+token, "Accept-Encoding", "gzip"); w.StatusCode != http.StatusOK || w.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d in the coding %q", w.StatusCode, w.Header.Get("Content-Encoding"))
	}
	w := ask("OPTIONS", "Origin", "http://127.0.0.1:6274", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization,if-none-match")
	if allowed := w.Header.Get("Access-Control-Allow-Headers"); w.StatusCode != http.StatusNoContent || !strings.Contains(allowed, "If-None-Match") || !strings.Contains(allowed, "Authorization") {
		t.Errorf("a page may send %q: %d", allowed, w.StatusCode)
	}
	if w := ask("GET"); w.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.StatusCode)
	}
}
