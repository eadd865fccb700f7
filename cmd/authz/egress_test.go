package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/webtest"
)

// offers reports whether the metadata of a server offers client documents.
func offers(t *testing.T, issuer string) bool {
	t.Helper()
	_, body := get(t, http.DefaultClient, issuer+"/.well-known/oauth-authorization-server")
	var document struct {
		Issuer    string `json:"issuer"`
		Documents bool   `json:"client_id_metadata_document_supported"`
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil || document.Issuer != issuer {
		t.Fatalf("%v: %s", err, body)
	}
	return document.Documents
}

// authorizes sends the person of a client to the authorization endpoint and returns the response
// and the text of its page.
func authorizes(t *testing.T, issuer, client string) (*http.Response, string) {
	t.Helper()
	query := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {"http://127.0.0.1:49152/callback"}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(issuer + "/authorize?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

const publishedDocument = `{"client_id":%q,"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"]}`

// TestOfflineDev: without access to the web --dev starts, reports everywhere that documents
// cannot be read and which settings matter, and lets clients register. Once a proxy allows
// connections, documents are offered without a restart, and work.
func TestOfflineDev(t *testing.T) {
	web := webtest.New(t)
	proxy := web.Proxy()
	var open atomic.Bool
	proxy.Answer(func(string) bool { return open.Load() })
	id := web.URL("client.example.com", "/client.json")
	web.Document(id, fmt.Sprintf(publishedDocument, id))
	p := startProcessWith(t, []string{"AUTHZ_EGRESS_CHECK=lookout.example.com", "SSL_CERT_FILE=" + web.RootFile(), "HTTPS_PROXY=http://127.0.0.1:1"}, "connect to",
		"serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--proxy", strings.Replace(proxy.URL, "//", "//gate:hunter22@", 1), "--proxy-by-name")
	issuer, admin := p.shown("issuer"), "http://"+p.shown("admin on")
	if offers(t, issuer) {
		t.Error("documents are offered")
	}
	if said := p.shown("no egress"); !strings.Contains(said, "clients register instead") || !strings.Contains(p.stdout.String(), "tried: lookout.example.com; see --proxy, --client-documents-pinned, --egress-check") {
		t.Errorf("at the start: %s", p.stdout.String())
	}
	status, ready := get(t, http.DefaultClient, admin+"/readyz")
	if status != http.StatusOK || !strings.Contains(ready, "ok, but there is no way to the public web") || !strings.Contains(ready, "client-documents-pinned and egress-check") {
		t.Errorf("readiness: %d %s", status, ready)
	}
	resp, page := authorizes(t, issuer, id)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(page, "no way there at the moment") {
		t.Errorf("page: %s %s", resp.Status, page)
	}
	if home := opened(t, issuer+"/"); !strings.Contains(home, "No way to the public web") {
		t.Errorf("home: %s", home)
	}
	open.Store(true)
	for end := time.Now().Add(3 * deadline); !offers(t, issuer); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("documents are not offered again: %s", p.stderr.String())
		}
	}
	for end := time.Now().Add(deadline); resp.StatusCode != http.StatusSeeOther && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, page = authorizes(t, issuer, id) // what was read in vain rests for a moment
	}
	if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(resp.Header.Get("Location"), issuer+"/login") {
		t.Errorf("with the way there: %s %s", resp.Status, page)
	}
	if _, ready := get(t, http.DefaultClient, admin+"/readyz"); ready != "ok\n" {
		t.Errorf("readiness: %s", ready)
	}
	logged := p.stderr.String()
	if strings.Count(logged, "no way to the public web") != 1 || strings.Count(logged, "a way to the public web again") != 1 || strings.Contains(logged+p.stdout.String(), "hunter22") {
		t.Errorf("log: %s%s", p.stdout.String(), logged)
	}
}

