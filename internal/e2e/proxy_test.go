//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/webtest"
	"gatehouse.example/storage/redis/redistest"
)

// startTinyproxy runs a real proxy that requires a password, opens tunnels to a few hosts only,
// and reaches the web through another proxy.
func startTinyproxy(t *testing.T, beyond *webtest.Proxy, hosts ...string) string {
	t.Helper()
	binary, err := exec.LookPath("tinyproxy")
	if err != nil {
		t.Fatal("install tinyproxy, or run scripts/test, which does")
	}
	address := redistest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	filter, config := filepath.Join(dir, "filter"), filepath.Join(dir, "tinyproxy.conf")
	for name, text := range map[string]string{
		filter: "^(" + strings.ReplaceAll(strings.Join(hosts, "|"), ".", `\.`) + ")$\n",
		config: fmt.Sprintf("Port %s\nListen 127.0.0.1\nTimeout 30\nAllow 127.0.0.1\nBasicAuth gate hunter22\nUpstream http %s\nFilter %q\nFilterExtended On\nFilterDefaultDeny Yes\n",
			port, strings.TrimPrefix(beyond.URL, "http://"), filter),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "-d", "-c", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestBehindARealProxy: behind a proxy of another project, a client with a document signs in and
// refreshes, with a password for the proxy and by host name; without the password, or where the
// proxy refuses the server, documents are not offered, and the same person connects with a client
// that registers.
func TestBehindARealProxy(t *testing.T) {
	t.Parallel()
	web := webtest.New(t)
	address := startTinyproxy(t, web.Proxy(), "lookout.example.com", "client.example.com")
	id, refused := web.URL("client.example.com", "/client.json"), web.URL("other.example.com", "/client.json")
	for _, address := range []string{id, refused} {
		web.Document(address, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":[%q]}`, address, flowRedirect))
	}
	for _, tt := range []struct {
		name, proxy, lookout, logged string
		offered                      bool
	}{
		{"with the password", "http://gate:hunter22@" + address, "lookout.example.com", "", true},
		{"with another password", "http://gate:hunter23@" + address, "lookout.example.com", "answers 401", false},
		{"a host that is filtered", "http://gate:hunter22@" + address, "filtered.example.com", "answers 403", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := startAuthz(t, []string{"AUTHZ_PROXY=" + tt.proxy, "SSL_CERT_FILE=" + web.RootFile(), "AUTHZ_EGRESS_CHECK=" + tt.lookout, "AUTHZ_PROXY_BY_NAME=true"})
			resp, err := http.Get(server.URL + "/.well-known/oauth-authorization-server")
			if err != nil {
				t.Fatal(err)
			}
			_, document := readJSON(t, resp)
			if offered := document["client_id_metadata_document_supported"] == true; offered != tt.offered {
				t.Fatalf("offered %v: %s", offered, server.Stderr())
			}
			server.awaitOutput(t, tt.logged)
			if strings.Contains(server.Stderr()+server.Stdout(), "hunter2") {
				t.Errorf("log: %s%s", server.Stdout(), server.Stderr())
			}
			if !tt.offered {
				newFlow(t, server, devResource).tokens(t)
				return
			}
			f := flowOf(t, server, id, devResource)
			status, answer := f.refresh(t, f.tokens(t)["refresh_token"].(string))
			if status != http.StatusOK {
				t.Errorf("refresh: %d %v", status, answer)
			}
			page, err := http.Get(server.URL + "/authorize?" + url.Values{"client_id": {refused}, "redirect_uri": {flowRedirect}}.Encode())
			if err != nil {
				t.Fatal(err)
			}
			page.Body.Close()
			if page.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("a host that is filtered: %s", page.Status)
			}
			server.awaitOutput(t, "answers 403 to CONNECT other.example.com")
		})
	}
}
