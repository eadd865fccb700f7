package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/gateway"
)

// spellings returns spellings of a header that some servers treat as equal.
func spellings(name string) []string {
	underscore := strings.ReplaceAll(name, "-", "_")
	return []string{name, strings.ToLower(name), strings.ToUpper(name), underscore, strings.ToLower(underscore), strings.Replace(name, "-", "_", 1), strings.ReplaceAll(name, "-", ".")}
}

func TestHeadersThatStop(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL+"/server")
	const forged = "hunter22"
	for _, name := range []string{
		"Gatehouse-Subject", "Gatehouse-Issuer", "Gatehouse-Client", "Gatehouse-Scope", "Gatehouse-Assertion", "Gatehouse-Roles", "Gatehouse",
		"Proxy-Authorization", "Cookie", "Cookie2", "Proxy", "Forwarded", "Forwarded-For", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Client-Cert", "X-Real-Ip", "X-Original-Url", "X-Original-Uri", "X-Original-Host",
		"X-Original-Method", "X-Original-Forwarded-For", "X-Rewrite-Url", "X-Client-Ip", "Client-Ip", "True-Client-Ip", "X-Cluster-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
		"X-Envoy-External-Address", "X-Envoy-Original-Path", "X-Host",
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Method",
		"Remote-User", "Remote-Groups", "Remote-Name", "Remote-Email", "X-Remote-User", "X-Remote-Group", "X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Groups",
		"X-Auth-Request-Preferred-Username", "X-Auth-Request-Access-Token", "X-Auth-Username", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username",
		"X-Forwarded-Access-Token", "X-Authenticated-User", "X-Authenticated-Userid", "X-Authenticated-Groups", "X-Authenticated-Scope", "X-Webauth-User", "X-Webauth-Groups", "X-Authentik-Username",
		"X-Authentik-Uid", "X-Authentik-Jwt", "X-Goog-Authenticated-User-Email", "X-Goog-Authenticated-User-Id", "X-Goog-Iap-Jwt-Assertion", "Cf-Access-Jwt-Assertion",
		"Cf-Access-Authenticated-User-Email", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Identity", "X-Amzn-Oidc-Accesstoken", "X-Amzn-Mtls-Clientcert", "X-Ms-Client-Principal", "X-Ms-Client-Principal-Name",
		"X-Ms-Token-Aad-Access-Token", "X-Pomerium-Jwt-Assertion", "X-Pomerium-Claim-Email", "Tailscale-User-Login", "Tailscale-User-Name", "X-Vouch-User", "X-Vouch-Idp-Claims-Sub", "X-User",
		"X-User-Id", "X-User-Email", "X-Username", "X-Email", "X-Groups", "X-Roles", "X-Consumer-Username", "X-Consumer-Custom-Id", "X-Credential-Identifier", "X-Userinfo", "X-Id-Token",
		"X-Access-Token", "X-Authorization", "X-Jwt-Payload", "Oidc-Claim-Sub", "X-Oidc-Sub", "Impersonate-User", "Impersonate-Group", "Client-Cert", "Client-Cert-Chain", "X-Client-Cert",
		"X-Ssl-Client-Dn", "Ssl-Client-S-Dn", "X-Endpoint-Api-Userinfo", "Teleport-Jwt-Assertion", "Upgrade", "Te", "Http2-Settings", "Keep-Alive", "Proxy-Connection",
	} {
		r := g.request(t, "POST", "/mcp", "{}")
		for _, spelling := range spellings(name) {
			r.Header[spelling] = []string{forged, forged + "2"}
		}
		if a := do(t, r); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		for _, r := range up.taken() {
			for field, values := range r.header {
				if strings.Contains(strings.Join(values, " "), forged) {
					t.Errorf("%s reaches the upstream as %s: %q", name, field, values)
				}
			}
		}
	}
}

