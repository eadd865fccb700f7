package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// diagnosed runs the verb and returns the exit status and what it printed.
func diagnosed(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), append([]string{"doctor"}, args...), nil, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// patient is a server with a fault of each severity, or, at /well, one that lacks nothing worse
// than a warning.
func patient(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	document := func(path string, members map[string]any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(members)
		})
	}
	for _, path := range []string{"/well", "/ill"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+"/.well-known/oauth-protected-resource"+path+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	}
	issuer := map[string]any{
		"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "client_id_metadata_document_supported": true,
	}
	document("/.well-known/oauth-authorization-server", issuer)
	document("/.well-known/oauth-protected-resource/well", map[string]any{"resource": server.URL + "/well", "authorization_servers": []string{server.URL}})
	document("/.well-known/oauth-protected-resource/ill", map[string]any{"resource": server.URL, "authorization_servers": []string{server.URL}})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
	})
	return server.URL
}

// TestDoctor checks the exit status and the JSON that scripts rely on.
func TestDoctor(t *testing.T) {
	at := patient(t)
	for _, c := range []struct {
		args string
		code int
	}{
		{at + "/well", exitDone},
		{at + "/ill", exitRefused},
		{"--server " + at, exitDone},
		{at + "/well --junit", exitDone},
		{at + "/ill --sarif", exitRefused},
		{at + "/well --token-file /nowhere", exitUsage},
		{at + "/well --token a --token-file b", exitUsage},
		{"--as codex --server " + at, exitUsage},
		{"--client-id known --server " + at, exitRefused}, // it has no authorization endpoint that answers
		{at + "/ill --as gemini-cli", exitRefused},
		{at + "/ill --as codex", exitDone},
		{at + "/ill --as nobody", exitUsage},
		{"--server " + at + " --as codex", exitUsage},
		{"--list", exitDone},
		{"", exitUsage},
		{at + "/well --server " + at, exitUsage},
		{at + "/well --json --sarif", exitUsage},
		{"http://127.0.0.1:1/mcp", exitUsage},
		{"notes", exitUsage},
	} {
		if code, stdout, stderr := diagnosed(t, strings.Fields(c.args)...); code != c.code || code == exitUsage && stdout != "" || code == exitDone && stderr != "" {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
	_, stdout, _ := diagnosed(t, at+"/ill", "--json")
	var report struct {
		Target   string
		Findings []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Target != at+"/ill" || len(report.Findings) == 0 {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, f := range report.Findings {
		for _, name := range []string{"id", "severity", "rule", "saw", "mend", "clients"} {
			if f[name] == nil {
				t.Errorf("%v has no %s", f["id"], name)
			}
		}
	}
	if !slices.Equal([]any{report.Findings[0]["id"], report.Findings[0]["severity"]}, []any{"resource-wider", "error"}) {
		t.Errorf("first: %v", report.Findings[0])
	}
}
