//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/mux"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

var targets = flag.Int("routers.targets", 400, "how many requests TestRoutersFindWhatTheGuardFound makes")

// routersPolicy is a policy by path in which each pattern needs a scope of its own, but for
// those that everybody may use. The closest patterns come first.
var routersPolicy = []string{
	"GET /notes/trash", "GET /keys/admin", "POST /notes:archive", "GET /team/{team}/settings", "GET /files/private/{path...}",
	"GET /notes/{id}", "PUT /notes/{id}", "DELETE /notes/{id}", "GET /notes", "GET /files/{path...}", "/tree/", "/{path...}",
}

func routeScopes(pattern string) []string {
	if i := slices.Index(routersPolicy, pattern); pattern != "/{path...}" && i >= 0 {
		return []string{fmt.Sprint("route:", i)}
	}
	return nil
}

// targetPieces are inserted into paths.
var targetPieces = []string{
	"/", "//", "/./", "/../", "/..", "..", ".", "%2e", "%2E%2e", "%2f", "%2F", "%5c", `\`, ";", ";x=1", "%3b", "?", "%3f", "#", "%23", "%00", "%0a", "%09", "%20", "+", "%25", "%252f", "%2500",
	".json", ".tar.gz", "%c0%af", "%c0%ae", "%e0%80%af", "%ff", "%ed%a0%80", "%c2%a0", "%c2%85", "%e3%80%80", "%ef%bb%bf", "%e2%80%8b", "%cc%81", "%c2%ad", "%ef%bc%8f", "%e2%80%a5", "%ef%bc%8e",
	"%ef%bc%85", "%cd%be", "~", "!", "$", "&", "'", "(", ")", "*", ",", "=", ":", "@", "%40", "%2a", "%2c", "%3a", "[", "]", "|", "^", "`", "{", "}", "\"", "<", ">", "x", "7",
}

// lookalikes are other characters that some readers take for a letter.
var lookalikes = map[byte][]string{
	'a': {"\u00aa", "\uff41", "\u1d43"}, 'e': {"\u00e9", "e\u0301", "\u2091", "\uff25"}, 'f': {"\uff46"}, 'i': {"\u0130", "\u0131", "\u2170", "\u2110"}, 'k': {"\u212a", "\uff4b"},
	'm': {"\u217f", "\u2133"}, 'n': {"\u207f"}, 'o': {"\u00ba", "\u2134"}, 'r': {"\u211d"}, 's': {"\u017f", "\uff33"}, 't': {"\U0001d42d", "\uff54"}, 'v': {"\u2174"},
}

// someTarget changes a path of the policy.
func someTarget(r *rand.Rand) (method, target string) {
	method, target, ok := strings.Cut(routersPolicy[r.IntN(len(routersPolicy)-1)], " ")
	if !ok {
		method, target = "GET", method
	}
	if r.IntN(6) == 0 {
		method = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"}[r.IntN(6)]
	}
	target = wildcards.ReplaceAllStringFunc(target, func(string) string { return []string{"7", "trash", "private", "a"}[r.IntN(4)] })
	for range r.IntN(4) {
		at := 1 + r.IntN(len(target))
		switch c := target[at-1]; r.IntN(6) {
		case 0: // a letter in another case
			target = target[:at-1] + strings.ToUpper(string(c)) + target[at:]
		case 1: // an escape
			target = target[:at-1] + fmt.Sprintf([]string{"%%%02x", "%%%02X", "%%25%02x"}[r.IntN(3)], c) + target[at:]
		case 2, 3: // another letter
			if others := lookalikes[c]; len(others) > 0 {
				target = target[:at-1] + url.PathEscape(others[r.IntN(len(others))]) + target[at:]
			} else {
				target = strings.Replace(target, "fi", "%ef%ac%81", 1)
			}
		case 4:
			target = target[:at] + targetPieces[r.IntN(len(targetPieces))] + target[at:]
		default:
			target += targetPieces[r.IntN(len(targetPieces))]
		}
	}
	return method, target
}