// TestPinnedDocumentsWorkOffline: a client with a pinned document signs in where nothing can be
// fetched and registration is closed; the start and check-config show the pin.
func TestPinnedDocumentsWorkOffline(t *testing.T) {
	const id = "https://client.example.com/client.json?v=1"
	file := save(t, "client.json", fmt.Sprintf(publishedDocument, id))
	for source, args := range map[string][]string{
		"flag":    {"--client-documents-pinned", id + "=" + file},
		"mapping": {"--config", save(t, "mapping.yaml", "client-documents-pinned:\n  "+id+": "+file+"\n")},
		"list":    {"--config", save(t, "list.yaml", "client_documents_pinned: ["+id+"="+file+"]\n")},
	} {
		r := start(t, []string{"AUTHZ_EGRESS_CHECK=lookout.example.com", "AUTHZ_PROXY=http://127.0.0.1:1"}, append(args, "--dev", "--listen", "127.0.0.1:0", "--registration", "closed", "--client-documents", "ask")...)
		issuer := r.shown("issuer")
		if !offers(t, issuer) || r.shown("pinned") != id || !strings.Contains(r.shown("no egress"), "except pinned ones") {
			t.Errorf("%s: %s", source, r.stdout.String())
		}
		if resp, page := authorizes(t, issuer, id); resp.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %s %s", source, resp.Status, page)
		}
		if resp, page := authorizes(t, issuer, "https://other.example.com/client.json"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(page, "client-documents-pinned") {
			t.Errorf("%s: another client: %s %s", source, resp.Status, page)
		}
		r.ended(t)
	}
	var out strings.Builder
	environ := append(goodKeys(), "AUTHZ_CLIENT_DOCUMENTS_PINNED="+id+"="+file)
	if status := run(t.Context(), []string{"check-config", "--effective", "--config", plainFile(t, "proxy: http://gate:hunter22@127.0.0.1:3128\n")}, environ, nil, &out, &out); status != exitDone ||
		!strings.Contains(out.String(), `client-documents-pinned: ["`+id+"="+file) && !strings.Contains(out.String(), "client-documents-pinned: ["+id+"="+file) || !strings.Contains(out.String(), "http://gate:xxxxx@127.0.0.1:3128") || strings.Contains(out.String(), "hunter22") {
		t.Errorf("effective: %d %s", status, out.String())
	}
}

