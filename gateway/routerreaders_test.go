package gateway_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// The servers answer with what they could take the path of a request for, and the host that the
// client dialled.
const (
	nodeUpstream = `
const http = require("http");
const server = http.createServer((request, response) => {
  const bare = request.url.split("?")[0];
  const plain = decodeURIComponent(bare);
  const host = new URL("https://" + request.headers["x-forwarded-host"]).hostname;
  const paths = [plain, new URL(request.url, "http://localhost").pathname, decodeURIComponent(new URL(request.url, "http://localhost").pathname)];
  for (const p of [...paths]) paths.push(p.toLowerCase(), p.toUpperCase().toLowerCase(), p.normalize("NFC"), p.normalize("NFKC"), p.normalize("NFKC").toLowerCase());
  for (const p of [...paths]) paths.push(require("path").posix.normalize(p), p.split(";")[0], p.replace(/;[^/]*/g, ""), p.trim(), p.replace(/[. ]+$/, ""), p.split("\0")[0]);
  response.end(JSON.stringify({ host, paths }));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`
	pythonUpstream = `
import json, posixpath, re, unicodedata
from urllib.parse import unquote, urlparse, urlsplit
from wsgiref.simple_server import make_server, WSGIRequestHandler

class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass

def app(environ, start):
    plain = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
    paths = [plain, urlparse("http://localhost" + plain).path, unquote(plain)]
    paths += [f(p) for p in paths for f in (str.lower, str.casefold, lambda p: unicodedata.normalize("NFC", p), lambda p: unicodedata.normalize("NFKC", p).casefold())]
    paths += [f(p) for p in paths for f in (posixpath.normpath, str.strip, lambda p: p.split(";")[0], lambda p: re.sub(";[^/]*", "", p), lambda p: p.rstrip(". "))]
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"host": urlsplit("//" + environ["HTTP_X_FORWARDED_HOST"]).hostname, "paths": paths}).encode()]

server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
`
)

// routedPieces are put into paths, and dialledHosts are the values of Host.
var (
	routedPieces = []string{
		"/admin", "/Admin", "/adm%C4%B1n", "/%61dmin", "/admin%EF%BB%BF", "/admin%E2%80%A9", "/%C2%85admin", "/adm\uff49n", "/adm\u2170n", "/files", "/FILES", "/\ufb01les", "/file\u017f", "/keys", "/\u212aeys", "/x", "/", "/.", "/..", "/%2e%2e", "/\u2025", "/\u2024\u2024",
		"\uff0fadmin", "\uff0e", "\uff1bx", "%2fadmin", "%5cadmin", "\uff3cadmin", ";v=1", "/..;/admin", "/;/admin", ".", "%20", "%C2%A0", "%EF%BB%BF", "%00", "\uff05\uff12\uff26admin", "%252fadmin", "\u037ex", "?x", "\uff1fx", "%3fx", "e\u0301", "%ff",
	}
	dialledHosts = []string{
		"notes.example.com", "notes.example.com", "notes.example.com", "files.example.com", "NOTES.example.com", "notes.example.com.", "notes.example.com:443", "notes.example.com:0443", "notes.example.com:80",
		"\uff4eotes.example.com", "notes\u3002example.com", "files.example.com@notes.example.com", "notes.example.com@files.example.com", "notes.example.com:443@files.example.com", "notes.example.com/", "notes.example.com\\files.example.com", "notes.example.com,files.example.com", "fi\u017fes.example.com", "\ufb01les.example.com", "files%2eexample.com", "notes.example.com#files.example.com", "[::1]", "",
	}
)

// TestRouterOtherReaders sends unusual paths and hosts through a router to servers in other languages.
// Whatever the router lets through to a resource is for that resource by each of their readings.
func TestRouterOtherReaders(t *testing.T) {
	resources := []string{"https://notes.example.com/api/admin", "https://notes.example.com/api/files", "https://notes.example.com/api/keys", "https://notes.example.com/api", "https://files.example.com/api"}
	for name, command := range map[string][]string{"node": {"node", "-e", nodeUpstream}, "python": {"python3", "-c", pythonUpstream}} {
		t.Run(name, func(t *testing.T) {
			upstream := newForeign(t, command...)
			urls := map[string]string{}
			for _, resource := range resources {
				u, err := url.Parse(resource)
				if err != nil {
					t.Fatal(err)
				}
				urls[resource] = upstream + u.Path
			}
			g := newRouted(t, urls, func(c *gateway.Config) { c.Guard.Policy = middleware.Policy{Routes: map[string][]string{"/": nil}} })
			random := rand.New(rand.NewPCG(11, 12))
			passed, read := 0, 0
			for range 1500 {
				path := "/api"
				for range random.IntN(4) {
					path += routedPieces[random.IntN(len(routedPieces))]
				}
				host := dialledHosts[random.IntN(len(dialledHosts))]
				if _, err := url.ParseRequestURI(path); err != nil {
					continue
				}
				w, resource := askAll(g, path, host, resources)
				if w == nil {
					continue
				}
				var seen struct {
					Host  string
					Paths []string
				}
				if err := json.Unmarshal(w.Body.Bytes(), &seen); err != nil {
					t.Fatalf("%q: %v: %s", path, err, w.Body)
				}
				passed++
				for _, one := range seen.Paths {
					read++
					if found := longest(resources, "https://"+strings.TrimSuffix(seen.Host, ".")+one); found != resource {
						t.Errorf("%q at %q is for %s, but %q at %q is for %q", path, host, resource, one, seen.Host, found)
					}
				}
			}
			if t.Logf("%d requests passed, with %d readings", passed, read); passed < 50 {
				t.Error("the requests show too little")
			}
		})
	}
}

// askAll sends a request with a token for each resource. It returns the answer of the upstream and the
// resource, nil if there is none.
func askAll(g *routed, path, host string, resources []string) (*httptest.ResponseRecorder, string) {
	for _, resource := range resources {
		if w := g.ask(client, "GET", path, resource, "Host", host); w.Code == http.StatusOK {
			return w, resource
		}
	}
	return nil, ""
}

// longest returns the resource that a URL is at or below.
func longest(resources []string, url string) string {
	for _, resource := range resources {
		if url == resource || strings.HasPrefix(url, resource+"/") {
			return resource
		}
	}
	return ""
}

// newForeign starts a server that prints its port, and returns its URL.
func newForeign(t *testing.T, command ...string) string {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("there is no %s here", command[0])
	}
	return runForeign(t, exec.Command(command[0], command[1:]...))
}
