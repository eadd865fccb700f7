package dcr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

// reader is a registry that reads documents, and the web that they are in.
type reader struct {
	*fixture
	web *webtest.Web
}

func newReader(t testing.TB, change func(*dcr.Config)) reader {
	t.Helper()
	web := webtest.New(t)
	return reader{web: web, fixture: newFixture(t, func(c *dcr.Config) {
		c.Documents = dcr.Documents{Trust: dcr.TrustAsk}
		c.Fetcher = web.Fetcher(nil)
		if change != nil {
			change(c)
		}
	})}
}

// published is a good document at an address, with members replaced; nil leaves one out.
func published(address string, change map[string]any) string {
	members := map[string]any{
		"client_id": address, "client_name": "Notes", "redirect_uris": []string{"http://127.0.0.1/callback"},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	}
	maps.Copy(members, change)
	maps.DeleteFunc(members, func(_ string, v any) bool { return v == nil })
	body, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(body)
}

func (r reader) publish(host string, change map[string]any, headers ...string) string {
	id := r.web.URL(host, "/client.json")
	r.web.Document(id, published(id, change), headers...)
	return id
}

func (r reader) resolve(t testing.TB, id string) storage.Client {
	t.Helper()
	c, err := r.Resolve(t.Context(), id)
	if err != nil {
		t.Fatalf("%s: %v; log: %s", id, err, r.log)
	}
	return c
}

// refuses resolves what must not be a client, for a reason that holds want.
func (r reader) refuses(t *testing.T, id, want string) {
	t.Helper()
	_, err := r.Resolve(t.Context(), id)
	var document *dcr.DocumentError
	if !errors.As(err, &document) || !errors.Is(err, storage.ErrNotFound) || document.ClientID != id || !strings.Contains(document.Why, want) {
		t.Errorf("%.100q: error %v, want %q", id, err, want)
	}
}

func (r reader) unreachable(t *testing.T, id string) error {
	t.Helper()
	_, err := r.Resolve(t.Context(), id)
	if !errors.Is(err, dcr.ErrUnreachable) || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("%.100q: error %v", id, err)
	}
	return err
}

func TestDocument(t *testing.T) {
	r := newReader(t, nil)
	id := r.publish("client.example.com", map[string]any{"scope": "notes:read other", "contacts": []string{"a@example.com"}, "software_id": "notes"})
	c := r.resolve(t, id)
	want := storage.Client{ID: id, Source: storage.ClientDocument, Created: start, AuthMethods: []string{"none"}, Metadata: metadata.Client{
		ClientName: "Notes", RedirectURIs: []string{"http://127.0.0.1/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none", Scope: "notes:read", Contacts: []string{"a@example.com"}, SoftwareID: "notes",
	}}
	got, _ := json.Marshal(c)
	wanted, _ := json.Marshal(want)
	if string(got) != string(wanted) {
		t.Errorf("client %s\nwant   %s", got, wanted)
	}
	if dcr.DocumentHost(c) != strings.TrimSuffix(strings.TrimPrefix(id, "https://"), "/client.json") || r.Vouched(c) || !dcr.Public(c) {
		t.Errorf("host %q, vouched %v", dcr.DocumentHost(c), r.Vouched(c))
	}
	if n := r.backend.gets.Load() + r.backend.writes.Load(); n != 0 {
		t.Errorf("%d trips to the store", n)
	}
}

// TestRealDocuments reads the documents that clients publish.
func TestRealDocuments(t *testing.T) {
	const both = "authorization_code refresh_token"
	tests := map[string]struct{ methods, name, links string }{
		"claude-code": {"none", "Claude Code", "client"},
		"chatgpt":     {"private_key_jwt none", "ChatGPT", "client keys logo"},
		"vscode":      {"none", "Visual Studio Code", "client"},
		"codex":       {"none", "Codex", ""},
		"opencode":    {"none", "OpenCode", "client de"},
	}
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) != len(tests) {
		t.Fatalf("%d files for %d tests: %v", len(files), len(tests), err)
	}
	r := newReader(t, nil)
	for _, file := range files {
		want := tests[strings.TrimSuffix(filepath.Base(file), ".json")]
		c := r.resolve(t, r.web.Publish(file))
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			RedirectURIs []string `json:"redirect_uris"`
		}
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		var links []string
		for name, kept := range map[string]bool{
			"client": c.Metadata.ClientURI != "", "logo": c.Metadata.LogoURI != "", "keys": c.Metadata.JWKSURI != "", "de": c.Localized["client_name#de"] != "",
		} {
			if kept {
				links = append(links, name)
			}
		}
		slices.Sort(links)
		if c.Metadata.ClientName != want.name || strings.Join(dcr.AuthMethods(c), " ") != want.methods || strings.Join(links, " ") != want.links ||
			strings.Join(c.Metadata.GrantTypes, " ") != both || !slices.Equal(c.Metadata.RedirectURIs, sent.RedirectURIs) {
			t.Errorf("%s: %+v with %q", file, c, links)
		}
	}
}

