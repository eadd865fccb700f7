package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// startWith runs a command line of "authz gateway" and waits until it is ready.
func startWith(t *testing.T, grace time.Duration, environ []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, status: make(chan int, 1)}
	p := &program{env: settings.NewEnvironment(environ), stdin: strings.NewReader(""), stdout: &r.stdout, stderr: &r.stderr, rand: rand.Reader, grace: grace}
	go func() { r.status <- p.run(ctx, args) }()
	t.Cleanup(stop)
	eventually(t, "the gateway is ready", func() bool {
		select {
		case status := <-r.status:
			t.Fatalf("exit status %d before it was ready:\n%s", status, r.stderr.String())
		default:
		}
		return strings.Contains(r.stdout.String(), "claude mcp add") || strings.Contains(r.stdout.String(), "oauth-protected-resource")
	})
	return r
}

// startSeveral runs "authz gateway" with a file and waits until it is ready.
func startSeveral(t *testing.T, file string, args ...string) *running {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, filepath.Dir(name), "gateway.yaml", file)
	return startWith(t, deadline, nil, append([]string{"gateway", "--listen", "127.0.0.1:0", "--config", name}, args...)...)
}

// at is the response to a request to a resource through a gateway, with the content of the answer
// of echo.
func at(t *testing.T, r *running, method, resource, token string, fields ...string) (int, http.Header, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, resource, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.URL.Scheme, req.URL.Host = req.URL.Host, "http", r.shown("listening on")
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct{ Header http.Header }
	body, _ := io.ReadAll(res.Body)
	_ = json.Unmarshal(body, &got) // a refusal has no header
	return res.StatusCode, res.Header, got.Header
}

// One gateway guards two resources of one issuer. Tokens and sessions of one are of no use at the
// other, each server gets its own credentials, and a changed file takes effect.
func TestGatewayGuardsSeveral(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	dir := t.TempDir()
	write(t, dir, "headers", "Authorization: Bearer hunter22-1\nX-Door: hunter22-2\n")
	write(t, dir, "key.pem", pemOf(t, newP256(t)))
	const notes, files = "https://notes.example.com/mcp", "https://files.example.com/mcp"
	r := startSeveral(t, `
identity: assertion
assertion-key-file: `+dir+`/key.pem
resources:
  - resource: `+notes+`
    upstream: `+echo(t)+`/notes
    upstream_headers_file: `+dir+`/headers
    issuers: [`+issuer.URL()+`]
    scopes:
      tools:
        list_notes: notes:read
  - resource: `+files+`
    upstream: `+echo(t)+`/files
    issuers:
      - url: `+issuer.URL()+`
        audiences: [files]
    identity: headers
`)
	for _, want := range []string{notes, files, "/notes", "/files", issuer.URL()} {
		if !strings.Contains(r.stdout.String(), want) {
			t.Errorf("%s is not said:\n%s", want, r.stdout.String())
		}
	}
	token := map[string]string{notes: issuer.Mint(middlewaretest.Claims{"aud": notes, "scope": "notes:read"}), files: issuer.Mint(middlewaretest.Claims{"aud": "files"})}
	sessions := map[string]string{}
	for resource, door := range map[string]string{notes: "hunter22-2", files: ""} {
		status, answer, got := at(t, r, "POST", resource, token[resource])
		if status != 200 || got.Get("X-Door") != door || (got.Get("Gatehouse-Assertion") != "") != (resource == notes) || (got.Get("Gatehouse-Subject") != "") != (resource == files) {
			t.Errorf("%s: %d %v", resource, status, got)
		}
		sessions[resource] = answer.Get("Mcp-Session-Id")
	}
	if status, _, _ := at(t, r, "POST", notes, token[notes], "Mcp-Session-Id", sessions[notes]); status != 200 {
		t.Errorf("its own session: %d", status)
	}
	if status, _, _ := at(t, r, "POST", files, token[files], "Mcp-Session-Id", sessions[notes]); status != 404 {
		t.Errorf("the session of another resource: %d", status)
	}
	if status, _, _ := at(t, r, "POST", files, token[notes]); status != 401 {
		t.Errorf("the token of another resource: %d", status)
	}
	if status, _, _ := at(t, r, "POST", "https://other.example.com/mcp", token[notes]); status != 421 {
		t.Errorf("another host: %d", status)
	}

	first := keyIDs(t, r)
	write(t, dir, "headers", "X-Door: hunter22-3\n")
	write(t, dir, "key.pem", pemOf(t, newP256(t)))
	eventually(t, "the changed files are read", func() bool {
		_, _, got := at(t, r, "POST", notes, token[notes])
		return got.Get("X-Door") == "hunter22-3" && got.Get("Authorization") == "" && len(keyIDs(t, r)) == 2
	})
	if second := keyIDs(t, r); second[1] != first[0] {
		t.Errorf("%q, then %q: the new key is the first", first, second)
	}
	write(t, dir, "headers", "hunter22-4\n")
	eventually(t, "a mistake is logged", func() bool {
		return strings.Contains(r.stderr.String(), "upstream-headers-file has changed and cannot be used")
	})
	if _, _, got := at(t, r, "POST", notes, token[notes]); got.Get("X-Door") != "hunter22-3" {
		t.Errorf("after a mistake: %v", got)
	}
	if said := r.stdout.String() + r.stderr.String(); strings.Contains(said, "hunter22") {
		t.Errorf("a secret is printed:\n%s", said)
	}
}