var wildcards = regexp.MustCompile(`\{[^}]*\}`)

// started runs a program that prints its port, and returns its address. It skips the test if
// there is no such program.
func started(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v did not begin: %v", cmd.Args[:3], err)
	}
	return "127.0.0.1:" + strings.TrimSpace(port)
}

// pythonWith returns a Python that has a module, "" if there is none.
func pythonWith(module string) string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	return ""
}

// routerNames are the servers of newRouters.
var routerNames = []string{
	"node url", "node lower", "node upper", "node anycase", "node trimmed", "node compatible", "node express", "node hono",
	"python wsgi", "python anycase", "python casefold", "python stripped", "python compatible", "python flask", "python asgi", "nginx exact", "nginx anycase", "go ServeMux", "go gorilla",
}

// newRouter starts a server that answers with the pattern of the route that it finds, in the
// header X-Route. It returns "" if the server is not installed here.
func newRouter(t *testing.T, name string) string {
	t.Helper()
	patterns, err := json.Marshal(routersPolicy)
	if err != nil {
		t.Fatal(err)
	}
	language, kind, _ := strings.Cut(name, " ")
	switch language {
	case "node":
		node, packages := typescript(t)
		script, err := filepath.Abs("testdata/routers.mjs")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(node, script, kind, string(patterns))
		cmd.Dir = packages
		return started(t, cmd)
	case "python":
		python := pythonWith(cmp.Or(map[string]string{"flask": "flask", "asgi": "uvicorn"}[kind], "json"))
		if python == "" {
			return ""
		}
		return started(t, exec.Command(python, "testdata/routers.py", kind, string(patterns)))
	case "nginx":
		return nginxRouter(t, kind == "anycase")
	}
	var handler http.Handler = http.NewServeMux()
	if kind == "gorilla" {
		handler = mux.NewRouter()
	}
	for _, pattern := range routersPolicy {
		handle(handler, pattern)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// handle adds a route to a router of Go.
func handle(router http.Handler, pattern string) {
	h := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Route", pattern) }
	m, ok := router.(*mux.Router)
	if !ok {
		router.(*http.ServeMux).HandleFunc(pattern, h)
		return
	}
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	route := m.NewRoute()
	if strings.HasSuffix(path, "/") {
		route.PathPrefix(path)
	} else {
		route.Path(strings.ReplaceAll(path, "...}", ":.*}"))
	}
	if method == "GET" {
		route.Methods("GET", "HEAD")
	} else if method != "" {
		route.Methods(method)
	}
	route.HandlerFunc(h)
}

// nginxRouter starts nginx with a location for each path.
func nginxRouter(t *testing.T, anyCase bool) string {
	binary, address, dir := installed(t, "nginx"), redistest.FreeAddress(t), t.TempDir()
	var locations strings.Builder
	for i, pattern := range routersPolicy {
		path := pattern[strings.IndexByte(pattern, ' ')+1:]
		if slices.ContainsFunc(routersPolicy[:i], func(p string) bool { return strings.HasSuffix(p, " "+path) }) {
			continue
		}
		match := "= " + path
		switch expression := "^" + strings.NewReplacer("{path...}", ".*", "{id}", "[^/]+", "{team}", "[^/]+").Replace(path); {
		case strings.HasSuffix(path, "/"):
			match = path
		case anyCase:
			match = `~* "` + expression + `/?$"`
		case strings.Contains(path, "{"):
			match = `~ "` + expression + `$"`
		}
		fmt.Fprintf(&locations, "\tlocation %s { add_header X-Route \"$request_method %s\" always; return 200; }\n", match, path)
	}
	conf := written(t, fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr crit;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen %[2]s; keepalive_requests 1000000;
%[3]s	}
}
`, dir, address, locations.String()))
	startForeign(t, "http://"+address, exec.Command(binary, "-p", dir, "-c", conf))
	return address
}

// found returns the pattern in an answer, "" for none.
func found(method, said string) string {
	_, path, ok := strings.Cut(said, " ")
	if !ok {
		path = said
	}
	if method == "HEAD" {
		method = "GET"
	}
	for _, pattern := range []string{said, method + " " + path, path} {
		if slices.Contains(routersPolicy, pattern) {
			return pattern
		}
	}
	return ""
}

// rawClient sends request lines as they are.
type rawClient struct {
	address, token string
	conn           net.Conn
	in             *bufio.Reader
}

func (c *rawClient) send(t *testing.T, method, target string) *http.Response {
	t.Helper()
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", method, target, c.address, c.token)
	answer, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	if answer.Body.Close(); answer.Close {
		_ = c.conn.Close()
		c.conn = nil
	}
	return answer
}

// eachFinds passes a request to all servers at once, and returns the pattern that each finds.
func eachFinds(proxies map[string]*httputil.ReverseProxy, r *http.Request) map[string]string {
	var wg sync.WaitGroup
	var mu sync.Mutex
	patterns := map[string]string{}
	for name, proxy := range proxies {
		wg.Go(func() {
			answer := httptest.NewRecorder()
			proxy.ServeHTTP(answer, r.Clone(r.Context()))
			mu.Lock()
			defer mu.Unlock()
			patterns[name] = found(r.Method, answer.Header().Get("X-Route"))
		})
	}
	wg.Wait()
	return patterns
}

// TestRoutersFindWhatTheGuardFound sends unusual paths through a guard to servers in several
// languages. None of them may find a route that needs a scope which the guard did not ask for.
func TestRoutersFindWhatTheGuardFound(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	addresses := map[string]string{}
	for _, name := range routerNames {
		if address := newRouter(t, name); address != "" {
			addresses[name] = address
		} else {
			t.Logf("there is no %s here", name)
		}
	}
	const resource = "http://127.0.0.1/"
	var needed []string
	policy, all := map[string][]string{}, []string(nil)
	for _, pattern := range routersPolicy {
		policy[pattern] = routeScopes(pattern)
		all = append(all, policy[pattern]...)
	}
	guard, err := middleware.New(middleware.Config{
		Resource: resource, AuthorizationServers: []string{issuer.URL()}, Policy: middleware.Policy{Routes: policy},
		Observe: func(_ *http.Request, e middleware.Event) { needed = e.Needed },
	})
	if err != nil {
		t.Fatal(err)
	}
	proxies := map[string]*httputil.ReverseProxy{}
	for name, address := range addresses {
		proxies[name] = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: address}) }}
	}
	asked, routed, strict := 0, map[string]int{}, map[string]int{}
	front := httptest.NewServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		for name, pattern := range eachFinds(proxies, r) {
			if pattern != "" {
				routed[name]++
			}
			for _, scope := range routeScopes(pattern) {
				if strict[name]++; !slices.Contains(needed, scope) {
					t.Errorf("%s %s needs %q, but %s finds %q", r.Method, r.RequestURI, needed, name, pattern)
				}
			}
		}
	})))
	defer front.Close()
	client := &rawClient{address: front.Listener.Addr().String(), token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": strings.Join(all, " ")})}
	random := rand.New(rand.NewPCG(7, 8))
	statuses := map[int]int{}
	for range *targets {
		method, target := someTarget(random)
		if strings.ContainsAny(target, " \x00\r\n") {
			continue
		}
		statuses[client.send(t, method, target).StatusCode]++
	}
	t.Logf("%d of %d let through, answers %v, found by server %v, of which need a scope %v", asked, *targets, statuses, routed, strict)
	for name := range proxies {
		if strict[name] < asked/5 {
			t.Errorf("%s found only %d routes in %d requests", name, strict[name], asked)
		}
	}
}
