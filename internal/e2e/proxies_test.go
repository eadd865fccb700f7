//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

const (
	publicHost     = "notes.example.com"
	publicResource = "https://" + publicHost + "/mcp"
	publicMetadata = "/.well-known/oauth-protected-resource/mcp"
	// forged is part of every value that an attacker invents.
	forged = "hunter22"
)

// behind is the server behind a proxy. It records the requests that reach it.
type behind struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	release  chan struct{} // lets streams go on
}

func newBehind(t *testing.T) *behind {
	t.Helper()
	b := &behind{release: make(chan struct{})}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.requests, b.bodies = append(b.requests, r), append(b.bodies, string(body))
	b.mu.Unlock()
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-b.release
		_, _ = io.WriteString(w, "data: second\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// taken returns the requests that have reached the server since its last call.
func (b *behind) taken() ([]*http.Request, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.requests, b.bodies = nil, nil }()
	return b.requests, b.bodies
}

// proxied is a proxy that runs a recipe, in front of a gateway and a server.
type proxied struct {
	t       *testing.T
	address string
	issuer  *middlewaretest.Issuer
	server  *behind
	verify  bool
	from    net.IP                     // the address of the client
	seen    atomic.Pointer[netip.Addr] // the one that the gateway saw last
}

// newProxied starts the gateway and the server for a recipe, and then the proxy.
func newProxied(t *testing.T, verify bool, run func(t *testing.T, gate, server string) string) *proxied {
	t.Helper()
	p := &proxied{t: t, issuer: middlewaretest.NewIssuer(t), server: newBehind(t), verify: verify, from: net.IPv4(127, 0, 0, 1)}
	config := gateway.Config{VerifyOnly: verify, Guard: middleware.Config{
		Resource: publicResource, AuthorizationServers: []string{p.issuer.URL()}, Scopes: []string{"notes:read"},
		Policy: middleware.Policy{Scopes: []string{"notes:read"}}, InsecureUnboundSessions: true,
		Observe:        func(_ *http.Request, e middleware.Event) { p.seen.Store(&e.Remote) },
		AllowedOrigins: []string{"*"}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}}
	if !verify {
		config.Upstream = p.server.URL + "/mcp"
	}
	gate, err := gateway.New(config)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gate)
	t.Cleanup(front.Close)
	p.address = run(t, strings.TrimPrefix(front.URL, "http://"), strings.TrimPrefix(p.server.URL, "http://"))
	return p
}

func recipe(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../docs/recipes", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// installed returns the path of a proxy, which scripts/test installs.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: scripts/test does that", name)
	}
	return path
}