// Neither the token nor the origin of a page is forwarded.
func TestTokenStops(t *testing.T) {
	up := newUpstream(t)
	for _, identity := range []gateway.Identity{gateway.IdentityHeaders, gateway.IdentityAssertion, gateway.IdentityNone} {
		g := newGate(t, up.URL, func(c *gateway.Config) { c.Identity, c.AssertionKey = identity, newKey(t) })
		r := g.request(t, "POST", "/mcp", "{}", "Origin", "http://127.0.0.1", "Cookie", "a=b")
		do(t, r)
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := up.taken()
		if len(got) != 1 {
			t.Fatalf("%d requests", len(got))
		}
		for field, values := range got[0].header {
			if strings.Contains(strings.Join(values, " "), token) || slices.Contains([]string{"Authorization", "Origin", "Cookie"}, field) {
				t.Errorf("%s: %s: %q", identity, field, values)
			}
		}
	}
}

// Headers of the protocol are forwarded, and so are unknown ones.
func TestHeadersThatPass(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.Guard.InsecureUnboundSessions = true })
	fields := []string{
		"Accept", "application/json, text/event-stream", "Accept-Encoding", "br", "Accept-Language", "en", "User-Agent", "client/1.0", "Content-Type", "application/json",
		"Mcp-Protocol-Version", "2025-11-25", "Last-Event-Id", "7", "Mcp-Session-Id", "abc", "Mcp-Method", "ping", "Mcp-Name", "x", "Mcp-Param-City", "Basel",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "a=1", "X-Api-Version", "2", "If-None-Match", "\"a\"",
	}
	r := g.request(t, "POST", "/mcp", "")
	for i := 0; i < len(fields); i += 2 {
		r.Header[fields[i]] = []string{fields[i+1]}
	}
	do(t, r)
	got := up.taken()[0].header
	for i := 0; i < len(fields); i += 2 {
		if values := got[fields[i]]; len(values) != 1 || values[0] != fields[i+1] {
			t.Errorf("%s arrives as %q, want %q", fields[i], values, fields[i+1])
		}
	}
	if !slices.Equal(got["Via"], []string{"1.1 gatehouse"}) {
		t.Errorf("Via: %q", got["Via"])
	}
	// The gateway adds no User-Agent for a client without one.
	r = g.request(t, "POST", "/mcp", "{}", "Accept-Encoding", "identity", "Via", "1.0 edge")
	r.Header["User-Agent"] = []string{""}
	do(t, r)
	got = up.taken()[0].header
	if got["User-Agent"] != nil || got.Get("Accept-Encoding") != "identity" || !slices.Equal(got["Via"], []string{"1.0 edge", "1.1 gatehouse"}) {
		t.Errorf("User-Agent %q, Accept-Encoding %q, Via %q", got["User-Agent"], got["Accept-Encoding"], got["Via"])
	}
}

// X-Forwarded-For has the address from the guard, and the other headers the URL of the resource.
func TestForwardedHeaders(t *testing.T) {
	up := newUpstream(t)
	tests := []struct {
		name    string
		trusted string
		fields  []string
		want    string
	}{
		{"from a client", "", nil, "127.0.0.1"},
		{"from a client that makes things up", "", []string{"X-Forwarded-For", "192.0.2.1"}, "127.0.0.1"},
		{"from a proxy of somebody else", "192.0.2.0/24", []string{"X-Forwarded-For", "192.0.2.1"}, "127.0.0.1"},
		{"from a proxy", "127.0.0.0/8", []string{"X-Forwarded-For", "198.51.100.1, 192.0.2.1"}, "192.0.2.1, 127.0.0.1"},
		{"from a proxy that says nothing", "127.0.0.0/8", nil, "127.0.0.1"},
	}
	for _, tt := range tests {
		g := newGate(t, up.URL, func(c *gateway.Config) {
			if tt.trusted != "" {
				c.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(tt.trusted)}
			}
		})
		do(t, g.request(t, "POST", "/mcp", "{}", append(tt.fields, "X-Forwarded-Proto", "gopher")...))
		got := up.taken()[0]
		if values := got.header["X-Forwarded-For"]; len(values) != 1 || values[0] != tt.want {
			t.Errorf("%s: X-Forwarded-For is %q, want %q", tt.name, values, tt.want)
		}
		if got.header.Get("X-Forwarded-Host") != "notes.example.com" || got.header.Get("X-Forwarded-Proto") != "https" || got.host != strings.TrimPrefix(up.URL, "http://") {
			t.Errorf("%s: %v to %s", tt.name, got.header, got.host)
		}
	}
}

