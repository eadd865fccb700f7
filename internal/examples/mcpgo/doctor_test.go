package mcpgo

import (
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"gatehouse.example/doctor"
	"gatehouse.example/middleware/middlewaretest"
)

func TestZZ(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, issuer.URL())
	report, err := doctor.Check(t.Context(), resource, doctor.Options{SignIn: &doctor.SignIn{Token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})}})
	if err != nil { t.Fatal(err) }
	for _, f := range report.Findings { t.Log(f.Severity, f.ID, f.Saw) }
	notes := server.NewMCPServer("notes", "1.0.0")
	s := httptest.NewServer(server.NewStreamableHTTPServer(notes))
	defer s.Close()
	report, err = doctor.Check(t.Context(), s.URL+"/mcp", doctor.Options{})
	if err != nil { t.Fatal(err) }
	for _, f := range report.Findings { t.Log(f.Severity, f.ID, f.Saw) }
}
