package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Several processes with one store, one issuer and the same keys are one server.
func TestProcessesShareAStore(t *testing.T) {
	redis := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_MASTER_KEYS=" + testKey(1), "AUTHZ_ISSUER=http://127.0.0.1:8080"}
	args := []string{"--dev", "--listen", "127.0.0.1:0"}
	first, second := start(t, environ, args...), start(t, environ, args...)
	third := start(t, append(environ, "AUTHZ_DEV_PASSWORD=horse-battery"), args...)

	if got := first.shown("sign in"); !strings.HasPrefix(got, "demo / ") {
		t.Errorf("the first says %q", got)
	}
	if got := second.shown("sign in"); !strings.Contains(got, "the password from an earlier start") {
		t.Errorf("the second says %q", got)
	}
	if got := third.shown("sign in"); got != "demo, with the password in AUTHZ_DEV_PASSWORD" {
		t.Errorf("the third says %q", got)
	}
	var sets []string
	for _, r := range []*running{first, second, third} {
		if r.shown("issuer") != "http://127.0.0.1:8080" {
			t.Errorf("issuer %q", r.shown("issuer"))
		}
		_, set := get(t, http.DefaultClient, "http://"+r.shown("listening on")+"/jwks.json")
		sets = append(sets, set)
	}
	if sets[0] != sets[1] || sets[1] != sets[2] || !strings.Contains(sets[0], `"kty"`) {
		t.Errorf("they publish different keys: %q", sets)
	}

	var out, complaints bytes.Buffer
	status := run(t.Context(), []string{"user", "ls"}, append(environ, "AUTHZ_ISSUER=http://127.0.0.1:8080"), strings.NewReader(""), &out, &complaints)
	if status != 0 || strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), "demo") {
		t.Errorf("user ls: %d %s %s", status, out.String(), complaints.String())
	}
}

func TestOtherKeysCannotOpenTheStore(t *testing.T) {
	redis := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_ISSUER=http://127.0.0.1:8080"}
	start(t, append(environ, "AUTHZ_MASTER_KEYS="+testKey(1)), "--dev", "--listen", "127.0.0.1:0")
	start(t, append(environ, "AUTHZ_MASTER_KEYS="+testKey(2)+","+testKey(1)), "--dev", "--listen", "127.0.0.1:0")
	for name, other := range map[string][]string{
		"another master key": append(environ, "AUTHZ_MASTER_KEYS="+testKey(3)),
		"another issuer":     {environ[0], "AUTHZ_ISSUER=http://127.0.0.1:8088", "AUTHZ_MASTER_KEYS=" + testKey(1)},
	} {
		var out, complaints bytes.Buffer
		status := run(t.Context(), []string{"serve", "--dev", "--listen", "127.0.0.1:0"}, other, nil, &out, &complaints)
		if status != 1 || !strings.Contains(complaints.String(), "give the master keys and the issuer that the store was used with") {
			t.Errorf("%s: exit status %d:\n%s", name, status, complaints.String())
		}
	}
}

// Without --dev all settings of a file are used, over TLS, and no secret is printed.
func TestServeFromFile(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	redis := miniredis.RunT(t)
	write(t, dir, "notes", "hunter22hunter22\n")
	write(t, dir, "gatehouse.yaml", `
issuer: https://auth.example.com
listen: 127.0.0.1:0
admin-listen: 127.0.0.1:0
store: redis://`+redis.Addr()+`
master-keys: `+testKey(1)+`
registration: closed
tls_cert: `+filepath.Join(dir, "cert.pem")+`
tls_key: `+filepath.Join(dir, "key.pem")+`
log-format: json
resources:
  - uri: https://notes.example.com/mcp
    name: Notes
    introspection:
      client_id: notes
      client_secret_file: `+filepath.Join(dir, "notes")+`
    scopes:
      notes:read: Read your notes
`)
	r := start(t, nil, "--config", filepath.Join(dir, "gatehouse.yaml"))
	out := r.stdout.String() + r.stderr.String()
	if strings.Contains(out, "  sign in  ") || strings.Contains(out, "introspect") || strings.Contains(out, "hunter") || strings.Contains(out, testKey(1)) {
		t.Errorf("a secret is printed:\n%s", out)
	}

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}}
	defer client.CloseIdleConnections()
	status, body := get(t, client, "https://"+r.shown("listening on")+"/.well-known/oauth-authorization-server")
	if status != 200 || !strings.Contains(body, `"issuer":"https://auth.example.com"`) || strings.Contains(body, "registration_endpoint") {
		t.Errorf("metadata: %d %s", status, body)
	}
	old := &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if c, err := tls.Dial("tcp", r.shown("listening on"), old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is accepted")
	}

	admin := "http://" + r.shown("admin on")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/": 404, "/metadata": 404} {
		if status, body := get(t, http.DefaultClient, admin+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	redis.SetError("LOADING the store is gone")
	if status, body := get(t, http.DefaultClient, admin+"/readyz"); status != 503 || body != "the store does not answer\n" {
		t.Errorf("/readyz without a store: %d %q", status, body)
	}
	if status, _ := get(t, http.DefaultClient, admin+"/livez"); status != 200 {
		t.Errorf("/livez without a store: %d", status)
	}
	redis.SetError("")
	if status, _ := get(t, http.DefaultClient, admin+"/readyz"); status != 200 {
		t.Errorf("/readyz with the store back: %d", status)
	}
	if status := r.ended(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if line, _, _ := strings.Cut(r.stderr.String(), "\n"); !json.Valid([]byte(line)) {
		t.Errorf("log-format json writes %q", line)
	}
}
