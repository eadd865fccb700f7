package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const guarded = "https://notes.example.com/mcp"

// startGateway runs "authz gateway" with args and environ and waits until it is ready.
func startGateway(t *testing.T, grace time.Duration, environ []string, args ...string) *running {
	t.Helper()
	return startWith(t, grace, environ, append([]string{"gateway", "--listen", "127.0.0.1:0", "--resource", guarded}, args...)...)
}

// sent is the response to a request with a token through a gateway.
func sent(t *testing.T, r *running, method, path, body, token string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.shown("listening on")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(answer)
}

// echo is an upstream that answers with the request that it received.
func echo(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", "7")
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.URL.Path, "header": r.Header, "body": string(body)})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestGateway(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	r := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", echo(t)+"/server", "--scopes", "../../docs/examples/scopes.yaml", "--resource-name", "Notes")
	if r.shown("connect to") != guarded || !strings.HasSuffix(r.shown("forwards to"), "/server") || r.shown("sign in at") != issuer.URL() || !strings.Contains(r.shown("identity"), "Gatehouse-Subject") {
		t.Errorf("it says\n%s", r.stdout.String())
	}
	_, _, document := sent(t, r, "GET", "/.well-known/oauth-protected-resource/mcp", "", "")
	var metadata struct {
		Resource, Name string
		Scopes         []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal([]byte(document), &metadata); err != nil || metadata.Resource != guarded || !strings.Contains(document, `"resource_name":"Notes"`) ||
		!slices.Equal(metadata.Scopes, []string{"notes:admin", "notes:read", "notes:write"}) && !slices.Equal(metadata.Scopes, []string{"notes:read", "notes:write", "notes:admin"}) {
		t.Errorf("metadata: %s", document)
	}
	call := func(tool string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
	}
	status, header, _ := sent(t, r, "POST", "/mcp", call("list_notes"), "")
	if challenge := header.Get("WWW-Authenticate"); status != 401 || !strings.Contains(challenge, `scope="notes:read", resource_metadata="https://notes.example.com/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("without a token: %d %s", status, challenge)
	}
	token := issuer.Mint(middlewaretest.Claims{"aud": guarded, "scope": "notes:read"})
	status, _, answer := sent(t, r, "POST", "/mcp/x", call("list_notes"), token)
	var got struct {
		Path, Body string
		Header     http.Header
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || got.Path != "/server/x" || got.Body != call("list_notes") || got.Header.Get("Gatehouse-Subject") != "reader" || strings.Contains(answer, token) {
		t.Errorf("%d %s", status, answer)
	}
	for tool, want := range map[string]int{"whoami": 200, "add_note": 403, "admin_reset": 403, "unheard": 403} {
		if status, _, answer := sent(t, r, "POST", "/mcp", call(tool), token); status != want {
			t.Errorf("%s: %d %s, want %d", tool, status, answer, want)
		}
	}
	if status, _, _ := sent(t, r, "GET", "/verify", "", token); status != 403 {
		t.Errorf("/verify with some scopes: %d", status)
	}
	if status := r.ended(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Session ids are bound with a key that several gateways can share.
func TestGatewaysShareASessionKey(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	upstream := echo(t)
	args := []string{"--issuer", issuer.URL(), "--upstream", upstream}
	shared := []string{"AUTHZ_SESSION_KEY=" + testKey(1)}
	first, second, alone := startGateway(t, deadline, shared, args...), startGateway(t, deadline, shared, args...), startGateway(t, deadline, nil, args...)
	token := issuer.Mint(middlewaretest.Claims{"aud": guarded})
	_, header, _ := sent(t, first, "POST", "/mcp", "{}", token)
	session := header.Get("Mcp-Session-Id")
	for r, want := range map[*running]int{first: 200, second: 200, alone: 404} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.shown("listening on")+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Mcp-Session-Id", session)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("session %q: %s, want %d", session, res.Status, want)
		}
	}
}

// A revoked token is refused when introspection is configured.
func TestGatewayAsksTheIssuer(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	asked := make(chan string, 8)
	issuer.SetDocument("/introspect", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		asked <- id + " " + secret
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	issuer.SetDocument("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": issuer.URL(), "authorization_endpoint": issuer.URL() + "/authorize", "token_endpoint": issuer.URL() + "/token", "jwks_uri": issuer.URL() + "/jwks.json",
		"introspection_endpoint": issuer.URL() + "/introspect", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	})
	dir := t.TempDir()
	write(t, dir, "secret", "hunter22\n")
	for id, args := range map[string][]string{
		"https%3A%2F%2Fnotes.example.com%2Fmcp": {"--introspection-secret-file", dir + "/secret"},
		"notes":                                 {"--introspection-secret", "hunter22", "--introspection-client-id", "notes"},
	} {
		r := startGateway(t, deadline, nil, append(args, "--issuer", issuer.URL(), "--verify-only")...)
		if status, _, answer := sent(t, r, "GET", "/verify", "", issuer.Mint(middlewaretest.Claims{"aud": guarded})); status != 401 {
			t.Errorf("%d %s", status, answer)
		}
		select {
		case got := <-asked:
			if got != id+" hunter22" {
				t.Errorf("it asks as %q, want %s", got, id)
			}
		default:
			t.Error("nobody was asked")
		}
		if strings.Contains(r.stdout.String()+r.stderr.String(), "hunter22") {
			t.Errorf("the secret is printed:\n%s%s", r.stdout.String(), r.stderr.String())
		}
	}
}

// When the gateway stops, streams end within the time for it, over TLS and HTTP/2 as well, and the
// exit status is 0.
func TestGatewayEnds(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	args := []string{"--issuer", issuer.URL(), "--upstream", upstream.URL}
	for scheme, more := range map[string][]string{"http": nil, "https": {"--no-end-streams", "--tls-cert", dir + "/cert.pem", "--tls-key", dir + "/key.pem"}} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			r := startGateway(t, 4*time.Second, nil, slices.Concat(args, more)...)
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}, ForceAttemptHTTP2: true}
			t.Cleanup(transport.CloseIdleConnections)
			req, err := http.NewRequestWithContext(t.Context(), "GET", scheme+"://"+r.shown("listening on")+"/mcp", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": guarded}))
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if want := map[string]int{"http": 1, "https": 2}[scheme]; res.ProtoMajor != want {
				t.Errorf("%s", res.Proto)
			}
			events := bufio.NewReader(res.Body)
			line, err := events.ReadString('\n')
			if own := strings.HasPrefix(line, "id: "); own != (scheme == "http") || err != nil {
				t.Errorf("the stream begins with %q, %v: a stream that ends with its token begins with an event of its own", line, err)
			}
			for line != "data: 1\n" && err == nil {
				line, err = events.ReadString('\n')
			}
			if status := r.ended(t); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if rest, err := io.ReadAll(events); err != nil || string(rest) != "\n" {
				t.Errorf("the stream ends with %q, %v", rest, err)
			}
			if strings.Contains(r.stderr.String(), "cut off") {
				t.Errorf("the log:\n%s", r.stderr.String())
			}
		})
	}
}

// Each weak setting is one warning line, and there is no warning without a reason.
func TestGatewayWarnings(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	base := []string{"--issuer", issuer.URL()}
	local := append(slices.Clone(base), "--upstream", "http://127.0.0.1:9/mcp")
	for _, tt := range []struct {
		name    string
		environ []string
		args    []string
		want    []string
	}{
		{"nothing", nil, local, nil},
		{"an upstream over TLS", nil, append(slices.Clone(base), "--upstream", "https://upstream.example.com/mcp"), nil},
		{"an upstream elsewhere", nil, append(slices.Clone(base), "--upstream", "http://upstream.example.com/mcp"), []string{"the upstream is http on another machine"}},
		{"headers are believed", nil, append(slices.Clone(local), "--insecure-trust-mcp-headers", "--scopes", "../../docs/examples/scopes.yaml"), []string{"/verify relies on Mcp-Method"}},
		{"headers are believed for nothing", nil, append(slices.Clone(local), "--insecure-trust-mcp-headers"), []string{"/verify relies on Mcp-Method", "has no effect without scopes"}},
		{"a key for nothing", []string{"AUTHZ_ASSERTION_KEY=x"}, local, []string{"assertion-key has no effect"}},
		{"a session key for nothing", []string{"AUTHZ_SESSION_KEY=x"}, append(slices.Clone(base), "--verify-only"), []string{"session-key has no effect"}},
		{"an id without a secret", nil, append(slices.Clone(local), "--introspection-client-id", "x"), []string{"introspection-client-id has no effect"}},
		{"a variable that is none", []string{"AUTHZ_UPSTREEM=x"}, local, []string{"AUTHZ_UPSTREEM is not a setting: the nearest one is AUTHZ_UPSTREAM"}},
		{"every interface", nil, append(slices.Clone(local), "--listen", "0.0.0.0:0"), []string{"is open to other machines without TLS"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startGateway(t, deadline, tt.environ, tt.args...)
			for _, sentence := range tt.want {
				if !strings.Contains(r.stderr.String(), sentence) {
					t.Errorf("%q is not said", sentence)
				}
			}
			if got := strings.Count(r.stderr.String(), "level=WARN"); got != len(tt.want) {
				t.Errorf("%d warnings, want %d:\n%s", got, len(tt.want), r.stderr.String())
			}
		})
	}
}

// A private key on P-256 is read in every PEM form that tools write.
func TestAssertionKeyFiles(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err1 := x509.MarshalECPrivateKey(key)
	pkcs8, err2 := x509.MarshalPKCS8PrivateKey(key)
	public, err3 := x509.MarshalPKIXPublicKey(&key.PublicKey)
	other, err4 := rsa.GenerateKey(rand.Reader, 2048)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Fatal(err1, err2, err3, err4)
	}
	rsa8, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	parameters := block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7})
	for name, text := range map[string]string{
		"openssl ecparam": parameters + block("EC PRIVATE KEY", sec1), "openssl pkey": block("PRIVATE KEY", pkcs8), "a comment before it": "my key\n" + block("PRIVATE KEY", pkcs8),
	} {
		if got, err := parseAssertionKeys([]byte(text)); err != nil || len(got) != 1 || !got[0].Equal(key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "hunter22", "parameters alone": parameters, "a public key": block("PUBLIC KEY", public), "RSA": block("PRIVATE KEY", rsa8),
		"rubbish": block("PRIVATE KEY", []byte("hunter22")), "older rubbish": block("EC PRIVATE KEY", []byte("hunter22")),
	} {
		if _, err := parseAssertionKeys([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every setting of the gateway is a row of the table in docs/gateway.md, with its default,
// and every row is a setting.
func TestGatewaySettingsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `--") {
			rows[strings.Trim(cells[1], " `-")] = strings.Trim(cells[2], " `")
		}
	}
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range settings.FlagsOf(parser.Model, "gateway") {
		shown, ok := rows[flag.Name]
		if !ok {
			t.Errorf("--%s is not in the table", flag.Name)
		} else if flag.HasDefault && shown != flag.Default {
			t.Errorf("--%s has the default %s, the table says %s", flag.Name, flag.Default, shown)
		}
		delete(rows, flag.Name)
	}
	for name := range rows {
		t.Errorf("--%s is in the table and no setting", name)
	}
}

