package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/gateway"
)

const upstreamKey = "upstream-key-1"

func newUpstreamHeaders(t testing.TB, fields ...string) *gateway.UpstreamHeaders {
	t.Helper()
	header := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		header.Set(fields[i], fields[i+1])
	}
	h, err := gateway.NewUpstreamHeaders(header)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The upstream gets the gateway's credentials and never those of a client, in any spelling.
func TestUpstreamHeaders(t *testing.T) {
	up := newUpstream(t)
	headers := newUpstreamHeaders(t, "Authorization", "Bearer "+upstreamKey, "X-Door", upstreamKey)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.UpstreamHeaders = headers })
	ask := func() http.Header {
		r := g.request(t, "POST", "/mcp", "{}")
		for _, spelling := range spellings("X-Door") {
			r.Header[spelling] = []string{"forged"}
		}
		do(t, r)
		return up.taken()[0].header
	}
	got := ask()
	if fmt.Sprint(got["Authorization"], got["X-Door"]) != "[Bearer "+upstreamKey+"] ["+upstreamKey+"]" || strings.Contains(fmt.Sprint(got), "forged") || got.Get("Gatehouse-Subject") != "reader" {
		t.Errorf("%v", got)
	}
	if err := headers.Replace(http.Header{"X-Door": {"upstream-key-2"}}); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got.Get("X-Door") != "upstream-key-2" || got["Authorization"] != nil {
		t.Errorf("after they were replaced: %v", got)
	}
	if err := headers.Replace(http.Header{"X-Door": {"two\nlines"}}); err == nil || strings.Contains(err.Error(), "two") {
		t.Errorf("%v", err)
	}
	if got := ask(); got.Get("X-Door") != "upstream-key-2" {
		t.Errorf("after a mistake: %v", got)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", headers, headers, headers, headers.LogValue()); strings.Contains(text, "upstream-key") {
		t.Error(text)
	}
}

func TestUpstreamHeadersThatAreNone(t *testing.T) {
	for _, name := range []string{
		"", "-", "X_Api_Key", "X Api", "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Gatehouse-Subject", "X-Forwarded-For", "Forwarded", "X-Request-Id",
		"Mcp-Session-Id", "Accept", "Via", "Traceparent", "Proxy-Authorization", "X-Http-Method-Override",
	} {
		if _, err := gateway.NewUpstreamHeaders(http.Header{name: {upstreamKey}}); err == nil || strings.Contains(err.Error(), upstreamKey) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, value := range []string{"", " ", " x", "x ", "a\r\nb", "a\tb", "ä", "a\x00", strings.Repeat("x", 8193)} {
		if _, err := gateway.NewUpstreamHeaders(http.Header{"X-Api-Key": {value}}); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
	if _, err := gateway.NewUpstreamHeaders(http.Header{"X-Api-Key": {"one", "two"}}); err == nil {
		t.Error("two values are accepted")
	}
	if _, err := gateway.NewUpstreamHeaders(http.Header{"X-Api-Key": {strings.Repeat("x", 8192)}}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"Authorization", "x-api-key", "Cookie", "X-Door", "Api-Key"} {
		if _, err := gateway.NewUpstreamHeaders(http.Header{name: {upstreamKey}}); err != nil {
			t.Error(err)
		}
	}
	config := gateway.Config{Upstream: "HTTPS://upstream.example.com", UpstreamTLS: &tls.Config{}}
	config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
	if _, err := gateway.New(config); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*gateway.Config){
		"it is a credential of the gateway": func(c *gateway.Config) { c.PassHeaders = []string{"x-api-key"} },
		"nothing is forwarded":              func(c *gateway.Config) { c.Upstream, c.VerifyOnly = "", true },
		"credentials for an upstream": func(c *gateway.Config) {
			c.Upstream, c.VerifyOnly, c.UpstreamHeaders, c.UpstreamTLS = "", true, nil, &tls.Config{}
		},
		"not https": func(c *gateway.Config) { c.UpstreamTLS = &tls.Config{} },
		"two transports": func(c *gateway.Config) {
			c.Upstream, c.UpstreamTLS, c.Transport = "https://upstream.example.com", &tls.Config{}, http.DefaultTransport
		},
	} {
		config := gateway.Config{Upstream: "http://127.0.0.1:9000", UpstreamHeaders: newUpstreamHeaders(t, "X-Api-Key", upstreamKey)}
		config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
		change(&config)
		if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), upstreamKey) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// The credentials go to the upstream alone, and not where it redirects to; neither an answer nor
// the log repeats them.
func TestUpstreamHeadersStayThere(t *testing.T) {
	other := newUpstream(t)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Api-Key", r.Header.Get("X-Api-Key"))
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/refuse":
			w.WriteHeader(http.StatusUnauthorized)
		case "/hang":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(up.Close)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.UpstreamHeaders = newUpstreamHeaders(t, "X-Api-Key", upstreamKey) })
	for path, want := range map[string]int{"/mcp": 200, "/mcp/redirect": 502, "/mcp/refuse": 502, "/mcp/hang": 502} {
		a := do(t, g.request(t, "GET", path, ""))
		if a.status != want || strings.Contains(fmt.Sprint(a), upstreamKey) {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if got := other.taken(); len(got) > 0 {
		t.Errorf("another server was asked: %+v", got)
	}
	if strings.Contains(g.log.String(), upstreamKey) {
		t.Errorf("the log:\n%s", g.log.String())
	}
}

// The gateway shows its certificate to the upstream, and verifies that of the upstream with the
// authority and the name in the settings.
func TestUpstreamTLS(t *testing.T) {
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, fmt.Sprint(len(r.TLS.PeerCertificates), r.TLS.ServerName))
	}))
	up.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	up.Config.ErrorLog = log.New(io.Discard, "", 0)
	up.StartTLS()
	t.Cleanup(up.Close)
	pool := x509.NewCertPool()
	pool.AddCert(up.Certificate())
	own := up.TLS.Certificates
	for name, tt := range map[string]struct {
		settings *tls.Config
		status   int
		body     string
	}{
		"all of it":         {&tls.Config{RootCAs: pool, Certificates: own, ServerName: "example.com"}, 200, "1example.com"},
		"no certificate":    {&tls.Config{RootCAs: pool, ServerName: "example.com"}, 502, ""},
		"another authority": {&tls.Config{Certificates: own, ServerName: "example.com"}, 502, ""},
		"another name":      {&tls.Config{RootCAs: pool, Certificates: own, ServerName: "other.example.org"}, 502, ""},
	} {
		g := newGate(t, up.URL, func(c *gateway.Config) { c.UpstreamTLS = tt.settings })
		if a := do(t, g.request(t, "GET", "/mcp", "")); a.status != tt.status || tt.body != "" && a.body != tt.body {
			t.Errorf("%s: %d %q", name, a.status, a.body)
		}
	}
}