// TestEgressSettingsAreChecked: contradictions are refused, settings without effect cause
// warnings, and no password is printed.
func TestEgressSettingsAreChecked(t *testing.T) {
	const id = "https://client.example.com/client.json"
	good := save(t, "good.json", fmt.Sprintf(publishedDocument, id))
	keys := save(t, "keys.json", strings.Replace(fmt.Sprintf(publishedDocument, id), "{", `{"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://client.example.com/keys.json",`, 1))
	missing := filepath.Join(t.TempDir(), "missing.json")
	pin := func(file string) string { return "client-documents-pinned:\n  " + id + ": " + file + "\n" }
	for _, tt := range []struct {
		name, file string
		refused    bool
		want       string // "" for no word about it
	}{
		{"nothing", "", false, ""},
		{"a proxy", "proxy: https://gate:hunter22@proxy.example.com:3128\n", false, ""},
		{"a pin", pin(good), false, ""},
		{"pins alone", pin(good) + "client-documents: deny\nregistration: closed\n", false, ""},
		{"no proxy", "proxy: socks5://hunter22@proxy.example.com\n", true, "proxy cannot be used: the scheme must be http or https"},
		{"half a proxy", "proxy: http://gate:hunter22@/\n", true, "proxy cannot be used: it has no host"},
		{"nobody to ask", "proxy-by-name: true\n", true, "proxy-by-name is set and proxy is not"},
		{"a proxy in the clear", "proxy: http://gate:hunter22@proxy.example.com:3128\n", false, "warning: proxy http://gate:xxxxx@proxy.example.com:3128: without TLS"},
		{"a proxy for nothing", "proxy: http://127.0.0.1:3128\nclient-documents: off\n", false, "warning: proxy is set, but with client-documents off"},
		{"a proxy for pins", "proxy: http://127.0.0.1:3128\nclient-documents: deny\n" + pin(good), false, "warning: proxy is set, but with client-documents deny"},
		{"a look for nothing", "egress-check: client.example.org\nclient-documents: off\n", false, "warning: egress-check has no effect"},
		{"names unknown", "egress-check: off\nproxy: http://127.0.0.1:3128\n", false, "warning: egress-check is off, so it is not detected"},
		{"off and on", "egress-check: [off, client.example.org]\n", true, "egress-check is off and names hosts"},
		{"a look inside", "egress-check: [10.0.0.1]\n", true, `egress-check: "10.0.0.1" is not the name of a public host`},
		{"pins and off", pin(good) + "client-documents: off\n", true, "client-documents is off: leave out client-documents-pinned, or write deny"},
		{"a pin that is denied", pin(good) + "client-documents-deny: ['*.example.com']\n", true, "its host is one of those that are denied"},
		{"no such file", pin(missing), true, "missing.json"},
		{"another document", "client-documents-pinned:\n  https://client.example.com/other.json: " + good + "\n", true, "it is not the address of the document"},
		{"half a pin", "client-documents-pinned: [" + id + "]\n", true, "write the client_id, =, and the file"},
		{"one pin twice", "client-documents-pinned: [" + id + "=" + good + "," + id + "=" + good + "]\n", true, "it is pinned twice"},
		{"keys elsewhere", pin(keys), false, "warning: client-documents-pinned " + id + ": its keys are still fetched from https://client.example.com/keys.json"},
	} {
		status, said := check(t, goodKeys(), "--config", plainFile(t, tt.file))
		if (status != exitDone) != tt.refused || !strings.Contains(said, tt.want) || strings.Contains(said, "hunter22") {
			t.Errorf("%s: exit status %d, want %q:\n%s", tt.name, status, tt.want, said)
		}
		if about := strings.Contains(said, "proxy") || strings.Contains(said, "pinned") || strings.Contains(said, "egress"); tt.want == "" && about {
			t.Errorf("%s: %s", tt.name, said)
		}
	}
	said := ""
	if _, said = check(t, goodKeys(), "--config", plainFile(t, ""), "--proxy", "https://gate:hunter22@proxy.example.com"); !strings.Contains(said, "proxy is on the command line") || strings.Contains(said, "hunter22") {
		t.Errorf("a password on the command line: %s", said)
	}
	if err := os.WriteFile(missing, []byte("http://gate:hunter22@127.0.0.1:3128\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, said := check(t, goodKeys(), "--config", plainFile(t, ""), "--proxy-file", missing); status != exitDone || strings.Contains(said, "proxy") {
		t.Errorf("a proxy in a file: %d %s", status, said)
	}
}

// TestLookoutFollowsThePolicy: only hosts that documents may come from are checked.
func TestLookoutFollowsThePolicy(t *testing.T) {
	for _, tt := range []struct{ documents, allow, check, want string }{
		{"ask", "", defaultEgressHosts, defaultEgressHosts},
		{"ask", "client.example.com", defaultEgressHosts, defaultEgressHosts},
		{"deny", "client.example.com,*.example.org", defaultEgressHosts, "client.example.com"},
		{"deny", "*.example.org", defaultEgressHosts, defaultEgressHosts},
		{"deny", "client.example.com", "other.example.com", "other.example.com"},
		{"ask", "", "off", ""}, {"off", "", defaultEgressHosts, ""},
	} {
		s := &serveSettings{ClientDocuments: tt.documents, ClientDocumentsAllow: strings.Split(tt.allow, ",")}
		s.EgressCheck = strings.Split(tt.check, ",")
		if got := strings.Join(s.egressHosts(), ","); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestIconsOfTheCarriedRegistry: a registry that a server carries fetches through the proxy of
// the server.
func TestIconsOfTheCarriedRegistry(t *testing.T) {
	web := webtest.New(t)
	proxy := web.Proxy()
	icon := web.URL("notes.example.com", "/icon.png")
	file := save(t, "gatehouse.yaml", "registry:\n  servers:\n    - url: "+web.URL("notes.example.com", "/mcp")+"\n      title: Notes\n      version: 1.0.0\n      icon: "+icon+"\n")
	r := start(t, []string{"AUTHZ_PROXY=" + proxy.URL, "AUTHZ_PROXY_BY_NAME=true"}, "--dev", "--listen", "127.0.0.1:0", "--registry-at", "/registry", "--config", file)
	eventually(t, "the proxy is asked for the icon", func() bool {
		opened(t, r.shown("issuer")+"/registry/")
		return slices.Contains(proxy.Asked(), strings.TrimSuffix(strings.TrimPrefix(icon, "https://"), "/icon.png"))
	})
}

// TestNoProxyOfTheEnvironment: a proxy that only the environment names is not used, also not for
// the upstream of a registry.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	for given, want := range map[settings.ProxyURL]bool{"": false, "http://proxy.example.com:3128": true} {
		settings := proxySettings{Proxy: given}
		if got := settings.client().Transport.(*http.Transport).Proxy != nil; got != want {
			t.Errorf("with --proxy %q, a proxy is used: %v", given, got)
		}
	}
}

// TestRegistryThroughTheProxy: a separate registry reads its upstream and fetches icons through
// its own proxy, also when the environment names another.
func TestRegistryThroughTheProxy(t *testing.T) {
	web := webtest.New(t)
	proxy := web.Proxy()
	upstream := web.URL("registry.example.com", "")
	web.Serve(upstream+"/v0.1/servers", littleUpstream)
	web.Serve("*", littleUpstream)
	file := save(t, "registry.yaml", "servers:\n  - url: "+web.URL("notes.example.com", "/mcp")+"\n    title: Notes\n    version: 1.0.0\n    icon: "+web.URL("notes.example.com", "/icon.png")+"\n")
	p := startProcessWith(t, []string{"SSL_CERT_FILE=" + web.RootFile(), "HTTPS_PROXY=http://127.0.0.1:1", "AUTHZ_PROXY=" + proxy.URL, "AUTHZ_EGRESS_CHECK="}, "programs",
		"registry", "serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--config", file, "--proxy-by-name")
	eventually(t, "the upstream is read", func() bool { return strings.Contains(opened(t, p.shown("pages")), "com.example/first") })
	eventually(t, "the proxy is asked for the icon", func() bool {
		opened(t, p.shown("pages"))
		return slices.Contains(proxy.Asked(), strings.TrimPrefix(web.URL("notes.example.com", ""), "https://"))
	})
	var out, said strings.Builder
	if status := run(t.Context(), []string{"registry", "serve", "--proxy", "socks5://hunter22@proxy.example.com"}, nil, nil, &out, &said); status != exitRefused || !strings.Contains(said.String(), "proxy cannot be used") || strings.Contains(said.String(), "hunter22") {
		t.Errorf("exit status %d: %s", status, said.String())
	}
}
