package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware/middlewaretest"
)

// calledTool is the status and the challenge for a call of a tool.
func calledTool(t *testing.T, r *running, resource, token, tool string) (int, string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", resource, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.URL.Scheme, req.URL.Host = req.URL.Host, "http", r.shown("listening on")
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("WWW-Authenticate")
}

// Roles count as scopes for the tools of the resource whose issuer says so. A scope that a client
// can ask for is in the challenge, and one that only a role gives is not, wherever both meet.
func TestGatewayRolesToolsAndChallenges(t *testing.T) {
	issuer, upstream := middlewaretest.NewIssuer(t), echo(t)
	entry := func(resource, rules string) string {
		return "  - resource: " + resource + "\n    upstream: " + upstream + "\n    issuers:\n      - url: " + issuer.URL() + "\n" + rules +
			"    scopes:\n      tools:\n        list_notes: notes:read\n        add_note: notes:write\n        move_note: notes:read notes:write\n        share_note: notes:share\n"
	}
	const rules = "        scope-map:\n          - claim: [realm_access, roles]\n            value: editor\n            scopes: notes:write\n"
	r := startSeveral(t, "resources:\n"+entry(notesURL, rules)+entry(filesURL, ""))
	mint := func(scope string, roles ...string) string {
		return issuer.Mint(middlewaretest.Claims{"aud": []string{notesURL, filesURL}, "scope": scope, "realm_access": map[string]any{"roles": roles}})
	}
	editor, reader, claimed := mint("notes:read", "editor"), mint("notes:read"), mint("notes:read notes:write")
	for _, tt := range []struct {
		what, at, token, tool string
		status                int
		challenge             string // the scopes in it; empty without
	}{
		{"the role", notesURL, editor, "add_note", 200, ""},
		{"the role and a scope", notesURL, editor, "move_note", 200, ""},
		{"no role", notesURL, reader, "add_note", 403, ""},
		{"a scope without the role", notesURL, claimed, "add_note", 403, ""},
		{"a scope without the role, beside another", notesURL, claimed, "move_note", 403, ""},
		{"a scope that clients can ask for", notesURL, editor, "share_note", 403, "notes:share"},
		{"the role elsewhere", filesURL, editor, "add_note", 403, "notes:write"},
		{"the scope elsewhere", filesURL, claimed, "move_note", 200, ""},
	} {
		status, challenge := calledTool(t, r, tt.at, tt.token, tt.tool)
		_, scopes, _ := strings.Cut(challenge, `scope="`)
		scopes, _, _ = strings.Cut(scopes, `"`)
		if status != tt.status || !strings.Contains(scopes, tt.challenge) || tt.challenge == "" && challenge != "" {
			t.Errorf("%s: %d %s, want %d and %q", tt.what, status, challenge, tt.status, tt.challenge)
		}
		if tt.at == notesURL && strings.Contains(scopes, "notes:write") {
			t.Errorf("%s: the challenge asks for a role: %s", tt.what, challenge)
		}
	}
}

// Each of several resources has series of its own, and what happens at one is not counted at another.
func TestGatewayResourcesMetrics(t *testing.T) {
	issuer, admin, key := middlewaretest.NewIssuer(t), adminAddress(t), middlewaretest.NewProofKey(t, jose.ES256)
	r := startSeveral(t, ofFour(t, issuer, echo(t)), "--admin-listen", admin)
	token := issuer.Mint(middlewaretest.Claims{"aud": []string{notesURL, filesURL}})
	proven := issuer.Mint(middlewaretest.Claims{"aud": reportsURL, "cnf": key.Confirmation()})
	proof := key.Prove("POST", reportsURL, proven, nil)
	for _, ask := range []struct{ at, authorization, proof string }{
		{filesURL, "Bearer " + token, ""}, {filesURL, "Bearer " + token, ""}, {notesURL, "Bearer " + token, ""},
		{reportsURL, "DPoP " + proven, proof}, {reportsURL, "DPoP " + proven, proof}, {"https://unknown.example.com/mcp", "Bearer " + token, ""},
	} {
		fields := []string{"Authorization", ask.authorization}
		if ask.proof != "" {
			fields = append(fields, "DPoP", ask.proof)
		}
		at(t, r, "POST", ask.at, "", fields...)
	}
	text := scrape(t, admin)
	series := func(resource, status, code string) string {
		return `gatehouse_gateway_decisions_total{code="` + code + `",resource="` + resource + `",status="` + status + `"}`
	}
	for name, want := range map[string]int{
		series(filesURL, "", ""): 2, series(filesURL, "401", "invalid_token"): 0, series(notesURL, "401", "invalid_token"): 1, series(notesURL, "", ""): 0,
		series(reportsURL, "", ""): 1, series(reportsURL, "401", "invalid_dpop_proof"): 1, series(plainURL, "", ""): 0, series(plainURL, "401", "invalid_token"): 0,
		`gatehouse_gateway_upstream_answers_total{outcome="ok",resource="` + reportsURL + `"}`: 1,
		`gatehouse_gateway_upstream_answers_total{outcome="ok",resource="` + filesURL + `"}`:   2,
		`gatehouse_gateway_issuer_requests_total{kind="documents",outcome="ok"}`:               2, // metadata and keys, once for all
	} {
		if got := valueOf(t, text, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if strings.Contains(text, "unknown.example.com") {
		t.Error("a client makes a series")
	}
}

// A new client certificate for the server is used by new connections without a restart, and one that
// does not fit its key changes nothing.
func TestGatewayUpstreamCertificateIsReadAgain(t *testing.T) {
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"header": http.Header{"Certificate": {hex.EncodeToString(sum[:])}}})
	}))
	upstream.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	issuer, dir := middlewaretest.NewIssuer(t), t.TempDir()
	writeCertificate(t, dir)
	write(t, dir, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})))
	r := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", upstream.URL+"/mcp", "--upstream-ca", dir+"/ca.pem",
		"--upstream-cert", dir+"/cert.pem", "--upstream-key", dir+"/key.pem")
	token := issuer.Mint(middlewaretest.Claims{"aud": guarded})
	shown := func() string {
		status, _, got := at(t, r, "POST", guarded, token)
		if status != 200 {
			t.Fatalf("%d %s", status, r.stderr.String())
		}
		return got.Get("Certificate")
	}
	first := shown()
	writeCertificate(t, dir)
	eventually(t, "the server sees the new certificate", func() bool { return shown() != first })
	second := shown()
	write(t, dir, "key.pem", pemOf(t, newP256(t)))
	eventually(t, "a mistake is logged", func() bool {
		return strings.Contains(r.stderr.String(), "upstream-cert has changed and cannot be used")
	})
	if got := shown(); got != second {
		t.Error("a key of another certificate changes something")
	}
	write(t, dir, "ca.pem", "no certificate") // read at the start alone
	if got := shown(); got != second {
		t.Error("the authorities are read again")
	}
}
