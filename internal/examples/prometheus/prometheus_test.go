package prometheus

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const resource = "https://notes.example.com/api"

// TestScrape sends requests, and reads the metrics as a server of Prometheus does.
func TestScrape(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	id, secret := issuer.Credentials()
	config := middleware.Config{
		Resource: resource, AuthorizationServers: []string{issuer.URL()},
		Introspection: map[string]middleware.Introspection{issuer.URL(): {ClientID: id, ClientSecret: secret}},
		Policy:        middleware.Policy{Routes: map[string][]string{"GET /notes/{id}": {"notes:read"}}},
	}
	registry := prometheus.NewRegistry()
	Watch(&config, registry)
	guard, err := middleware.New(config)
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	good := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})
	for path, token := range map[string]string{"/notes/1": good, "/notes/2": good, "/secret": good, "/notes/3": "x.y.z", "/notes/4": ""} {
		r := httptest.NewRequest("GET", "https://notes.example.com"+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()
	res, err := http.Get(metrics.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`guard_decision_seconds_count{reason="allowed",route="GET /notes/{id}"} 2`,
		`guard_decision_seconds_count{reason="not_named",route=""} 1`,
		`guard_decision_seconds_count{reason="bad_token",route=""} 1`,
		`guard_decision_seconds_count{reason="no_token",route=""} 1`,
		`guard_issuer_seconds_count{issuer="` + issuer.URL() + `",result="ok",work="keys"} 1`,
		`guard_issuer_seconds_count{issuer="` + issuer.URL() + `",result="ok",work="introspection"} 1`,
	} {
		if !strings.Contains("\n"+string(page), "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	if strings.Contains(string(page), "secret") {
		t.Error("a path of a client is in the metrics")
	}
}
