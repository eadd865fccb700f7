package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage/redis/redistest"
)

// startRegistry runs "authz registry serve" and waits until it is ready.
func startRegistry(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, status: make(chan int, 1)}
	go func() {
		r.status <- run(ctx, append([]string{"registry", "serve", "--listen", "127.0.0.1:0"}, args...), environ, strings.NewReader(""), &r.stdout, &r.stderr)
	}()
	t.Cleanup(stop)
	eventually(t, "the registry is ready", func() bool {
		select {
		case status := <-r.status:
			t.Fatalf("exit status %d before it was ready:\n%s", status, r.stderr.String())
		default:
		}
		return strings.Contains(r.stdout.String(), "programs")
	})
	return r
}

// list is a page of the catalogue in JSON.
type list struct {
	Servers []struct {
		Server struct{ Name, Version, Title, Description string }
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
}

func (r *running) catalogue(t *testing.T) (c list) {
	t.Helper()
	status, body := get(t, http.DefaultClient, r.shown("programs")+"?limit=100")
	if err := json.Unmarshal([]byte(body), &c); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v %s", status, err, body)
	}
	return c
}

// syncRegistry runs "authz registry sync" and expects an exit status.
func syncRegistry(t *testing.T, want int, environ []string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs lockedBuffer
	if status := run(t.Context(), append([]string{"registry", "sync"}, args...), environ, strings.NewReader(""), &out, &errs); status != want {
		t.Fatalf("exit status %d, want %d\n%s%s", status, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func save(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A registry needs no setting but its address: the mirror runs while it serves, files are read
// again when they change, and it exits with status 0.
func TestRegistryServe(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(120)
	const key = "com.example.registry/catalogue"
	servers := save(t, "servers.yaml", "servers:\n  - url: https://notes.example.com/mcp\n    title: Notes\n")
	meta := save(t, "meta.yaml", "com.example.notes/mcp:\n  stars: 4\n  tags: [ours]\n")
	r := startRegistry(t, []string{"AUTHZ_META_KEY=" + key}, "--upstream", upstream.URL(), "--servers-file", servers, "--meta-file", meta,
		"--admin-listen", "127.0.0.1:0", "--title", "Our servers")
	if c := r.catalogue(t); !contains(c, "com.example.notes/mcp") { // at once, whatever the upstream does
		t.Errorf("%+v", c)
	}
	admin := "http://" + r.shown("admin on")
	var s mirror.Status
	eventually(t, "the upstream is read", func() bool {
		status, body := get(t, http.DefaultClient, admin+"/status")
		if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v %s", status, err, body)
		}
		return s.LastFull != nil
	})
	if s.Rows != 121 || s.Own != 1 || s.Upstream != upstream.URL() || s.LastFull.Items != 120 || !s.LastFull.Judged {
		t.Errorf("%+v", s)
	}
	said := func() string {
		for _, item := range r.catalogue(t).Servers {
			if item.Server.Name == "com.example.notes/mcp" {
				return string(item.Meta[key])
			}
		}
		return ""
	}
	if got := said(); got != `{"stars":4,"tags":["ours"]}` {
		t.Errorf("%s is said under our key", got)
	}
	rewrite(t, meta, "com.example.notes/mcp:\n  stars: 5\n")
	eventually(t, "the meta file is read again", func() bool { return said() == `{"stars":5}` })
	rewrite(t, servers, "servers:\n  - url: https://files.example.com/mcp\n")
	eventually(t, "the servers file is read again", func() bool {
		c := r.catalogue(t)
		return contains(c, "com.example.files/mcp") && !contains(c, "com.example.notes/mcp")
	})
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/elsewhere": 404} {
		if status, _ := get(t, http.DefaultClient, admin+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	public := strings.TrimSuffix(r.shown("pages"), "/")
	if status, body := get(t, http.DefaultClient, public+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if status, body := get(t, http.DefaultClient, public+"/"); status != 200 || !strings.Contains(body, "Our servers") {
		t.Errorf("/: %d %s", status, body)
	}
	// The name of a server is one segment of a path, whatever characters it has.
	if status, _ := get(t, http.DefaultClient, public+"/v0.1/servers/com.example%2Fserver-000001/versions/latest"); status != 200 {
		t.Errorf("a name with an escaped slash: %d", status)
	}
	if status, _ := get(t, http.DefaultClient, public+"/v0.1/servers/a%2F..%2Fhealthz/versions"); status != 404 {
		t.Errorf("a name with dots: %d", status)
	}
	if status := r.ended(t); status != exitDone {
		t.Errorf("exit status %d\n%s", status, r.stderr.String())
	}
	if out := r.stderr.String(); !strings.Contains(out, "lost at exit") || strings.Contains(out, "not a setting") {
		t.Errorf("%s", out)
	}
}

func contains(c list, name string) bool {
	for _, item := range c.Servers {
		if item.Server.Name == name {
			return true
		}
	}
	return false
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// With the file of an authorization server its resources are in the catalogue, and settings that
// are not for the registry have no effect.
func TestRegistryBesideServer(t *testing.T) {
	redis := miniredis.RunT(t)
	config := save(t, "gatehouse.yaml", `
issuer: https://auth.example.com
listen: `+takenAddress(t)+`
store: redis://`+redis.Addr()+`
master_keys: `+testKey(1)+`
registration: closed
tls_cert: nowhere.pem
tls_key: nowhere.pem
resources:
  - uri: https://notes.example.com/mcp
    name: Notes
    scopes:
      notes:read: Read your notes
    introspection:
      client_secret_file: /run/secrets/that/the/registry/cannot/read
  - uri: https://files.example.com/mcp
    name: Files
  - uri: https://registry.example.com
    scopes:
      mcp-registry:read: Read the catalogue
registry:
  listen: 127.0.0.1:0
  resource: https://registry.example.com
  servers:
    - url: https://files.example.com/mcp
      name: com.example/files
      icon: https://files.example.com/icon.png
    - url: https://else.example.org/mcp
`)
	out, _ := syncRegistry(t, exitDone, nil, "--config", config, "--json")
	if !strings.Contains(out, `"mode": "own"`) || !strings.Contains(out, `"added": 3`) {
		t.Errorf("%s", out)
	}
	// The same keys and issuer open the sealed records.
	r := startRegistry(t, []string{"AUTHZ_RESOURCE=", "AUTHZ_MASTER_KEYS=" + testKey(1)}, "--store", "redis://"+redis.Addr(), "--issuer", "https://auth.example.com")
	c := r.catalogue(t)
	if len(c.Servers) != 3 || !contains(c, "com.example.notes/mcp") || !contains(c, "com.example/files") || !contains(c, "org.example.else/mcp") {
		t.Errorf("%+v", c)
	}
	for _, item := range c.Servers {
		if item.Server.Name == "com.example.notes/mcp" && (item.Server.Title != "Notes" || !strings.Contains(string(item.Meta[registry.MetaPublisher]), `"notes:read"`)) {
			t.Errorf("%+v", item)
		}
		if item.Server.Name == "com.example/files" && item.Server.Title != "Files" {
			t.Errorf("%+v", item)
		}
	}
	_, complaint := syncRegistry(t, exitRefused, nil, "--store", "redis://"+redis.Addr(), "--upstream", "http://127.0.0.1:1")
	if !strings.Contains(complaint, "give the master keys and the issuer") {
		t.Errorf("%s", complaint)
	}
	// A process without a list of own servers keeps those in the catalogue; one with an empty list
	// removes them.
	syncRegistry(t, exitDone, nil, "--config", config, "--no-list-resources", "--json")
	if c := r.catalogue(t); len(c.Servers) != 2 {
		t.Errorf("%+v", c)
	}
	empty := save(t, "servers.yaml", "servers: []\n")
	syncRegistry(t, exitDone, []string{"AUTHZ_MASTER_KEYS=" + testKey(1), "AUTHZ_ISSUER=https://auth.example.com"}, "--store", "redis://"+redis.Addr(), "--servers-file", empty)
	if c := r.catalogue(t); len(c.Servers) != 0 {
		t.Errorf("%+v", c)
	}
}

func takenAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// bearing sends a request, with a token if it is not empty. The text is the whole response.
func bearing(t *testing.T, url, token string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body strings.Builder
	_ = response.Write(&body)
	return response, body.String()
}

// A private registry is a resource like any other.
func TestRegistryProtected(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	address := redistest.FreeAddress(t)
	resource := "http://" + address + "/registry"
	servers := save(t, "servers.yaml", "servers:\n  - url: https://notes.example.com/mcp\n")
	r := startRegistry(t, nil, "--listen", address, "--resource", resource, "--issuer", issuer.URL(), "--servers-file", servers)
	list := resource + "/v0.1/servers"
	if r.shown("programs") != list {
		t.Errorf("programs read at %s", r.shown("programs"))
	}
	good := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "mcp-registry:read"})
	for _, tt := range []struct {
		name, url, token string
		status           int
		want             string
	}{
		{"no token", list, "", 401, "resource_metadata="},
		{"no token, page", resource + "/", "", 401, ""},
		{"a token", list, good, 200, "com.example.notes/mcp"},
		{"a token, page", resource + "/", good, 200, "com.example.notes/mcp"},
		{"a token, elsewhere", "http://" + address + "/v0.1/servers", good, 404, ""},
		{"another scope", list, issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"}), 403, `error="insufficient_scope"`},
		{"another audience", list, issuer.Mint(middlewaretest.Claims{"aud": "https://notes.example.com/mcp", "scope": "mcp-registry:read"}), 401, `error="invalid_token"`},
		{"metadata", "http://" + address + "/.well-known/oauth-protected-resource/registry", "", 200, `"mcp-registry:read"`},
		{"health", "http://" + address + "/healthz", "", 200, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			response, body := bearing(t, tt.url, tt.token)
			if response.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d, want %d and %s:\n%s", response.StatusCode, tt.status, tt.want, body)
			}
		})
	}
	if status := r.ended(t); status != exitDone {
		t.Errorf("exit status %d", status)
	}
}

// A round that needs a decision of the operator fails with the reason; the flag of the decision is
// obeyed.
func TestRegistrySyncShrink(t *testing.T) {
	redis := miniredis.RunT(t)
	upstream := registrytest.New(t)
	upstream.Fill(40)
	args := []string{"--store", "redis://" + redis.Addr(), "--upstream", upstream.URL()}
	out, _ := syncRegistry(t, exitDone, nil, args...)
	if !strings.Contains(out, "read 40 records on 1 page from "+upstream.URL()) || !strings.Contains(out, "the catalogue has 40 versions of 40 servers") {
		t.Errorf("%s", out)
	}
	for i := range 15 {
		upstream.Remove(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
	}
	upstream.Rewrite("com.example/server-000020", "1.0.0", strings.Replace(registrytest.Record("com.example/server-000020", "1.0.0"), "What", "Which", 1))
	out, complaint := syncRegistry(t, exitRefused, nil, append(args, "--full")...)
	if !strings.Contains(complaint, "authz registry sync --accept-shrink") || !strings.Contains(out, "1 differ from the version") || !strings.Contains(out, "40 versions") {
		t.Errorf("%s%s", out, complaint)
	}
	out, _ = syncRegistry(t, exitRefused, nil, append(args, "--json")...)
	var said synced
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Shrink == nil || said.Shrink.Missing != 15 {
		t.Errorf("%v %s", err, out)
	}
	out, _ = syncRegistry(t, exitDone, nil, append(args, "--accept-shrink", "--accept-changed")...)
	if !strings.Contains(out, "15 of the deleted were not listed any more") || !strings.Contains(out, "the catalogue has 25 versions of 25 servers") || strings.Contains(out, "not what they were") {
		t.Errorf("%s", out)
	}
}

// The verb waits for another process that fills the catalogue, and names it.
func TestRegistrySyncWaits(t *testing.T) {
	redis := miniredis.RunT(t)
	upstream := registrytest.New(t)
	upstream.Fill(120)
	hold := make(chan struct{})
	upstream.Break(registrytest.Faults{After: 1, Times: 1, Hold: hold})
	args := []string{"--store", "redis://" + redis.Addr(), "--upstream", upstream.URL()}
	first := startRegistry(t, nil, args...)
	eventually(t, "the registry reads", func() bool { return len(upstream.Requests()) == 2 })
	time.AfterFunc(time.Second, func() { close(hold) })
	out, _ := syncRegistry(t, exitDone, nil, args...)
	if !strings.Contains(out, "the catalogue has 120 versions of 120 servers") {
		t.Errorf("%s", out)
	}
	if status := first.ended(t); status != exitDone {
		t.Errorf("exit status %d", status)
	}
}

func TestPace(t *testing.T) {
	began := time.Now()
	fresh, resumed := pace{began: began}, pace{began: began}
	if got := fresh.at(began.Add(2*time.Second), mirror.Report{Pages: 1, Items: 100}); got != "1 page, 100 records, 50 a second" {
		t.Error(got)
	}
	if got := fresh.at(began.Add(4*time.Second), mirror.Report{Pages: 4, Items: 400}); got != "4 pages, 400 records, 100 a second" {
		t.Error(got)
	}
	resumed.at(began.Add(time.Second), mirror.Report{Resumed: true, Pages: 50, Items: 5000})
	if got := resumed.at(began.Add(2*time.Second), mirror.Report{Resumed: true, Pages: 51, Items: 5100}); got != "51 pages, 5100 records, 50 a second" {
		t.Error(got)
	}
}

// The page about the registry names every setting.
func TestRegistrySettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/registry.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(registryKeys(parser.Model), append(orders, "config")...) {
		if key != "servers" && key != "pages" && !strings.Contains(string(page), "`--"+key+"`") {
			t.Errorf("docs/registry.md does not name --%s", key)
		}
	}
}

// The examples on the page work.
func TestRegistryExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/registry.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```")
	found := map[string]bool{}
	for i := 1; i < len(blocks); i += 2 {
		text, yaml := strings.CutPrefix(blocks[i], "yaml\n")
		switch {
		case !yaml:
		case strings.HasPrefix(text, "issuer:"):
			found["file"] = true
			path := save(t, "gatehouse.yaml", text)
			if out, _ := syncRegistry(t, exitDone, nil, "--config", path, "--store", "redis://"+miniredis.RunT(t).Addr(), "--upstream", littleUpstreamURL(t)); !strings.Contains(out, "4 versions of 4 servers") {
				t.Errorf("%s", out)
			}
		case strings.HasPrefix(text, "registry-at:"):
			found["carried"] = true
			var out, complaints lockedBuffer
			path := save(t, "gatehouse.yaml", "issuer: https://auth.example.com\nstore: redis://127.0.0.1\nregistration: closed\nmaster_keys: "+testKey(1)+"\n"+text)
			if status := run(t.Context(), []string{"check-config", "--config", path}, nil, strings.NewReader(""), &out, &complaints); status != exitDone {
				t.Errorf("%s", complaints.String())
			}
		case strings.HasPrefix(text, "servers:"):
			found["servers"] = true
			servers, err := readServers("servers.yaml", []byte(text))
			if err != nil || len(servers) != 2 {
				t.Errorf("%v %+v", err, servers)
			}
		default:
			found["meta"] = true
			file, err := registry.OpenMetaFile(registry.FileConfig{Path: save(t, "meta.yaml", text)}, func(data []byte) (json.RawMessage, error) { return readMeta("meta.yaml", data) })
			if err != nil {
				t.Fatal(err)
			}
			item, err := registry.OwnServer{URL: "https://notes.example.com/mcp", Version: "1.2.0"}.Item()
			if said, _ := file.Enrich(item); err != nil || !strings.Contains(string(said), `"clean"`) || !strings.Contains(string(said), `"stars":4.5`) {
				t.Errorf("%v %s", err, said)
			}
		}
	}
	if len(found) != 4 {
		t.Errorf("the page shows %v", found)
	}
}

func littleUpstreamURL(t *testing.T) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(littleUpstream))
	t.Cleanup(upstream.Close)
	return upstream.URL
}
