package mcpgo

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"gatehouse.example/doctor"
	"gatehouse.example/middleware/middlewaretest"
)

// compare examines a server and compares what is found with the file of that name, which was checked
// by hand. How fast this machine is makes no difference.
func compare(t *testing.T, name, target, token, issuer string) {
	t.Helper()
	report, err := doctor.Check(t.Context(), target, doctor.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(issuer, "ISSUER", u.Scheme+"://"+u.Host, "SERVER")
	var got strings.Builder
	for _, f := range report.Findings {
		if f.ID != "slow" {
			got.WriteString(names.Replace(string(f.Severity)+" "+f.ID+": "+f.Saw) + "\n")
		}
	}
	want, err := os.ReadFile("testdata/doctor-" + name + ".txt")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; found %s\n%s", err, name, got.String())
	}
}

// TestDoctor: behind the guard the doctor finds nothing at a server of mcp-go, also with a token; all
// that it finds is about the authorization server, which only mints tokens. The server alone, with the
// metadata that mcp-go serves, is open to everybody.
func TestDoctor(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, issuer.URL())
	compare(t, "guarded", resource, "", issuer.URL())
	compare(t, "guarded", resource, issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"}), issuer.URL())

	mux := http.NewServeMux()
	alone := httptest.NewServer(mux)
	t.Cleanup(func() { alone.CloseClientConnections(); alone.Close() })
	about := server.ProtectedResourceMetadataConfig{Resource: alone.URL + "/mcp", AuthorizationServers: []string{issuer.URL()}}
	mux.Handle("/mcp", server.NewStreamableHTTPServer(server.NewMCPServer("notes", "1.0.0")))
	mux.Handle(server.ProtectedResourceMetadataPath(about.Resource), server.NewProtectedResourceMetadataHandler(about))
	compare(t, "alone", about.Resource, "", issuer.URL())
}
