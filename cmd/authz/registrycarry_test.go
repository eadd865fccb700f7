package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/redistest"
)

// One process is authorization server and registry: over one store, on one listener, where both
// answer as they do alone.
func TestServeCarriesRegistry(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(20)
	meta := save(t, "meta.yaml", "ip.127-0-0-1/8081-mcp:\n  stars: 4\n")
	config := save(t, "gatehouse.yaml", `
registry:
  upstream: `+upstream.URL()+`
  title: Our servers
  meta-key: com.example.registry/catalogue
  meta-file: `+meta+`
  servers:
    - url: https://notes.example.com/mcp
`)
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", config, "--registry-at", "/")
	base, admin := r.shown("catalogue"), "http://"+r.shown("admin on")
	if base != r.shown("issuer")+"/" {
		t.Errorf("the catalogue is at %s", base)
	}
	for path, want := range map[string]string{
		"v0.1/servers/ip.127-0-0-1%2F8081-mcp/versions/latest": `"com.example.registry/catalogue":{"stars":4}`, // the demo resource
		"v0/servers/com.example.notes%2Fmcp/versions":          `"https://notes.example.com/mcp"`,
		"":                                       "Our servers",
		"servers/com.example.notes/mcp":          "https://notes.example.com/mcp",
		"v0.1/nothing":                           "application/problem+json",
		".well-known/oauth-authorization-server": `"token_endpoint"`,
		"healthz":                                "ok",
		"authorize":                              "HTTP/1.1 400",
		"nothing":                                "HTTP/1.1 404",
	} {
		if _, body := bearing(t, base+path, ""); !strings.Contains(body, want) {
			t.Errorf("/%s: %s", path, body)
		}
	}
	eventually(t, "the upstream is read", func() bool {
		_, body := get(t, http.DefaultClient, admin+"/metrics")
		return strings.Contains(body, "\ngatehouse_registry_versions{state=\"listed\"} 22\n") && strings.Contains(body, "\ngatehouse_registry_sync_running 0\n")
	})
	for path, want := range map[string]string{"/readyz": "ok", "/livez": "ok", "/status": upstream.URL()} {
		if status, body := get(t, http.DefaultClient, admin+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status := r.ended(t); status != exitDone {
		t.Errorf("exit status %d\n%s", status, r.stderr.String())
	}
}

// A protected registry that a server carries accepts the tokens of that server.
func TestServeCarriesPrivateRegistry(t *testing.T) {
	address := redistest.FreeAddress(t)
	issuer := "http://" + address
	resource := issuer + "/catalogue"
	people := openRecordsOf(t, issuer, miniredis.RunT(t), testKey(1))
	config := save(t, "gatehouse.yaml", `
resources:
  - uri: https://notes.example.com/mcp
    scopes:
      notes:read: Read your notes
  - uri: `+resource+`
    scopes:
      mcp-registry:read: Read the catalogue
registry-at: /catalogue/
registry:
  resource: `+resource+`
`)
	r := start(t, people.environ(testKey(1)), "--dev", "--listen", address, "--config", config)
	demo, err := people.store.User(t.Context(), demoPerson)
	if err != nil {
		t.Fatal(err)
	}
	people.client("host", "Host")
	token := func(resource, scope string) string {
		g := people.active(demo, "host", func(n *storage.NewGrant) { n.Resources, n.Scopes = []string{resource}, []string{scope} })
		first, err := people.store.RefreshTokenOf(g, 0)
		if err != nil {
			t.Fatal(err)
		}
		access, _ := r.refresh(t, "host", first)
		return access
	}
	list := r.shown("catalogue") + "v0.1/servers"
	for _, tt := range []struct {
		name, url, token string
		status           int
		want             string
	}{
		{"no token", list, "", 401, "resource_metadata=\"" + issuer + "/.well-known/oauth-protected-resource/catalogue\""},
		{"metadata", issuer + "/.well-known/oauth-protected-resource/catalogue", "", 200, issuer},
		{"a token for it", list, token(resource, registryScope), 200, `"com.example.notes/mcp"`},
		{"a token for something else", list, token("https://notes.example.com/mcp", "notes:read"), 401, `error="invalid_token"`},
		{"the server itself", issuer + "/jwks.json", "", 200, `"keys"`},
		{"the root", issuer + "/v0.1/servers", "", 404, ""},
	} {
		response, body := bearing(t, tt.url, tt.token)
		if response.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d, want %d and %s:\n%s", tt.name, response.StatusCode, tt.status, tt.want, body)
		}
		if strings.Contains(body, "127-0-0-1") { // the registry does not list itself
			t.Errorf("%s: %s", tt.name, body)
		}
	}
}

// Icons are fetched from public addresses only, not from this machine.
func TestRegistryFetchesNoIconsFromHere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	servers := save(t, "servers.yaml", "servers:\n  - url: https://notes.example.com/mcp\n    icon: https://"+listener.Addr().String()+"/icon.png\n"+
		"  - url: https://"+listener.Addr().String()+"/mcp\n    icon: https://"+listener.Addr().String()+"/icon.png\n")
	r := startRegistry(t, nil, "--servers-file", servers)
	_, page := get(t, http.DefaultClient, r.shown("pages"))
	if strings.Contains(page, "<img") || !strings.Contains(page, "com.example.notes/mcp") {
		t.Errorf("%s", page)
	}
	_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(300 * time.Millisecond))
	if conn, err := listener.Accept(); err == nil {
		_ = conn.Close()
		t.Error("an icon was asked for on this machine")
	}
}

// While the store is down, metrics of the catalogue are missing instead of old.
func TestCatalogueMetricsWithoutStore(t *testing.T) {
	redis := miniredis.RunT(t)
	servers := save(t, "servers.yaml", "servers:\n  - url: https://notes.example.com/mcp\n")
	r := startRegistry(t, nil, "--store", "redis://"+redis.Addr(), "--servers-file", servers, "--admin-listen", "127.0.0.1:0")
	metrics := func() string {
		response, err := http.Get("http://" + r.shown("admin on") + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %v", response.Status, err)
		}
		return string(text)
	}
	for _, line := range []string{
		"gatehouse_registry_up 1", "gatehouse_registry_servers 1", "gatehouse_registry_own_servers 1", "gatehouse_registry_last_sync_timestamp_seconds 0",
		`gatehouse_registry_flagged_versions{flag="changed"} 0`, "gatehouse_registry_shrunken 0", "gatehouse_registry_sync_failures 0",
	} {
		if !strings.Contains(metrics(), "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	redis.SetError("LOADING")
	if text := metrics(); !strings.Contains(text, "\ngatehouse_registry_up 0\n") || strings.Contains(text, "gatehouse_registry_servers") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("%s", text)
	}
	redis.SetError("")
	if !strings.Contains(metrics(), "\ngatehouse_registry_up 1\n") {
		t.Error("it is not up again")
	}
}