// keyIDs returns the ids of the published keys for assertions.
func keyIDs(t *testing.T, r *running) (ids []string) {
	t.Helper()
	_, _, body := sent(t, r, "GET", "/jwks.json", "", "")
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal([]byte(body), &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range set.Keys {
		ids = append(ids, key.Kid)
	}
	return ids
}

func newP256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pemOf returns private keys in PEM, one after another.
func pemOf(t *testing.T, keys ...*ecdsa.PrivateKey) string {
	t.Helper()
	var out strings.Builder
	for _, key := range keys {
		data, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		_ = pem.Encode(&out, &pem.Block{Type: "EC PRIVATE KEY", Bytes: data})
	}
	return out.String()
}

// The example with every key is a good configuration.
func TestGatewayExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	issuer := middlewaretest.NewIssuer(t)
	writeCertificate(t, dir)
	for name, content := range map[string]string{
		"session-key": testKey(1), "assertion-keys.pem": pemOf(t, newP256(t), newP256(t)), "notes": "hunter22", "reports-headers": "Authorization: Bearer hunter22",
		"partner-keys.json": fetched(t, issuer.URL()+"/jwks.json"),
	} {
		write(t, dir, name, content)
	}
	file := strings.NewReplacer("/run/secrets/gateway.pem", dir+"/cert.pem", "/run/secrets/gateway.key", dir+"/key.pem", "/run/secrets/internal-ca.pem", dir+"/cert.pem",
		"/run/secrets", dir).Replace(string(text))
	r := startSeveral(t, file)
	if got := strings.Count(r.stdout.String(), "connect to"); got != 4 || strings.Contains(r.stdout.String()+r.stderr.String(), "hunter22") || strings.Contains(r.stderr.String(), "level=WARN") {
		t.Errorf("%s%s", r.stdout.String(), r.stderr.String())
	}
	if ids := keyIDs(t, r); len(ids) != 2 {
		t.Errorf("%q", ids)
	}
	for _, key := range append(append([]string{}, issuerKeys...), "authorization-servers", "assertion-binding", "upstream-server-name") {
		if key != "keys-url" && key != "insecure-no-audience" && !strings.Contains(string(text), key+":") {
			t.Errorf("the example does not show %s", key)
		}
	}
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// planned reads a file of the gateway and returns its mistakes.
func planned(t *testing.T, text string, change ...func(*gatewaySettings)) (*gatewayPlan, []string, error) {
	t.Helper()
	s := gatewaySettings{Listen: "127.0.0.1:0", AdminListen: off, Identity: "headers", MaxBody: 1 << 20, MaxToken: defaultMaxToken, LogFormat: "text"}
	s.ACMEDirectory, s.ACMETLSALPN = letsEncrypt, true
	s.MaxConnections, s.DPoPWindow = 1, settings.Duration(5*time.Minute)
	for _, c := range change {
		c(&s)
	}
	d, err := settings.ReadDocument("gateway.yaml", []byte(text), []string{resourceList})
	if err != nil {
		t.Fatal(err)
	}
	return s.plan(d, rand.Reader)
}

const leastResource = "resources:\n  - resource: https://notes.example.com/mcp\n    upstream: http://127.0.0.1:9000\n    issuers: [https://auth.example.com]\n"

// Every mistake in the list is reported with its line and the nearest valid key.
func TestGatewayResourcesMistakes(t *testing.T) {
	if _, _, err := planned(t, leastResource); err != nil {
		t.Fatal(err)
	}
	issuer := "resources:\n  - resource: https://notes.example.com/mcp\n    upstream: http://127.0.0.1:9000\n    issuers:\n      - url: https://auth.example.com\n"
	for text, want := range map[string]string{
		"resources:\n":                                 "gateway.yaml:1: resources must be a list",
		"resources: []\n":                              "gateway.yaml:1: resources has no value",
		"resources: [a]\n":                             "gateway.yaml:1: a resource must be keys with values",
		"resources:\n  - upstreem: a\n":                `gateway.yaml:2: unknown key "upstreem": the nearest valid key is "upstream"`,
		"resources:\n  - upstream: http://127.0.0.1\n": `gateway.yaml:2: a resource needs the key "resource"`,
		leastResource + "    max-body: much\n":         "gateway.yaml:5: max-body must be a number of more than 0",
		leastResource + "    identity: token\n":        `gateway.yaml:2: resource https://notes.example.com/mcp: identity "token" is not known`,
		leastResource + "    scopes: {tool: x}\n":      `gateway.yaml:5: unknown key "tool": the nearest valid key is "tools"`,
		leastResource + "    scopes:\n      tools:\n        a: offline_access\n":                              "gateway.yaml:7: a: \"offline_access\" is not a scope",
		leastResource + "    scopes: nowhere.yaml\n":                                                          "gateway.yaml:2: resource https://notes.example.com/mcp: scopes: open nowhere.yaml",
		leastResource + "    upstream-headers-file: nowhere\n":                                                "gateway.yaml:2: resource https://notes.example.com/mcp: upstream-headers-file: open nowhere",
		leastResource + "    upstream-cert: cert.pem\n":                                                       "upstream-cert and upstream-key belong together",
		leastResource + "    upstream-ca: nowhere\n":                                                          "upstream-ca: open nowhere",
		leastResource + "    upstream-server-name: a.example.com\n":                                           "there are settings of TLS, and the upstream is not https",
		leastResource + "    assertion-binding: request\n":                                                    "the identity must be an assertion",
		leastResource + "    pass-headers: Authorization\n":                                                   `header "Authorization" cannot be passed on`,
		issuer + "        profil: okta\n":                                                                     `gateway.yaml:6: unknown key "profil": the nearest valid key is "profile"`,
		issuer + "        profile: otka\n":                                                                    `gateway.yaml:6: profile "otka" is not known: it is one of auth0, cognito, entra,`,
		issuer + "        leeway: 5\n":                                                                        "gateway.yaml:6: leeway: \"5\" is not a duration",
		issuer + "        leeway: 0s\n":                                                                       "gateway.yaml:6: leeway 0s is not a time: it must be more than 0",
		issuer + "        max-stale: -1h\n":                                                                   "gateway.yaml:6: max-stale -1h is below 0; 0 is the time that the issuer allows",
		issuer + "        introspection: {fresh: 0, client-secret: hunter22}\n":                               "gateway.yaml:6: fresh 0s is not a time: it must be more than 0",
		issuer + "        leeway: 5m\n":                                                                       "the leeway for clocks is more than 1m0s",
		issuer + "        algorithms: HS256\n":                                                                `"HS256" is not an accepted algorithm`,
		issuer + "        insecure-no-audience: true\n":                                                       "InsecureNoAudience is for the profile",
		issuer + "        keys-file: nowhere\n":                                                               "gateway.yaml:6: keys-file: open nowhere",
		issuer + "        keys-file: a\n        keys-url: https://b.example\n":                                "keys-url and keys-file are both set",
		issuer + "        introspection: {fresh: 5s}\n":                                                       "gateway.yaml:6: introspection needs client_secret or client_secret_file",
		issuer + "      - profile: okta\n":                                                                    `gateway.yaml:6: an issuer needs the key "url"`,
		issuer + "      - https://auth.example.com\n":                                                         "https://auth.example.com: it occurs twice",
		leastResource + strings.TrimPrefix(strings.ReplaceAll(leastResource, "/mcp", "/MCP"), "resources:\n"): "the resources https://notes.example.com/mcp and https://notes.example.com/MCP can be taken for each other",
	} {
		if _, _, err := planned(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	for says, change := range map[string]func(*gatewaySettings){
		"resource is set, and the file lists resources":              func(s *gatewaySettings) { s.Resource = guarded },
		"upstream is set, and the file lists resources":              func(s *gatewaySettings) { s.Upstream = "http://127.0.0.1:9" },
		"issuer is set, and the file lists resources":                func(s *gatewaySettings) { s.Issuer = []string{"https://auth.example.com"} },
		"upstream-headers-file is set, and the file lists resources": func(s *gatewaySettings) { s.UpstreamHeadersFile = "x" },
		"introspection-secret is set, and the file lists resources":  func(s *gatewaySettings) { s.IntrospectionSecret = "x" },
		"upstream is set, and verify-only forwards nothing":          func(s *gatewaySettings) { s.VerifyOnly = true },
	} {
		if _, _, err := planned(t, leastResource, change); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// What is loosened for one resource is a warning that names it, and holds for it alone.
func TestGatewayResourcesDoubts(t *testing.T) {
	plan, doubts, err := planned(t, leastResource+`
  - resource: https://files.example.com/mcp
    upstream: http://files.internal.example.com
    pass-headers: X-Api-Key
    issuers:
      - url: https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_example
        profile: cognito
        audiences: client-1
        insecure-no-audience: true
`)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(doubts, "\n")
	for _, want := range []string{"insecure-no-audience", "clients can set X-Api-Key", "the upstream is http on another machine"} {
		if !strings.Contains(text, "resource https://files.example.com/mcp: "+want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	first, second := plan.configs[0], plan.configs[1]
	if strings.Count(text, "\n") != 2 || len(first.PassHeaders) != 0 || first.Guard.Issuers[0].InsecureNoAudience || second.Guard.Issuers[0].Profile != middleware.Cognito {
		t.Errorf("%s\n%+v", text, plan.configs)
	}
}

// Resources of one issuer share its keys, and a resource with other rules for it does not.
func TestGatewayResourcesShareKeys(t *testing.T) {
	issuer, other := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	entry := func(name, more string) string {
		return "  - resource: https://" + name + ".example.com/mcp\n    upstream: http://127.0.0.1:9\n    issuers:\n      - url: " + issuer.URL() + "\n" + more
	}
	plan, _, err := planned(t, "resources:\n"+entry("a", "")+entry("b", "        audiences: b\n")+entry("c", "")+entry("d", "        leeway: 1s\n")+
		entry("e", "        audiences: e\n      - url: "+other.URL()+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := plan.build(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name, audience string) int {
		r := httptest.NewRequest("GET", "https://"+name+".example.com/mcp", nil)
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": audience}))
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	for _, tt := range []struct {
		name, audience string
		want, fetched  int
	}{
		{"a", "https://a.example.com/mcp", 502, 1}, {"b", "b", 502, 1}, {"c", "https://c.example.com/mcp", 502, 1}, {"a", "b", 401, 1}, {"c", "b", 401, 1},
		{"d", "https://d.example.com/mcp", 502, 2},
	} {
		if got := ask(tt.name, tt.audience); got != tt.want || issuer.KeyRequests() != tt.fetched {
			t.Errorf("%s for %s: %d after %d fetches of keys, want %d after %d", tt.audience, tt.name, got, issuer.KeyRequests(), tt.want, tt.fetched)
		}
	}
	if got := ask("e", "e"); got != 502 {
		t.Errorf("an audience of one of two issuers: %d", got)
	}
	issuer = other // the audience is for the tokens of the first alone
	if got := ask("e", "e"); got != 401 {
		t.Errorf("the audience of another issuer: %d", got)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest("GET", "https://e.example.com/.well-known/oauth-protected-resource/mcp", nil))
	if !strings.Contains(w.Body.String(), issuer.URL()+`"]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
