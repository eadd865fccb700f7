package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives spans.
type collector struct {
	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*otlp.Span
}

// newCollector returns a collector to which servers of this process send their spans.
func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent collect.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for _, of := range sent.ResourceSpans {
			for _, in := range of.ScopeSpans {
				c.spans = append(c.spans, in.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return c
}

// tree returns the names of the spans of each trace, each behind those that it is in.
func (c *collector) tree() map[string][]string {
	byID := map[string]*otlp.Span{}
	for _, span := range c.spans {
		byID[string(span.SpanId)] = span
	}
	trees := map[string][]string{}
	for _, span := range c.spans {
		path := span.Name
		for in := byID[string(span.ParentSpanId)]; in != nil; in = byID[string(in.ParentSpanId)] {
			path = in.Name + " > " + path
		}
		trace := hex.EncodeToString(span.TraceId)
		trees[trace] = append(trees[trace], path)
	}
	return trees
}

// with returns the trace that has a span with that path.
func (c *collector) with(t *testing.T, path string) (trace string, paths []string) {
	t.Helper()
	trees := c.tree()
	for trace, paths := range trees {
		if slices.Contains(paths, path) {
			return trace, paths
		}
	}
	t.Fatalf("no trace has %s: %q", path, trees)
	return "", nil
}

// tracedClient is a client with everything secret that it sent and got.
type tracedClient struct {
	t       *testing.T
	http    *http.Client
	secrets []string
}

const (
	strangersTrace = "0af7651916cd43dd8448eb211c80319c"
	strangersState = "vendor=SECRET-STATE-OF-A-STRANGER"
)

// send sends a form or a body, with a traceparent, and returns the answer.
func (c *tracedClient) send(method, address, kind, body string, header ...string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", "SECRET-USER-AGENT")
	r.Header.Set("Traceparent", "00-"+strangersTrace+"-b7ad6b7169203331-01")
	r.Header.Set("Tracestate", strangersState)
	r.Header.Set("Baggage", "person=SECRET-BAGGAGE")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, cookie := range res.Cookies() {
		c.secrets = append(c.secrets, cookie.Value)
	}
	return res, string(text)
}

func (c *tracedClient) post(address string, form url.Values) (*http.Response, string) {
	c.t.Helper()
	for _, values := range form {
		c.secrets = append(c.secrets, values...)
	}
	return c.send("POST", address, "application/x-www-form-urlencoded", form.Encode())
}

var namedInput = regexp.MustCompile(`name="?([a-z_]+)"?[^>]* value="([^"]*)"`)

// submit sends the hidden inputs of a page with more, and returns the page to which that leads.
func (c *tracedClient) submit(address, page string, more url.Values) (*http.Response, string) {
	c.t.Helper()
	for _, input := range namedInput.FindAllStringSubmatch(page, -1) {
		if input[1] == "transaction" || input[1] == "csrf" {
			more.Set(input[1], input[2])
		}
		if input[1] == "scope" {
			more.Add(input[1], input[2])
		}
	}
	return c.post(address, more)
}

// object sends a form to an endpoint and returns the answer in JSON.
func (c *tracedClient) object(address string, form url.Values) map[string]any {
	c.t.Helper()
	_, text := c.post(address, form)
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatalf("%s: %v: %s", address, err, text)
	}
	for _, value := range out {
		if secret, ok := value.(string); ok {
			c.secrets = append(c.secrets, secret)
		}
	}
	return out
}

const traceVerifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// signUp registers a client, signs a person in, and returns the client's id and tokens.
func (c *tracedClient) signUp(issuer string) (id string, tokens map[string]any) {
	c.t.Helper()
	_, text := c.send("POST", issuer+"/register", "application/json", `{"client_name":"SECRET-CLIENT-NAME","redirect_uris":["http://127.0.0.1:7777/secret-callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)
	var registered map[string]any
	if err := json.Unmarshal([]byte(text), &registered); err != nil {
		c.t.Fatal(err)
	}
	id, _ = registered["client_id"].(string)
	access, _ := registered["registration_access_token"].(string)
	c.secrets = append(c.secrets, id, access)
	asked := url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {"http://127.0.0.1:7777/secret-callback"}, "state": {"SECRET-STATE"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, "resource": {guarded},
	}
	_, login := c.send("GET", issuer+"/authorize?"+asked.Encode(), "", "")
	c.submit(issuer+"/login", login, url.Values{"username": {"SECRET-NAME"}, "password": {"SECRET-WRONG-PASSWORD"}})
	_, consent := c.submit(issuer+"/login", login, url.Values{"username": {"demo"}, "password": {"SECRET-PASSWORD"}})
	res, page := c.submit(issuer+"/consent", consent, url.Values{"decision": {"allow"}})
	back, err := res.Location()
	if err != nil || back.Query().Get("code") == "" {
		c.t.Fatalf("%v %v\n%s", res.Status, err, page)
	}
	return id, c.object(issuer+"/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {id}, "code": {back.Query().Get("code")}, "code_verifier": {traceVerifier}})
}

func newTracedClient(t *testing.T) *tracedClient {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tracedClient{t: t, http: &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/secret-callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

// TestTraces drives a server and a gateway with everything secret that there is. The spans of a
// token request and of a guarded request are one tree each, the latter over both programs, and no
// span has anything that was sent.
func TestTraces(t *testing.T) {
	spans := newCollector(t)
	server := start(t, []string{"AUTHZ_DEV_PASSWORD=SECRET-PASSWORD", "AUTHZ_DEV_INTROSPECTION_SECRET=SECRET-OF-THE-RESOURCE"},
		"--dev", "--listen", "127.0.0.1:0", "--dev-resource", guarded, "--trusted-proxies", "127.0.0.0/8")
	issuer := server.shown("issuer")
	gate := startGateway(t, deadline, []string{"AUTHZ_INTROSPECTION_SECRET=SECRET-OF-THE-RESOURCE"}, "--issuer", issuer, "--upstream", echo(t))
	c := newTracedClient(t)
	id, tokens := c.signUp(issuer)
	access := fmt.Sprint(tokens["access_token"])
	refreshed := c.object(issuer+"/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {fmt.Sprint(tokens["refresh_token"])}})
	res, forwarded := c.send("POST", "http://"+gate.shown("listening on")+"/mcp?SECRET-QUERY", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"SECRET-TOOL"}}`, "Authorization", "Bearer "+access)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", res.Status, forwarded)
	}
	for _, junk := range []string{"/register/SECRET-PATH", "/login/SECRET-PROVIDER/callback?code=SECRET-CODE", "/SECRET-PATH", "/authorize?client_id=SECRET-ID"} {
		c.send("SECRET-METHOD", issuer+junk, "", "", "Authorization", "Bearer SECRET-BEARER")
		c.send("GET", issuer+junk, "", "", "X-Request-Id", "SECRET-REQUEST")
	}
	c.post(issuer+"/revoke", url.Values{"client_id": {id}, "token": {fmt.Sprint(refreshed["refresh_token"])}})
	if gate.ended(t) != exitDone || server.ended(t) != exitDone {
		t.Error("a process failed")
	}
	c.mustBeSilent(spans)
	trace, paths := spans.with(t, "POST /token > redeem > sign")
	if trace != strangersTrace {
		t.Errorf("a request from a trusted network has the trace %s", trace)
	}
	for _, want := range []string{
		"POST /token", "POST /token > client", "POST /token > redeem > store get", "POST /token > redeem > store put", "POST /token > refresh > sign",
		"GET /authorize > authorization > client", "POST /login > password", "POST /consent > grant", "POST /register > registration > store put", "POST /revoke > revoke > store put", "_OTHER other",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("there is no %s in %q", want, paths)
		}
	}
	trace, paths = spans.with(t, "POST > policy")
	for _, want := range []string{
		"POST > forward", "POST > token", "POST > token > introspection > POST /introspect > resource_server", "POST > token > introspection > POST /introspect > introspect > store get",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("there is no %s in %q", want, paths)
		}
	}
	if trace == strangersTrace || !strings.Contains(forwarded, "00-"+trace+"-") || strings.Contains(forwarded, strangersTrace) || strings.Contains(forwarded, "SECRET-STATE-OF") {
		t.Errorf("the trace of a stranger's request is %s, and the upstream got\n%s", trace, forwarded)
	}
}

// mustBeSilent looks for everything that was sent in what the collector got.
func (c *tracedClient) mustBeSilent(spans *collector) {
	c.t.Helper()
	raw := spans.raw.String()
	if len(spans.spans) < 50 {
		c.t.Errorf("there are only %d spans", len(spans.spans))
	}
	for _, secret := range append(c.secrets, "SECRET", "secret-", "demo", "127.0.0.1", "7777", guarded[8:13]+".example.com/mcp?", traceVerifier) {
		if len(secret) > 3 && secret != "Bearer" && !slices.Contains([]string{"authorization_code", "refresh_token", "allow"}, secret) && strings.Contains(raw, secret) {
			c.t.Errorf("a span has %q", secret)
		}
	}
}