// TestDocumentIDs: what cannot be a client identifier is refused before anything is
// fetched (draft-ietf-oauth-client-id-metadata-document section 3).
func TestDocumentIDs(t *testing.T) {
	r := newReader(t, nil)
	for _, tt := range []struct{ id, want string }{
		{"http://client.example.com/c.json", "https"},
		{"http://127.0.0.1/c.json", "https"},
		{"http://localhost:8080/c.json", "https"},
		{"https://client.example.com", "path"},
		{"https://client.example.com/", "path"},
		{"https://client.example.com//", "path"},
		{"https://client.example.com?a=b", "path"},
		{"https://user@client.example.com/c.json", "user information"},
		{"https://user:secret@client.example.com/c.json", "user information"},
		{"https://@client.example.com/c.json", "user information"},
		{"https://client.example.com/c.json#a", "fragment"},
		{"https://client.example.com/c.json#", "fragment"},
		{"https://client.example.com/./c.json", "dot segments"},
		{"https://client.example.com/a/../c.json", "dot segments"},
		{"https://client.example.com/a/..", "dot segments"},
		{"https://client.example.com/a/%2e%2e/c.json", "dot segments"},
		{"https://client.example.com/a/%2E./c.json", "dot segments"},
		{"https://client.example.com/a%2f..%2fc.json", "dot segments"},
		{"https://client.example.com/a%5c..%5cc.json", "dot segments"},
		{"https://Client.example.com/c.json", "lowercase"},
		{"https://client.example.com./c.json", "without a dot at its end: client.example.com"},
		{"https://client..example.com/c.json", "host"},
		{"https://-client.example.com/c.json", "not a name"},
		{"https://client_1.example.com/c.json", "not a name"},
		{"https://exa%6dple.com/c.json", "without percent-encoding"},
		{"https://" + strings.Repeat("a", 64) + ".example.com/c.json", "not a name"},
		{"https:///c.json", "host"},
		{"https://client.example.com:/c.json", "port"},
		{"https://client.example.com:0/c.json", "port"},
		{"https://client.example.com:0443/c.json", "port"},
		{"https://client.example.com:65536/c.json", "port"},
		{"https://203.0.113.5/c.json", "name"},
		{"https://127.0.0.1/c.json", "name"},
		{"https://[::1]/c.json", "name"},
		{"https://[2001:db8::1]/c.json", "name"},
		{"https://client.example.com/c .json", "percent-encoded"},
		{"https://client.example.com/c\x00", "percent-encoded"},
		{"https://client.example.com/c\n", "percent-encoded"},
		{"https://clïent.example.com/c.json", "in ASCII"},
		{"https://client.example.com/\u202e.json", "percent-encoded"},
		{`https://client.example.com\c.json`, "percent-encoded"},
		{"https://client.example.com/%zz", ""},
		{"https://client.example.com/c.json?%zz", "percent-encoded"},
		{"https://client.example.com/c.json?", "empty query"},
		{"https://client.example.com/" + strings.Repeat("a", 500), "512"},
		{"https://client.example.com/" + strings.Repeat("a", 5000), "2048"},
		{"https:client.example.com/c.json", "-"},
		{"HTTPS://client.example.com/c.json", "-"},
		{"ftp://client.example.com/c.json", "-"},
		{" https://client.example.com/c.json", "-"},
	} {
		if tt.want != "-" {
			r.refuses(t, tt.id, tt.want)
			continue
		}
		if _, err := r.Resolve(t.Context(), tt.id); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%q: error %v", tt.id, err)
		}
	}
	if n := r.web.Connections.Load() + r.backend.gets.Load(); n != 0 {
		t.Errorf("%d connections or trips to the store", n)
	}
	for _, path := range []string{"/c", "/c.json", "/a/b/c/", "/c.json?v=1", "/%7Euser/c.json", "/c..json", "/.well-known/client", "/..."} {
		id := r.web.URL("client.example.com", path)
		r.web.Document(id, published(id, nil))
		r.resolve(t, id)
	}
	if _, err := newFixture(t, nil).Resolve(t.Context(), "https://client.example.com/c.json"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("documents are off: %v", err)
	}
}

