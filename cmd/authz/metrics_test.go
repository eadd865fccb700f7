package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gatehouse.example/middleware/middlewaretest"
)

// ownSeries returns the names with labels of the series of ours in a scrape.
func ownSeries(text string) (names []string) {
	for _, found := range regexp.MustCompile(`(?m)^(gatehouse_\S*(?:\{.*\})?) \S+$`).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return names
}

// valueOf returns the value of a series in a scrape, and -1 if it is not there.
func valueOf(t *testing.T, text, name string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return -1
}

// send sends a request with any method, path and client, and returns the status.
func send(t *testing.T, method, url, client, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(client, "secret of "+client)
	req.Header.Set("User-Agent", client)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// No method, path, client or parameter that somebody makes up becomes a series, at the server or
// the gateway.
func TestClientsMakeNoSeries(t *testing.T) {
	server := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	issuer := middlewaretest.NewIssuer(t)
	atGateway := adminAddress(t)
	gate := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", echo(t), "--admin-listen", atGateway)
	for name, at := range map[string]struct{ public, admin, path string }{
		"server":  {server.shown("listening on"), server.shown("admin on"), "/token"},
		"gateway": {gate.shown("listening on"), atGateway, "/mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			before := ownSeries(scrape(t, at.admin))
			for i := range 30 {
				junk := fmt.Sprintf("JUNK%d", i)
				for _, path := range []string{at.path, "/" + junk, "/register/" + junk, "/login/" + junk + "/callback", "/authorize?client_id=" + junk, "/.well-known/" + junk} {
					for _, method := range []string{"GET", "POST", junk} {
						send(t, method, "http://"+at.public+path, junk, "grant_type="+junk+"&client_id="+junk+"&scope="+junk)
					}
				}
			}
			text := scrape(t, at.admin)
			if after := ownSeries(text); !slices.Equal(before, after) {
				t.Errorf("%d series, before there were %d", len(after), len(before))
			}
			if strings.Contains(text, "JUNK") {
				t.Error("a value of a client is in the metrics")
			}
		})
	}
}

// A scrape asks the store as often with many records as with few.
func TestScrapeCostsTheSameWithManyRecords(t *testing.T) {
	server := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	admin := server.shown("admin on")
	asked := func(operation string) int {
		return valueOf(t, scrape(t, admin), `gatehouse_store_calls_total{operation="`+operation+`",outcome="ok"}`)
	}
	// A scrape collects its parts in any order, so its own calls are in it or in the next one.
	ofTen := func() int {
		before := asked("index_len")
		for range 9 {
			scrape(t, admin)
		}
		return asked("index_len") - before
	}
	few := ofTen()
	for i := range 100 {
		body := fmt.Sprintf(`{"redirect_uris":["http://127.0.0.1:%d/callback"],"token_endpoint_auth_method":"none"}`, 20000+i)
		resp, err := http.Post("http://"+server.shown("listening on")+"/register", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("registration %d: %s", i, resp.Status)
		}
	}
	if many, scans := ofTen(), asked("scan"); few < 27 || few > 33 || many < 27 || many > 33 || scans != 0 {
		t.Errorf("ten scrapes ask for %d lengths with few clients and for %d with many, and scan %d times", few, many, scans)
	}
	text := scrape(t, admin)
	for name, want := range map[string]int{
		`gatehouse_clients{state="unused"}`: 100, "gatehouse_people": 1, "gatehouse_store_up": 1, `gatehouse_signing_keys{state="active"}`: 1,
		`gatehouse_requests_total{endpoint="/register",outcome="ok"}`: 100,
	} {
		if got := valueOf(t, text, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// The gateway counts what its guard decides and what its upstream answers, under the configured
// resource.
func TestGatewayMetrics(t *testing.T) {
	issuer, admin := middlewaretest.NewIssuer(t), adminAddress(t)
	gate := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", echo(t)+"/mcp", "--admin-listen", admin)
	const message = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	sent(t, gate, http.MethodPost, "/mcp", message, issuer.Mint(middlewaretest.Claims{"aud": guarded}))
	sent(t, gate, http.MethodPost, "/mcp", message, "")
	sent(t, gate, http.MethodPost, "/mcp", message, "made-up")
	text := scrape(t, admin)
	for name, want := range map[string]int{
		`gatehouse_gateway_decisions_total{code="",resource="` + guarded + `",status=""}`:                 1,
		`gatehouse_gateway_decisions_total{code="",resource="` + guarded + `",status="401"}`:              1,
		`gatehouse_gateway_decisions_total{code="invalid_token",resource="` + guarded + `",status="401"}`: 1,
		`gatehouse_gateway_upstream_answers_total{outcome="ok",resource="` + guarded + `"}`:               1,
		`gatehouse_gateway_issuer_requests_total{kind="documents",outcome="ok"}`:                          2, // metadata and keys
		`gatehouse_gateway_issuer_requests_total{kind="introspection",outcome="ok"}`:                      0,
		`gatehouse_gateway_upstream_duration_seconds_count{resource="` + guarded + `"}`:                   1,
	} {
		if got := valueOf(t, text, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, _ := get(t, http.DefaultClient, "http://"+admin+path); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// Without metrics /metrics is not there.
func TestProbesWithoutMetrics(t *testing.T) {
	w := httptest.NewRecorder()
	(&site{}).probes(alwaysReady, nothingMissing).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}