// Headers of a connection are not forwarded.
func TestHopByHop(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	do(t, g.request(t, "POST", "/mcp", "{}", "Connection", "X-Hop, Gatehouse-Subject, Upgrade", "X-Hop", "hunter22", "Upgrade", "websocket", "Te", "trailers", "Expect", "100-continue"))
	got := up.taken()[0].header
	for _, name := range []string{"X-Hop", "Upgrade", "Te", "Expect"} {
		if got[name] != nil {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	if a := do(t, g.request(t, "POST", "/mcp", "{}", "Connection", "Upgrade", "Upgrade", "web\xffsocket")); a.status != 200 {
		t.Errorf("an upgrade to nothing: %d", a.status)
	}
	if got.Get("Connection") == "Upgrade" || got.Get("Gatehouse-Subject") != "reader" {
		t.Errorf("%v", got)
	}
}

func TestTrailersOfRequestsStop(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	r := g.request(t, "POST", "/mcp", "")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), -1
	r.Trailer = http.Header{"Gatehouse-Subject": {"hunter22"}, "X-Trailer": {"hunter22"}}
	do(t, r)
	if got := up.taken()[0]; len(got.trailer) != 0 || string(got.body) != "{}" || strings.Contains(strings.Join(got.header["Gatehouse-Subject"], " "), "hunter22") {
		t.Errorf("%+v", got)
	}
}

// The response headers that the guard sets come from the guard only.
func TestHeadersOfAnswers(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "https://evil.example.com")
		h.Set("Link", "</early>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", "X-Secret")
		h.Add("WWW-Authenticate", "Basic realm=upstream")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("Authentication-Info", "a=b")
		h.Set("Set-Cookie", "a=b")
		h.Set("Alt-Svc", "h3=\":9000\"")
		h.Set("X-Answer", "1")
		h.Set("Trailer", "X-Late")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no")
		h.Set("X-Late", "1")
		h.Set(http.TrailerPrefix+"Access-Control-Allow-Origin", "https://evil.example.com")
	}))
	t.Cleanup(up.Close)
	g := newGate(t, up.URL)
	early := 0
	r := g.request(t, "POST", "/mcp", "{}")
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }}))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "no" || res.StatusCode != http.StatusForbidden || res.Header.Get("X-Answer") != "1" || early != 0 || len(res.Trailer) != 0 {
		t.Errorf("%s %q %v, %d answers before, trailers %v", res.Status, body, err, early, res.Trailer)
	}
	for _, name := range []string{"Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Set-Cookie", "Alt-Svc", "Access-Control-Allow-Credentials", "Trailer", "Link"} {
		if name != "Link" && res.Header[name] != nil {
			t.Errorf("%s: %q", name, res.Header[name])
		}
	}
	if got := res.Header["Access-Control-Allow-Origin"]; !slices.Equal(got, []string{"*"}) {
		t.Errorf("Access-Control-Allow-Origin: %q", got)
	}
	if got := res.Header["Access-Control-Expose-Headers"]; len(got) != 1 || !strings.Contains(got[0], "WWW-Authenticate") || strings.Contains(got[0], "X-Secret") {
		t.Errorf("Access-Control-Expose-Headers: %q", got)
	}
}
