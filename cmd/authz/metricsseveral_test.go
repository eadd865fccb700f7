package main

import (
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware/middlewaretest"
)

// Gateways of several resources that share an issuer start with metrics; each counts under its own
// name, and the keys that they share are fetched once.
func TestSeveralResourcesAreCounted(t *testing.T) {
	issuer, admin := middlewaretest.NewIssuer(t), adminAddress(t)
	const one, other = "https://notes.example.com/mcp", "https://tasks.example.com/mcp"
	r := startSeveral(t, `
resources:
  - resource: `+one+`
    upstream: `+echo(t)+`/notes
    issuers: [`+issuer.URL()+`]
  - resource: `+other+`
    upstream: `+echo(t)+`/tasks
    issuers: [`+issuer.URL()+`]
`, "--admin-listen", admin)
	for _, resource := range []string{one, other, other} {
		if status, _, _ := at(t, r, http.MethodPost, resource, issuer.Mint(middlewaretest.Claims{"aud": resource})); status != http.StatusOK {
			t.Fatalf("%s: %d", resource, status)
		}
	}
	text := scrape(t, admin)
	for name, want := range map[string]int{
		`gatehouse_gateway_decisions_total{code="",resource="` + one + `",status=""}`:     1,
		`gatehouse_gateway_decisions_total{code="",resource="` + other + `",status=""}`:   2,
		`gatehouse_gateway_upstream_answers_total{outcome="ok",resource="` + other + `"}`: 2,
		`gatehouse_gateway_issuer_requests_total{kind="documents",outcome="ok"}`:          2, // metadata and keys
	} {
		if got := valueOf(t, text, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if fetched := `gatehouse_gateway_keys_fetched_timestamp_seconds{issuer="` + issuer.URL() + `"} `; strings.Count(text, fetched) != 1 || strings.Contains(text, fetched+"0\n") {
		t.Error("the keys of the issuer have no age")
	}
}
