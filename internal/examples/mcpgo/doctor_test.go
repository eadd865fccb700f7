package mcpgo

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"gatehouse.example/doctor"
	"gatehouse.example/middleware/middlewaretest"
)

// found examines a server and returns the ids of what was found. How fast this machine is makes no
// difference.
func found(t *testing.T, target, token string) (ids []string) {
	t.Helper()
	report, err := doctor.Check(t.Context(), target, doctor.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.ID != "slow" {
			t.Logf("%s %s: %s", f.Severity, f.ID, f.Saw)
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// TestDoctor: behind the guard the doctor finds nothing at a server of mcp-go, also with a token; all
// that it finds is about the authorization server, which only mints tokens. The server alone, with the
// metadata that mcp-go serves, is open to everybody.
func TestDoctor(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	want := []string{"no-way-in", "token-error-shape", "iss-missing", "public-clients", "token-cacheable", "cors-token", "grant-types-missing"}
	resource := start(t, issuer.URL())
	if got := found(t, resource, ""); !slices.Equal(got, want) {
		t.Errorf("behind the guard: %q, want %q", got, want)
	}
	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})
	if got := found(t, resource, token); !slices.Equal(got, want) {
		t.Errorf("behind the guard with a token: %q, want %q", got, want)
	}

	mux := http.NewServeMux()
	alone := httptest.NewServer(mux)
	t.Cleanup(func() { alone.CloseClientConnections(); alone.Close() })
	about := server.ProtectedResourceMetadataConfig{Resource: alone.URL + "/mcp", AuthorizationServers: []string{issuer.URL()}}
	mux.Handle("/mcp", server.NewStreamableHTTPServer(server.NewMCPServer("notes", "1.0.0")))
	mux.Handle(server.ProtectedResourceMetadataPath(about.Resource), server.NewProtectedResourceMetadataHandler(about))
	got := slices.DeleteFunc(found(t, about.Resource, ""), func(id string) bool { return slices.Contains(want, id) })
	if want := []string{"open", "stream-open", "cors-call", "cors-resource-metadata"}; !slices.Equal(got, want) {
		t.Errorf("alone: %q, want %q", got, want)
	}
}
