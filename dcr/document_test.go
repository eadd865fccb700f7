package dcr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// reader is a fixture that reads documents, and the web that serves them.
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

// published returns a valid document at an address, with members replaced; nil leaves one out.
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

// refuses checks that id cannot be resolved, for a reason that contains want.
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
	id := r.publish("client.example.com", map[string]any{"scope": "notes:read other a\\b notes:read", "contacts": []string{"a@example.com"}, "software_id": "notes"})
	c := r.resolve(t, id)
	want := storage.Client{ID: id, Source: storage.ClientDocument, Created: start, AuthMethods: []string{"none"}, Metadata: metadata.Client{
		ClientName: "Notes", RedirectURIs: []string{"http://127.0.0.1/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none", Scope: "notes:read other", Contacts: []string{"a@example.com"}, SoftwareID: "notes",
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

// TestDocumentIDs: an invalid client identifier is refused before anything is fetched
// (draft-ietf-oauth-client-id-metadata-document section 3).
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

// TestDocumentRules: each document has one error.
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
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://127.0.0.1/jwks.json"}, "jwks_uri"},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set(key), "token_endpoint_auth_signing_alg": "HS256"}, "token_endpoint_auth_signing_alg"},
		{map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set(key), "jwks_uri": "https://client.example.com/jwks.json"}, "jwks"},
		{map[string]any{"jwks": set(private)}, "private"},
		{map[string]any{"jwks": set(key, map[string]any{"kty": "oct", "k": "c2VjcmV0"})}, "private or symmetric"},
		{map[string]any{"grant_types": []string{"client_credentials"}}, "grant_types"},
		{map[string]any{"grant_types": []string{"implicit", "authorization_code"}}, ""},
		{map[string]any{"grant_types": nil, "response_types": nil}, ""},
		{map[string]any{"dpop_bound_access_tokens": true}, "dpop_bound_access_tokens"},
		{map[string]any{"dpop_bound_access_tokens": false}, ""},
		{map[string]any{"tls_client_certificate_bound_access_tokens": true}, "tls_client_certificate_bound_access_tokens"},
		{map[string]any{"require_pushed_authorization_requests": true}, "require_pushed_authorization_requests"},
		{map[string]any{"require_signed_request_object": true}, "require_signed_request_object"},
		{map[string]any{"require_pushed_authorization_requests": false, "require_signed_request_object": false, "tls_client_certificate_bound_access_tokens": false}, ""},
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

// TestDocumentLinks: a page or logo at another origin than the document is left out.
func TestDocumentLinks(t *testing.T) {
	r := newReader(t, nil)
	own := func(path string) string { return r.web.URL("client.example.com", path) }
	c := r.resolve(t, r.publish("client.example.com", map[string]any{
		"client_uri": own("/about"), "logo_uri": own("/logo.png"), "tos_uri": "https://legal.example.org/tos", "policy_uri": "javascript:alert(1)",
		"client_name#de": "Notizen\u202e", "client_name#fr": 7, "client_name#": "x", "client_name#a b": "x", "client_name#de-x" + strings.Repeat("-abcdefgh", 4): "x",
		"logo_uri#de": "https://evil.example.org/",
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