func TestDocumentOnLoopback(t *testing.T) {
	r := newReader(t, func(c *dcr.Config) { c.Documents.InsecureAllowLoopback = true })
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(published("http://"+r.Host+r.URL.Path, nil)))
	})}
	listener := listen(t)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	r.resolve(t, "http://"+listener.Addr().String()+"/client.json")
	r.refuses(t, "http://client.example.com/c.json", "https")
	r.refuses(t, "https://203.0.113.5/c.json", "name")
}

// TestDocumentRules: one thing is wrong with each document.
func TestDocumentRules(t *testing.T) {
	key := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
	private := maps.Clone(key)
	private["d"] = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	set := func(keys ...any) map[string]any { return map[string]any{"keys": keys} }
	r := newReader(t, nil)
	i := 0
	for _, tt := range []struct {
		change map[string]any
		want   string // "" for a document that can be used
	}{
		{nil, ""},
		{map[string]any{"client_id": nil}, "client_id"},
		{map[string]any{"client_id": "https://other.example.com/client.json"}, "client_id"},
		{map[string]any{"client_id": 1}, "client_id"},
		{map[string]any{"client_name": nil}, "client_name"},
		{map[string]any{"client_name": "\u202e\u2066"}, "client_name"},
		{map[string]any{"client_name": strings.Repeat("n", 201)}, "client_name"},
		{map[string]any{"redirect_uris": nil}, "redirect_uris"},
		{map[string]any{"redirect_uris": []string{}}, "redirect_uris"},
		{map[string]any{"redirect_uris": "https://client.example.com/cb"}, "redirect_uris"},
		{map[string]any{"redirect_uris": []string{"javascript:alert(1)"}}, "redirect_uris[0]"},
		{map[string]any{"redirect_uris": []string{"https://client.example.com/cb", "http://client.example.com/cb"}}, "redirect_uris[1]"},
		{map[string]any{"redirect_uris": []string{"https://*.example.com/cb"}}, "redirect_uris[0]"},
		{map[string]any{"redirect_uris": []string{"https://client.example.com/a/../cb"}}, "redirect_uris[0]"},
		{map[string]any{"redirect_uris": []string{"cursor://anysphere.cursor-mcp/oauth/callback"}}, ""},
		{map[string]any{"client_secret": "s"}, "client_secret"},
		{map[string]any{"client_secret_expires_at": 0}, "client_secret"},
		{map[string]any{"token_endpoint_auth_method": "client_secret_basic"}, "token_endpoint_auth_method"},
		{map[string]any{"token_endpoint_auth_method": "client_secret_post"}, "token_endpoint_auth_method"},
		{map[string]any{"token_endpoint_auth_method": "client_secret_jwt"}, "token_endpoint_auth_method"},
		{map[string]any{"token_endpoint_auth_method": "tls_client_auth"}, "token_endpoint_auth_method"},
		{map[string]any{"token_endpoint_auth_method": nil}, ""},
		{map[string]any{"token_endpoint_auth_method": "tls_client_auth", "token_endpoint_auth_methods_supported": []string{"none"}}, ""},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt"}, "jwks"},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set(key)}, ""},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://client.example.com/jwks.json"}, ""},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://client.example.com/jwks.json"}, "jwks_uri"},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set(key), "token_endpoint_auth_signing_alg": "HS256"}, "token_endpoint_auth_signing_alg"},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set(key), "jwks_uri": "https://client.example.com/jwks.json"}, "jwks"},
		{map[string]any{"jwks": set(private)}, "private"},
		{map[string]any{"jwks": set(key, map[string]any{"kty": "oct", "k": "c2VjcmV0"})}, "private or symmetric"},
		{map[string]any{"grant_types": []string{"client_credentials"}}, "grant_types"},
		{map[string]any{"grant_types": []string{"implicit", "authorization_code"}}, ""},
		{map[string]any{"grant_types": nil, "response_types": nil}, ""},
		{map[string]any{"dpop_bound_access_tokens": true}, "dpop_bound_access_tokens"},
		{map[string]any{"dpop_bound_access_tokens": false}, ""},
		{map[string]any{"response_types": []string{"token"}}, "response_types"},
		{map[string]any{"response_types": []string{"code", "token"}}, ""},
		{map[string]any{"software_statement": "a.b.c", "anything": map[string]any{"deep": []int{1}}, "CLIENT_SECRET": "s"}, ""},
		{map[string]any{"anything": strings.Repeat("a", 9<<10)}, ""},
		{map[string]any{"anything": strings.Repeat("a", 11<<10)}, "it is too large"},
	} {
		i++
		id := r.publish(fmt.Sprintf("c%d.example.com", i), tt.change)
		if tt.want != "" {
			r.refuses(t, id, tt.want)
			continue
		}
		r.resolve(t, id)
	}
	for _, body := range []string{
		``, `null`, `[]`, `"a"`, `{`, `{} {}`, "\xff", `<html>`,
		`{"client_id":"ID","client_id":"ID","client_name":"a","redirect_uris":["http://127.0.0.1/"]}`,
		`{"CLIENT_ID":"ID","client_name":"a","redirect_uris":["http://127.0.0.1/"]}`,
		`{"client_id":"ID","client_name":"a","redirect_uris":["http://127.0.0.1/"],"jwks":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
	} {
		i++
		id := r.web.URL(fmt.Sprintf("c%d.example.com", i), "/client.json")
		r.web.Document(id, strings.ReplaceAll(body, "ID", id))
		r.refuses(t, id, "")
	}
}

// TestDocumentLinks: the page and the logo of a client are at its own host, or they are
// not its own.
func TestDocumentLinks(t *testing.T) {
	r := newReader(t, nil)
	own := func(path string) string { return r.web.URL("client.example.com", path) }
	c := r.resolve(t, r.publish("client.example.com", map[string]any{
		"client_uri": own("/about"), "logo_uri": own("/logo.png"), "tos_uri": "https://legal.example.org/tos", "policy_uri": "javascript:alert(1)",
		"client_name#de": "Notizen\u202e", "client_name#fr": 7, "client_name#": "x", "client_name#a b": "x", "logo_uri#de": "https://evil.example.org/",
	}))
	if c.Metadata.ClientURI != own("/about") || c.Metadata.LogoURI != own("/logo.png") || c.Metadata.TOSURI == "" || c.Metadata.PolicyURI != "" {
		t.Errorf("links %+v", c.Metadata)
	}
	if len(c.Localized) != 1 || c.Localized["client_name#de"] != "Notizen" {
		t.Errorf("names %q", c.Localized)
	}
	for i, foreign := range []string{"https://claude.ai/", "https://client.example.com/", r.web.URL("www.client.example.com", "/"), strings.Replace(own("/"), "https", "http", 1), "data:image/png,a"} {
		c := r.resolve(t, r.publish(fmt.Sprintf("c%d.example.com", i), map[string]any{"client_uri": foreign, "logo_uri": foreign}))
		if c.Metadata.ClientURI != "" || c.Metadata.LogoURI != "" {
			t.Errorf("links %+v", c.Metadata)
		}
	}
}

// TestDocumentAnswers: everything but 200 with JSON is no document; what may pass says so,
// and none of it is kept for longer than a moment.
func TestDocumentAnswers(t *testing.T) {
	type header = map[string]string
	for name, tt := range map[string]struct {
		status int
		header header
		want   string // "" for what may pass
	}{
		"not found":       {404, nil, "404"},
		"gone":            {410, nil, "410"},
		"created":         {201, header{"Content-Type": "application/json"}, "201"},
		"moved":           {301, header{"Location": "/other.json"}, "301"},
		"found":           {302, header{"Location": "https://other.example.com/"}, "302"},
		"not modified":    {304, nil, "304"},
		"a page":          {200, header{"Content-Type": "text/html"}, "JSON"},
		"no type":         {200, header{"Content-Type": ""}, "JSON"},
		"text":            {200, header{"Content-Type": "text/plain"}, "JSON"},
		"too many":        {429, nil, ""},
		"server error":    {500, nil, ""},
		"bad gateway":     {502, nil, ""},
		"compressed":      {200, header{"Content-Type": "application/json", "Content-Encoding": "gzip"}, ""},
		"cut short":       {200, header{"Content-Type": "application/json", "Content-Length": "9999"}, ""},
		"more specific":   {200, header{"Content-Type": "application/client+json; charset=utf-8"}, "-"},
		"JSON in capital": {200, header{"Content-Type": "Application/JSON"}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, nil)
			id := r.web.URL("client.example.com", "/client.json")
			body := published(id, nil)
			r.web.Document(r.web.URL("client.example.com", "/other.json"), body)
			r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header()[name] = []string{value}
				}
				w.Header().Set("Cache-Control", "max-age=86400")
				w.WriteHeader(tt.status)
				if tt.status != http.StatusNotModified {
					_, _ = w.Write([]byte(body))
				}
			})
			switch tt.want {
			case "-":
				r.resolve(t, id)
				return
			case "":
				r.unreachable(t, id)
			default:
				r.refuses(t, id, tt.want)
			}
			r.web.Document(id, body)
			if _, err := r.Resolve(t.Context(), id); err == nil || r.web.Hits(id) != 1 {
				t.Errorf("%v after %d requests, want the answer of the first for a moment", err, r.web.Hits(id))
			}
			r.clock.advance(5 * time.Second)
			r.resolve(t, id)
			if n := r.web.Hits(r.web.URL("client.example.com", "/other.json")); n != 0 || r.web.Hits(id) != 2 {
				t.Errorf("%d followed, %d asked", n, r.web.Hits(id))
			}
		})
	}
}

// TestDocumentNetwork: whatever is wrong on the way, the error is the same, and no
// connection reaches an address that is not public.
func TestDocumentNetwork(t *testing.T) {
	web := webtest.New(t)
	slow := web.URL("slow.example.com", "/client.json")
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	web.Serve(slow, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		<-hold
	})
	lookup := func(addresses ...string) func(*safefetch.Config) {
		return func(c *safefetch.Config) {
			c.InsecureAllowLoopback = false
			c.LookupNetIP = func(context.Context, string, string) ([]netip.Addr, error) {
				if len(addresses) == 0 {
					return nil, errors.New("no such host")
				}
				var found []netip.Addr
				for _, a := range addresses {
					found = append(found, netip.MustParseAddr(a))
				}
				return found, nil
			}
		}
	}
	texts := map[string]bool{}
	for name, tt := range map[string]struct {
		id     string
		change func(*safefetch.Config)
	}{
		"loopback":         {web.URL("client.example.com", "/client.json"), lookup("127.0.0.1")},
		"loopback, 6":      {web.URL("client.example.com", "/client.json"), lookup("::1")},
		"loopback, mapped": {web.URL("client.example.com", "/client.json"), lookup("::ffff:127.0.0.1")},
		"private":          {"https://client.example.com/client.json", lookup("10.0.0.1")},
		"link local":       {"https://client.example.com/client.json", lookup("169.254.169.254")},
		"one is private":   {"https://client.example.com/client.json", lookup("192.0.2.1", "192.168.0.1")},
		"no such name":     {"https://client.example.com/client.json", lookup()},
		"localhost":        {web.URL("localhost", "/client.json"), lookup("127.0.0.1")},
		"local name":       {web.URL("printer.local", "/client.json"), lookup("127.0.0.1")},
		"nobody listens":   {"https://client.example.com:9/client.json", nil},
		"wrong authority":  {web.URL("client.example.com", "/client.json"), func(c *safefetch.Config) { c.RootCAs = nil }},
		"slow":             {slow, func(c *safefetch.Config) { c.Timeout = 300 * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			before := web.Connections.Load()
			r := reader{web: web, fixture: newFixture(t, func(c *dcr.Config) {
				c.Documents, c.Fetcher = dcr.Documents{Trust: dcr.TrustAsk}, web.Fetcher(tt.change)
			})}
			texts[r.unreachable(t, tt.id).Error()] = true
			if !strings.Contains(r.log.String(), "reason=") {
				t.Errorf("log %q", r.log)
			}
			if n := web.Connections.Load() - before; n != 0 && name != "slow" && name != "wrong authority" {
				t.Errorf("%d connections", n)
			}
		})
	}
	if len(texts) != 1 {
		t.Errorf("errors tell reasons apart: %v", texts)
	}
}

func TestTrust(t *testing.T) {
	r := newReader(t, func(c *dcr.Config) {
		c.Documents.Allow = []string{"good.example.com", "*.corp.example.com"}
		c.Documents.Deny = []string{"bad.example.com", "*.evil.example.com", "worst.corp.example.com"}
	})
	for host, want := range map[string]string{
		"good.example.com": "allow", "a.corp.example.com": "allow", "a.b.corp.example.com": "allow",
		"corp.example.com": "ask", "xcorp.example.com": "ask", "x.good.example.com": "ask", "evil.example.com": "ask",
		"bad.example.com": "deny", "x.evil.example.com": "deny", "worst.corp.example.com": "deny",
	} {
		id := r.publish(host, nil)
		if want == "deny" {
			r.refuses(t, id, "not accepted")
			if r.web.Hits(id) != 0 {
				t.Errorf("%s was fetched", id)
			}
			continue
		}
		if c := r.resolve(t, id); r.Vouched(c) != (want == "allow") {
			t.Errorf("%s: vouched %v", host, r.Vouched(c))
		}
	}
	closed := newReader(t, func(c *dcr.Config) {
		c.Documents = dcr.Documents{Trust: dcr.TrustDeny, Allow: []string{"good.example.com"}}
	})
	closed.resolve(t, closed.publish("good.example.com", nil))
	closed.refuses(t, closed.publish("other.example.com", nil), "not accepted")
	open := newReader(t, func(c *dcr.Config) { c.Documents = dcr.Documents{Trust: dcr.TrustAllow} })
	if c := open.resolve(t, open.publish("other.example.com", nil)); !open.Vouched(c) {
		t.Error("not vouched for")
	}
	for source, want := range map[storage.ClientSource]bool{storage.ClientConfigured: true, storage.ClientRegistered: false} {
		c := storage.Client{ID: "https://good.example.com/", Source: source}
		if r.Vouched(c) != want || dcr.DocumentHost(c) != "" {
			t.Errorf("%s: vouched %v, host %q", source, r.Vouched(c), dcr.DocumentHost(c))
		}
	}
}

func TestNewRefusesDocumentsThatCannotWork(t *testing.T) {
	f, fetcher := newFixture(t, nil), webtest.New(t).Fetcher(nil)
	for _, tt := range []struct {
		documents dcr.Documents
		fetcher   *safefetch.Fetcher
		want      string
	}{
		{dcr.Documents{Trust: dcr.TrustAsk}, nil, "no fetcher"},
		{dcr.Documents{Trust: "maybe"}, fetcher, "not allow, ask or deny"},
		{dcr.Documents{Allow: []string{"example.com"}}, fetcher, "no trust"},
		{dcr.Documents{InsecureAllowLoopback: true}, fetcher, "no trust"},
		{dcr.Documents{Trust: dcr.TrustAsk, Allow: []string{"Example.com"}}, fetcher, "lowercase"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"*"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"a.*.example.com"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"https://example.com"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"example.com:8443"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{""}}, fetcher, "deny"},
	} {
		_, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Documents: tt.documents, Fetcher: tt.fetcher})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.documents, err, tt.want)
		}
	}
	if _, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Fetcher: fetcher, Documents: dcr.Documents{
		Trust: dcr.TrustAsk, Allow: []string{"127.0.0.1", "localhost", "*.example.com"},
	}}); err != nil {
		t.Error(err)
	}
}

// TestDocumentHeaders: an answer counts for as long as it says, within a minute and a day
// (RFC 9111 section 4.2).
func TestDocumentHeaders(t *testing.T) {
	date := "Date: Sun, 01 Mar 2026 12:00:00 GMT"
	for _, tt := range []struct {
		headers []string
		life    time.Duration
	}{
		{nil, 5 * time.Minute},
		{[]string{"Cache-Control: max-age=600"}, 10 * time.Minute},
		{[]string{"Cache-Control: public, Max-Age=600, must-revalidate"}, 10 * time.Minute},
		{[]string{`Cache-Control: max-age="600"`}, 10 * time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: 240"}, 6 * time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: 9999999999999999999999"}, time.Minute},
		{[]string{"Cache-Control: max-age=600", "Age: -240"}, 10 * time.Minute},
		{[]string{"Cache-Control: max-age=600, max-age=300"}, 5 * time.Minute},
		{[]string{"Cache-Control: max-age=600, s-maxage=1200"}, 20 * time.Minute},
		{[]string{"Cache-Control: s-maxage=1200, max-age=600"}, 20 * time.Minute},
		{[]string{"Cache-Control: s-maxage=120, max-age=600"}, 2 * time.Minute},
		{[]string{"Cache-Control: max-age=0"}, time.Minute},
		{[]string{"Cache-Control: max-age=-1"}, time.Minute},
		{[]string{"Cache-Control: max-age=soon"}, time.Minute},
		{[]string{"Cache-Control: max-age"}, time.Minute},
		{[]string{"Cache-Control: no-store"}, time.Minute},
		{[]string{"Cache-Control: max-age=600, no-store"}, time.Minute},
		{[]string{"Cache-Control: no-cache"}, time.Minute},
		{[]string{"Cache-Control: private, max-age=600"}, time.Minute},
		{[]string{"Cache-Control: max-age=31536000, immutable"}, 24 * time.Hour},
		{[]string{"Cache-Control: max-age=99999999999999999999"}, 24 * time.Hour},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT"}, 30 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT", "Age: 600"}, 20 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2026 12:30:00 GMT", "Cache-Control: max-age=120"}, 2 * time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2020 12:30:00 GMT"}, time.Minute},
		{[]string{date, "Expires: 0"}, time.Minute},
		{[]string{date, "Expires: Sun, 01 Mar 2099 12:30:00 GMT"}, 24 * time.Hour},
	} {
		t.Run(strings.Join(tt.headers, "; "), func(t *testing.T) {
			t.Parallel()
			r := newReader(t, nil)
			id := r.publish("client.example.com", nil, tt.headers...)
			r.resolve(t, id)
			r.clock.advance(tt.life - 1)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 1 {
				t.Errorf("read %d times before %s", n, tt.life)
			}
			r.clock.advance(1)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 2 {
				t.Errorf("read %d times after %s", n, tt.life)
			}
			r.clock.advance(-time.Hour)
			r.resolve(t, id)
			if n := r.web.Hits(id); n != 3 {
				t.Errorf("read %d times after the clock was set back", n)
			}
		})
	}
}

// TestDocumentRevalidates: a document that has not changed is not sent again.
func TestDocumentRevalidates(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body := published(id, nil)
	var conditions []string
	r.web.Serve(id, func(w http.ResponseWriter, q *http.Request) {
		conditions = append(conditions, q.Header.Get("If-None-Match")+q.Header.Get("If-Modified-Since"))
		w.Header().Set("Etag", `W/"1"`)
		if q.Header.Get("If-None-Match") == `W/"1"` {
			w.Header().Set("Cache-Control", "max-age=7200")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Age", "1800")
		_, _ = w.Write([]byte(body))
	})
	first := r.resolve(t, id)
	r.clock.advance(30 * time.Minute)
	if again := r.resolve(t, id); dcr.Digest(again) != dcr.Digest(first) || !again.Created.Equal(first.Created) {
		t.Errorf("client %+v, was %+v", again, first)
	}
	r.clock.advance(2*time.Hour - 1)
	r.resolve(t, id)
	if want := []string{"", `W/"1"`}; !slices.Equal(conditions, want) {
		t.Errorf("asked with %q, want %q", conditions, want)
	}
}

// TestDocumentHostDown: a document is not used beyond its time, and its host that is back
// is heard after a moment.
func TestDocumentHostDown(t *testing.T) {
	r := newReader(t, nil)
	id := r.publish("client.example.com", nil, "Cache-Control: max-age=600")
	r.resolve(t, id)
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	r.clock.advance(10*time.Minute - 1)
	r.resolve(t, id)
	r.clock.advance(1)
	r.unreachable(t, id)
	r.publish("client.example.com", map[string]any{"client_name": "Notes again"})
	r.clock.advance(5 * time.Second)
	if c := r.resolve(t, id); c.Metadata.ClientName != "Notes again" {
		t.Errorf("client %+v", c)
	}
	r.clock.advance(time.Hour)
	r.publish("client.example.com", map[string]any{"client_secret": "s"})
	r.refuses(t, id, "client_secret")
}

// TestDocumentIsReadOnce: many who want one document at one time cause one request.
func TestDocumentIsReadOnce(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body := published(id, nil)
	const callers = 200
	var arrived sync.WaitGroup
	arrived.Add(callers)
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Wait()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			arrived.Done()
			if c, err := r.Resolve(context.Background(), id); err != nil || c.ID != id {
				t.Errorf("resolved %q: %v", c.ID, err)
			}
		})
	}
	group.Wait()
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestDocumentCallerLeaves: who does not wait any more is not kept, and who still waits is
// served.
func TestDocumentCallerLeaves(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	body, asked, hold := published(id, nil), make(chan struct{}), make(chan struct{})
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-hold
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := r.Resolve(ctx, id); left <- err }()
	<-asked
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	close(hold)
	r.resolve(t, id)
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestDocumentLimit: a host is not asked again and again in vain, whatever strangers
// invent, and a client that was good there before is not harmed by that.
func TestDocumentLimit(t *testing.T) {
	r := newReader(t, nil)
	good := r.publish("client.example.com", nil, "Cache-Control: max-age=60")
	r.resolve(t, good)
	before := r.web.Connections.Load()
	for i := range 200 {
		if _, err := r.Resolve(t.Context(), r.web.URL("client.example.com", fmt.Sprint("/invented/", i))); err == nil {
			t.Fatal("invented and found")
		}
	}
	if n := r.web.Connections.Load() - before; n != 30 {
		t.Errorf("%d requests in vain, want 30", n)
	}
	fresh := r.web.URL("client.example.com", "/fresh.json")
	r.web.Document(fresh, published(fresh, nil))
	r.unreachable(t, fresh)
	r.clock.advance(time.Minute)
	for i := range 200 {
		_, _ = r.Resolve(t.Context(), r.web.URL("client.example.com", fmt.Sprint("/invented/", i)))
	}
	r.unreachable(t, fresh)
	r.resolve(t, good)
	r.resolve(t, r.publish("other.example.com", nil))
	for range 100 { // what succeeds costs nothing
		r.clock.advance(time.Minute)
		r.resolve(t, good)
	}
	r.resolve(t, fresh)
}

// TestDocumentsAreBounded: a host that serves a document at every address fills the cache
// with nothing but its own, and what is in use stays.
func TestDocumentsAreBounded(t *testing.T) {
	r := newReader(t, nil)
	used := r.publish("client.example.com", nil, "Cache-Control: max-age=86400")
	r.resolve(t, used)
	r.web.Serve("*", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(published("https://"+q.Host+q.URL.Path, map[string]any{"padding": strings.Repeat("p", 9000)})))
	})
	const many = 500 // of more than 9 KiB each: more than twice what one generation holds
	for i := range many {
		r.resolve(t, r.web.URL("flood.example.org", fmt.Sprint("/", i)))
		if i%100 == 0 {
			r.resolve(t, used)
		}
	}
	if n := r.web.Hits(used); n != 1 {
		t.Errorf("the document in use was read %d times", n)
	}
	first := r.web.URL("flood.example.org", "/0")
	r.resolve(t, first)
	if n := r.web.Hits(first); n != 2 {
		t.Errorf("the first of the flood was read %d times", n)
	}
	last := r.web.URL("flood.example.org", fmt.Sprint("/", many-1))
	r.resolve(t, last)
	if n := r.web.Hits(last); n != 1 {
		t.Errorf("the last of the flood was read %d times", n)
	}
}

func TestDigest(t *testing.T) {
	r := newReader(t, nil)
	base := map[string]any{"redirect_uris": []string{"http://127.0.0.1/a", "http://127.0.0.1/b"}, "scope": "notes:read"}
	seen := map[string]string{}
	digest := func(change map[string]any) string {
		members := maps.Clone(base)
		maps.Copy(members, change)
		r.clock.advance(24 * time.Hour)
		return dcr.Digest(r.resolve(t, r.publish("client.example.com", members)))
	}
	same := digest(nil)
	key := func(x string) map[string]any {
		return map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "x": x}}}
	}
	one, two := key("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), key("__________________________________________8")
	for name, change := range map[string]map[string]any{
		"a name":           {"client_name": "Other"},
		"a localised name": {"client_name#de": "Anders"},
		"a redirect URI":   {"redirect_uris": []string{"http://127.0.0.1/a", "http://127.0.0.1/c"}},
		"one less":         {"redirect_uris": []string{"http://127.0.0.1/a"}},
		"a page":           {"client_uri": r.web.URL("client.example.com", "/about")},
		"a logo":           {"logo_uri": r.web.URL("client.example.com", "/about")},
		"terms":            {"tos_uri": "https://example.org/tos"},
		"a policy":         {"policy_uri": "https://example.org/tos"},
		"keys":             {"jwks": one},
		"other keys":       {"jwks": two},
		"keys elsewhere":   {"jwks_uri": "https://example.org/jwks.json"},
		"a method":         {"jwks": one, "token_endpoint_auth_method": "private_key_jwt"},
		"a method more":    {"jwks": one, "token_endpoint_auth_methods_supported": []string{"private_key_jwt"}},
		"an algorithm":     {"jwks": one, "token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "EdDSA"},
		"scope":            {"scope": "notes:read notes:write"},
		"grant types":      {"grant_types": []string{"authorization_code"}},
	} {
		got := digest(change)
		if got == same || seen[got] != "" || len(got) != 43 {
			t.Errorf("%s: digest %q is that of %q", name, got, seen[got])
		}
		seen[got] = name
	}
	for name, change := range map[string]map[string]any{
		"another order": {"redirect_uris": []string{"http://127.0.0.1/b", "http://127.0.0.1/a"}, "grant_types": []string{"refresh_token", "authorization_code"}},
		"a contact":     {"contacts": []string{"a@example.com"}},
		"a version":     {"software_version": "2"},
		"another":       {"x": 1},
		"nothing":       nil,
	} {
		if digest(change) != same {
			t.Errorf("%s: another digest", name)
		}
	}
	c := storage.Client{ID: "a", Source: storage.ClientRegistered}
	d := c
	d.Source = storage.ClientConfigured
	if dcr.Digest(c) == dcr.Digest(d) {
		t.Error("sources are the same")
	}
	c.LastUsed, c.Disabled, c.Secret = start, true, storage.HashSecret("s")
	d.Source = storage.ClientRegistered
	if dcr.Digest(c) != dcr.Digest(d) {
		t.Error("what nobody relies on changes the digest")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