func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runNginx runs nginx with a recipe in one process, on loopback.
func runNginx(name string) func(t *testing.T, gate, server string) string {
	return func(t *testing.T, gate, server string) string {
		binary, address, dir := installed(t, "nginx"), redistest.FreeAddress(t), t.TempDir()
		conf := written(t, fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	upstream gatehouse { server %[2]s; }
	upstream notes { server %[3]s; }
	upstream mcp { server %[3]s; }
	upstream reports { server %[3]s; }
	server { listen %[4]s; server_name %[5]s; include %[6]s; }
}
`, dir, gate, server, address, publicHost, recipe(t, name)))
		startForeign(t, "http://"+address, exec.Command(binary, "-p", dir, "-c", conf))
		return address
	}
}

// runCaddy runs Caddy with a recipe, on loopback.
func runCaddy(name string) func(t *testing.T, gate, server string) string {
	return func(t *testing.T, gate, server string) string {
		binary, address := installed(t, "caddy"), redistest.FreeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		conf := written(t, "{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tauto_https off\n}\nimport "+recipe(t, name)+"\n")
		cmd := exec.Command(binary, "run", "--adapter", "caddyfile", "--config", conf)
		home := t.TempDir()
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "SITE=http://"+publicHost+":"+port, "GATEWAY="+gate, "SERVER="+server)
		startForeign(t, "http://"+address, cmd)
		return address
	}
}

// eachRecipe runs a test against each proxy that runs.
func eachRecipe(t *testing.T, test func(t *testing.T, p *proxied)) {
	for _, tt := range []struct {
		name   string
		verify bool
		run    func(t *testing.T, gate, server string) string
	}{
		{"nginx-gateway.conf", false, runNginx("nginx-gateway.conf")}, {"nginx-verify.conf", true, runNginx("nginx-verify.conf")},
		{severalRecipe, true, runNginx(severalRecipe)},
		{"Caddyfile-gateway", false, runCaddy("Caddyfile-gateway")}, {"Caddyfile-verify", true, runCaddy("Caddyfile-verify")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			test(t, newProxied(t, tt.verify, tt.run))
		})
	}
}

func (p *proxied) token() string {
	return p.issuer.Mint(middlewaretest.Claims{"aud": publicResource, "scope": "notes:read"})
}

// head is the beginning of a request. Lines come without their ends.
func (p *proxied) head(method, target, token string, lines ...string) string {
	all := append([]string{method + " " + target + " HTTP/1.1", "Host: " + publicHost}, lines...)
	if token != "" {
		all = append(all, "Authorization: Bearer "+token)
	}
	return strings.Join(all, "\r\n") + "\r\n"
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// call is a whole request to the resource.
func (p *proxied) call(method, target, token string, lines ...string) string {
	return p.head(method, target, token, append(lines, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(ping)))...) + "\r\n" + ping
}

// send writes bytes as they are and returns the first answer, nil when there is none.
func (p *proxied) send(text string) (*http.Response, string) {
	p.t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: p.from}}).Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, ""
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return res, string(body)
}

// sendAll writes bytes as they are, and one more request after which the connection ends, and
// waits until the proxy is done with them or wants more.
func (p *proxied) sendAll(text string) {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, text+"GET /end HTTP/1.1\r\nHost: "+publicHost+"\r\nConnection: close\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

// clean fails the test if a request reached the server that must not: another path, a token, a
// forged value, or a request without an identity.
func (p *proxied) clean(what, token, method string) int {
	p.t.Helper()
	requests, bodies := p.server.taken()
	for i, r := range requests {
		text := fmt.Sprint(r.Header, r.RequestURI, r.Trailer)
		switch {
		case r.URL.EscapedPath() != "/mcp":
			p.t.Errorf("%s reaches the server at %s", what, r.RequestURI)
		case strings.Contains(text, forged) || strings.Contains(text, token) || r.Header.Get("Authorization") != "":
			p.t.Errorf("%s: the server gets %s", what, text)
		case !slices.Equal(r.Header["Gatehouse-Subject"], []string{"reader"}) || r.Header.Get("Gatehouse-Scope") != "notes:read":
			p.t.Errorf("%s: the server gets it from %q with %q", what, r.Header["Gatehouse-Subject"], r.Header["Gatehouse-Scope"])
		case r.Method != method:
			p.t.Errorf("%s: the server gets %s", what, r.Method)
		case strings.Contains(bodies[i], "Host:") && !strings.Contains(what, "whole"):
			p.t.Errorf("%s: the server gets the body %q", what, bodies[i])
		}
	}
	return len(requests)
}

// TestRecipesServe: all functions of the protocol work behind each proxy.
func TestRecipesServe(t *testing.T) {
	t.Parallel()
	eachRecipe(t, func(t *testing.T, p *proxied) {
		token := p.token()
		res, body := p.send(p.call("POST", "/mcp", token, "Mcp-Session-Id: abc", "Mcp-Protocol-Version: 2025-11-25", "Accept: application/json, text/event-stream", "Last-Event-Id: 7", "User-Agent: client/1", "Mcp-Param-City: Basel"))
		if res == nil || res.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) {
			t.Fatalf("a good request: %v %s", res, body)
		}
		requests, bodies := p.server.taken()
		if len(requests) != 1 || bodies[0] != ping {
			t.Fatalf("%d requests, %q", len(requests), bodies)
		}
		for name, want := range map[string]string{"Mcp-Session-Id": "abc", "Mcp-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream", "Last-Event-Id": "7",
			"Content-Type": "application/json", "User-Agent": "client/1", "Gatehouse-Subject": "reader", "Gatehouse-Issuer": p.issuer.URL(), "Gatehouse-Client": "client"} {
			if got := requests[0].Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := requests[0].Header.Get("Mcp-Param-City"); got != "Basel" && !strings.Contains(t.Name(), "nginx-verify") {
			t.Errorf("Mcp-Param-City: %q", got)
		}
		if got := requests[0].Header.Get("X-Forwarded-For"); !strings.HasPrefix(got, "127.0.0.1") {
			t.Errorf("X-Forwarded-For: %q", got)
		}
		p.challenges(token)
		p.streams(token)
		p.unknown()
	})
}

// challenges checks the responses that do not come from the server.
func (p *proxied) challenges(token string) {
	t := p.t
	t.Helper()
	wrong := p.issuer.Mint(middlewaretest.Claims{"aud": publicResource, "scope": "notes:write"})
	for name, tt := range map[string]struct {
		token string
		want  int
	}{"no token": {"", 401}, "a bad token": {"wrong", 401}, "a token with other scopes": {wrong, 403}} {
		res, _ := p.send(p.call("POST", "/mcp", tt.token))
		if res == nil || res.StatusCode != tt.want {
			t.Errorf("%s: %v, want %d", name, res, tt.want)
			continue
		}
		challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
		if err != nil || len(challenges) != 1 || !strings.Contains(res.Header.Get("Www-Authenticate"), `resource_metadata="https://`+publicHost+publicMetadata+`"`) {
			t.Errorf("%s: %q, %v", name, res.Header["Www-Authenticate"], err)
		}
	}
	for target, want := range map[string]int{publicMetadata: 200, "/.well-known/oauth-protected-resource": 200, "/.well-known/oauth-protected-resource/other": 404, "/": 404, "/healthz": 404, "/verify": 404, "/jwks.json": 404} {
		if res, body := p.send(p.head("GET", target, token) + "\r\n"); res == nil || res.StatusCode != want && !(want == 200 && res.StatusCode == 404 && target != publicMetadata) {
			t.Errorf("%s: %v %s, want %d", target, res, body, want)
		}
	}
	res, _ := p.send(p.head("OPTIONS", "/mcp", "", "Origin: https://app.example.org", "Access-Control-Request-Method: POST") + "\r\n")
	if res == nil || res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a preflight: %v", res)
	}
	if n, _ := p.server.taken(); len(n) > 0 {
		t.Errorf("%d requests reach the server", len(n))
	}
}

// unknown expects 503 for a token that cannot be verified at the moment.
func (p *proxied) unknown() {
	p.t.Helper()
	p.issuer.SetDown(true)
	token := middlewaretest.NewIssuer(p.t).Mint(middlewaretest.Claims{"iss": p.issuer.URL(), "aud": publicResource, "scope": "notes:read"})
	if res, _ := p.send(p.call("POST", "/mcp", token)); res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || res.Header.Get("Www-Authenticate") != "" {
		p.t.Errorf("the issuer is away: %v", res)
	}
	if n := p.clean("the issuer is away", token, "POST"); n > 0 {
		p.t.Errorf("%d requests reach the server", n)
	}
}

// streams expects the first event while the server holds back the second.
func (p *proxied) streams(token string) {
	t := p.t
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = publicHost
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	reader := bufio.NewReader(res.Body)
	if line, err := reader.ReadString('\n'); err != nil || line != "data: first\n" {
		t.Fatalf("the first event: %q, %v", line, err)
	}
	close(p.server.release)
	if rest, err := io.ReadAll(reader); err != nil || !strings.Contains(string(rest), "data: second") {
		t.Errorf("the second event: %q, %v", rest, err)
	}
	p.server.taken()
}

// TestRecipesTellTheClient: the gateway learns the address of each client, by which it lets tokens take
// turns that must be looked up, and believes none that the client wrote.
func TestRecipesTellTheClient(t *testing.T) {
	t.Parallel()
	eachRecipe(t, func(t *testing.T, p *proxied) {
		p.from = net.IPv4(127, 0, 0, 2)
		res, _ := p.send(p.call("POST", "/mcp", p.token(), "X-Forwarded-For: 192.0.2.7"))
		if seen := p.seen.Load(); res == nil || res.StatusCode != http.StatusOK || seen == nil || seen.String() != "127.0.0.2" {
			t.Errorf("the gateway saw %v: %v", seen, res)
		}
	})
}