func TestScopesFile(t *testing.T) {
	type lists = map[string][]string
	for _, tt := range []struct {
		name, text string
		want       scopeRules
	}{
		{"one for all", "scopes: notes:read", scopeRules{policy: middleware.Policy{Scopes: []string{"notes:read"}}, supported: []string{"notes:read"}}},
		{"several for all", "scopes: [a, b c]", scopeRules{policy: middleware.Policy{Scopes: []string{"a", "b", "c"}}, supported: []string{"a", "b", "c"}}},
		{"every value", "tools:\n  one: a:b\n  two: a:b  c\n  list:\n    - d\n    - e\n  open: []\n  also: ''\n  number: 1\n", scopeRules{
			policy:    middleware.Policy{Tools: lists{"one": {"a:b"}, "two": {"a:b", "c"}, "list": {"d", "e"}, "open": {}, "also": {}, "number": {"1"}}},
			supported: []string{"a:b", "c", "d", "e", "1"},
		}},
		{"every part", "methods:\n  notifications/*: m\ntools:\n  \"*\": t\nprompts:\n  p_*: p\nresources:\n  notes://*/x: r\nimplies:\n  admin: [t, p]\nlisting: granted\n", scopeRules{
			policy: middleware.Policy{
				Methods: lists{"notifications/*": {"m"}}, Tools: lists{"*": {"t"}}, Prompts: lists{"p_*": {"p"}}, Resources: lists{"notes://*/x": {"r"}},
				Implies: lists{"admin": {"t", "p"}}, Listing: middleware.ListGranted,
			},
			supported: []string{"m", "t", "p", "r", "admin"},
		}},
		{"a part without names", "tools: {}", scopeRules{policy: middleware.Policy{Tools: lists{}}}},
		{"what is told", "tools:\n  a: b\nchallenge_scopes: c\nscopes-supported: d e\nlisting: all", scopeRules{
			policy: middleware.Policy{Tools: lists{"a": {"b"}}, Listing: middleware.ListAll}, challenge: []string{"c"}, supported: []string{"d", "e"},
		}},
		{"nothing is told", "tools:\n  a: b\nchallenge-scopes: []\nscopes-supported: []", scopeRules{
			policy: middleware.Policy{Tools: lists{"a": {"b"}}}, challenge: []string{}, supported: []string{},
		}},
		{"told alone", "challenge-scopes: c", scopeRules{challenge: []string{"c"}, supported: []string{"c"}}},
	} {
		got, err := readScopes("scopes.yaml", []byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
	for text, says := range map[string]string{
		"":                               "scopes.yaml: there are no rules",
		"# later":                        "scopes.yaml: there are no rules",
		"tools:":                         "scopes.yaml:1: tools must be keys with values",
		"tools: notes:read":              "scopes.yaml:1: tools must be keys with values",
		"tools:\n  - a":                  "scopes.yaml:1: tools must be keys with values",
		"tools:\n  a: ~":                 "scopes.yaml:2: a has no value",
		"tools:\n  a: [b, [c]]":          "scopes.yaml:2: a must be a single value",
		"tools:\n  a: [b, ~]":            "scopes.yaml:2: a has no value",
		"tools:\n  1: b":                 "scopes.yaml:2: \"1\" is not a string, so it cannot be a key",
		"tools:\n  a: b\n  a: b":         "scopes.yaml:3: a is set twice, the first time in line 2",
		"tools: {a: b}":                  "scopes.yaml:1: tools must not be in braces",
		"tools:\n  a: offline_access":    "scopes.yaml:2: a: \"offline_access\" is not a scope",
		"scopes:\n":                      "scopes.yaml:1: scopes has no value",
		"implies:\n  \"a b\": c":         "scopes.yaml:2: \"a b\" is not a scope",
		"listing: [all]":                 "scopes.yaml:1: listing must be a single value",
		"listing: ALL":                   "scopes.yaml:1: listing \"ALL\" is not known",
		"tools:\n  a: b\nTools:\n  a: b": "scopes.yaml:3: unknown key \"Tools\": the nearest valid key is \"tools\"",
		"tools:\n  a: b\ntools:\n  c: d": "scopes.yaml:3: tools is set twice, the first time in line 1",
		"- a":                            "scopes.yaml:1: the file must be keys with values",
		"a: 1\n---\nb: 1":                "scopes.yaml: there is more than one document",
	} {
		if _, err := readScopes("scopes.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

// TestScopesFileNamesMethods: a method that no request could have is a mistake, with its line.
func TestScopesFileNamesMethods(t *testing.T) {
	_, err := readScopes("scopes.yaml", []byte("methods:\n  ping: []\n  Tools/Call: notes:admin\n"))
	if err == nil || !strings.Contains(err.Error(), "scopes.yaml:3: methods: Tools/Call: ") {
		t.Errorf("%v", err)
	}
}

// FuzzScopesFile: the middleware accepts the policy from any file, or the error for the file has
// its name.
func FuzzScopesFile(f *testing.F) {
	example, err := os.ReadFile("../../docs/examples/scopes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", string(example), "tools:\n  \"\": a", "scopes: [a, b c]", "implies:\n  a: [b]\n  b: [a]\n", "tools: &x\n  a: b\nprompts: *x", "tools:\n  ? a\n  : b", "listing: all"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := readScopes("scopes.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "scopes.yaml:") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		_, err = middleware.New(middleware.Config{
			Resource: guarded, AuthorizationServers: []string{"https://auth.example.com"}, Policy: rules.policy, Scopes: rules.supported, ChallengeScopes: rules.challenge,
		})
		if err != nil {
			t.Errorf("%q is read as %+v, which is refused: %v", text, rules, err)
		}
	})
}
