package middleware_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// reads sends a request for one resource to a guard with a policy.
func reads(t testing.TB, issuer *middlewaretest.Issuer, token, uri string, policy map[string][]string) int {
	t.Helper()
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = middleware.Policy{Resources: policy} })
	params, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		t.Fatal(err)
	}
	return serve(guard.Protect(&inner{}), cachedPost(token, request("resources/read", string(params)))).StatusCode
}

// TestReadingsNeedWhatTheyMean checks that a URI needs the scopes of all resources that a
// handler could take it for.
func TestReadingsNeedWhatTheyMean(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "scope": "read"})
	for _, tt := range []struct{ protected, uri string }{
		{"file:///srv/secret.txt", "file:srv/secret.txt"},
		{"file:///srv/secret.txt", "file:///srv/secret.txt?x"},
		{"file:///srv/secret.txt", "file:///srv/secret.txt#x"},
		{"file:///srv/secret.txt", "file:\\\\\\srv\\secret.txt"},
		{"file:///srv/secret.txt", "file:///srv/x/..%2fsecret.txt"},
		{"file:///srv/secret.txt", "file:///srv//secret.txt"},
		{"file:///srv/secret.txt", "file://host/srv/secret.txt"},
		{"file:///srv/secret.txt", "FILE://user@host:8080/srv/x/../secret.txt"},
		{"file:///srv/secret.txt", "file://localhost:80/srv/secret.txt"},
		{"file:///srv/secret.txt", "file://127.0.0.1/srv/%73ecret.txt"},
		{"file:/srv/secret.txt", "file://host/srv/secret.txt"},
		{"file:///srv/secret.txt", "file:///SRV/Secret.txt"},
		{"file:///srv/secret.txt", "file:///srv/%C5%BFecret.txt"},
		{"file:///srv/secret.txt", "file:///srv/secret.txt."},
		{"file:///srv/secret.txt", "file:///srv. /secret.txt%20"},
		{"file:///Srv/Secret.txt", "file://host/sRV/sECRET.TXT"},
		{"file://host/srv/secret.txt", "file://host/SRV/secret.txt"},
		{"file:///C:/Secret/a", "file:///c|/secret/A"},
		{"file:*/Srv/secret.txt", "file:///srv/SECRET.txt"},
		{"http://127.0.0.1/admin", "http://127.1/admin"},
		{"http://127.0.0.1/admin", "http://0x7f000001/admin"},
		{"http://127.0.0.1/admin", "http://2130706433/admin"},
		{"http://127.0.0.1/admin", "http:127.0.0.1/admin"},
		{"http://127.0.0.1/admin", "http:\\\\127.0.0.1\\admin"},
		{"http://[::1]/admin", "http://[0:0:0:0:0:0:0:1]/admin"},
		{"http://example.com/admin", "http://ex%61mple.com/admin"},
		{"http://example.com/admin", "http://example.com./admin"},
		{"http://example.com/admin", "http://user@example.com/admin"},
		{"http://example.com/admin", "http://example.com/admin;x=1"},
		{"http://example.com/admin", "http://example.com/admin?x"},
		{"http://example.com/admin", "http://example.com/admin/"},
		{"http://example.com/admin", "http://exa\tmple.com/admin"},
		{"redis://box/0", "redis://box:6379/0"},
		{"postgres://box/notes", "postgres://BOX:5432/notes"},
		{"repo://owner/name", "repo://Owner/name"},
		{"repo://owner/name", "repo://owner/%6eame"},
		{"repo://owner/a/b", "repo://owner/a%2Fb"},
		{"repo://owner/secret", "repo://owner/public/..%2fsecret"},
		{"notes:secret", "NOTES:secret"},
		{"notes://secret/*", "notes://s%2565cret/b"},
		{"notes:///secret/*", "notes:///shared/a?/../../secret/b"},
		{"notes:///secret/*", "notes:///shared/a#%2F..%5C..%2Fsecret%2fb"},
		{"notes:///secret/*", "notes:///shared/a?b#/../../secret/b"},
		{"notes:///secret/*", "NOTES:///shared/a?/%252E./../secret/b"},
		{"notes://box/secret/*", "notes://box/shared/a?/../../secret/b"},
		{"notes://secret/*", "notes://shared/../secret/b"},
		{"notes://secret/*", "notes://../secret/b"},
		{"notes://secret/*", "notes://%2e/secret/b"},
		{"notes://secret/*", "notes:///secret/b"},
		{"notes://secret/*", "notes:////a/../secret/b"},
		{"notes://secret/*", "notes://a%2f..%2fsecret/b"},
		{"notes://secret/*", "notes://shared/..%2fsecret/b"},
		{"notes://secret/*", "notes://shared/a?/../../../secret/b"},
		{"notes:secret/*", "notes:shared/a?/../../secret/b"},
		{"file:///srv/secret/*", "file:///srv/open/a?/../../secret/b"},
		{"file:///srv/secret/*", "file:///srv/open/a?/../../SECRET/b"},
		{"file:///srv/secret/*", "file://host/srv/open/a#/../../secret/b"},
		{"https://example.com/secret/*", "https://example.com/a?/../secret/b"},
	} {
		policy := map[string][]string{"*": nil, tt.protected: {"admin"}}
		if status := reads(t, issuer, token, tt.uri, policy); status != http.StatusForbidden {
			t.Errorf("%q: %d, though it may mean %s", tt.uri, status, tt.protected)
		}
		if status := reads(t, issuer, token, tt.protected, policy); status != http.StatusForbidden {
			t.Errorf("%q: %d", tt.protected, status)
		}
	}
}

// TestReadingsStayInside checks that a token for one directory does not give access to
// resources outside it, however a handler reads the URI.
func TestReadingsStayInside(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "scope": "read"})
	policy := map[string][]string{"file:///public/*": {"read"}, "repo://o/public/*": {"read"}, "https://example.com/public/*": {"read"}}
	for _, uri := range []string{
		"file:///public/../x", "file:///public/%2e%2e/x", "file:///public/..%2fx", "file:///public/%252e%252e/x", "file:///public/..\\x", "file:///public/%5c..%5c..%5cx",
		"file:///public/.%2e/x", "file:///public/a/../../x", "file://host/public/../x", "repo://o/public/../x", "repo://o/public/..%2Fx", "repo://o/public/%2e%2E%2fx",
		"repo://o/public/..%252fx", "repo://o/public/a%2f..%2f..%2fx", "https://example.com/public/%2e%2e/x", "https://example.com/public\\..\\x", "https://example.com/public/..%5cx",
		"https://example.com/public/../../x", "https://example.com:444/public/a",
		"repo://o/public/a?/../../x", "repo://o/public/a#%2f..%2f..%2fx", "repo://o/public/a?b/../../../../x", "file:///public/a?/../../x", "https://example.com/public/a?/../../x",
		"repo://o/public/%2e%2e/%2e%2e/o", "repo://o/public/a%2f..%2f..%2f..%2fo2/public/x",
	} {
		if status := reads(t, issuer, token, uri, policy); status != http.StatusForbidden {
			t.Errorf("%q: %d", uri, status)
		}
	}
}

// TestOrdinaryURIsPass checks that URIs with a single meaning are not refused.
func TestOrdinaryURIsPass(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "scope": "read"})
	for uri, pattern := range map[string]string{
		"repo://Owner/name": "repo://Owner/*", "repo://Owner/a%2Fb": "repo://Owner/*", "https://example.com": "https://example.com", "https://example.com/": "https://*",
		"notes://box/{id}": "notes://box/*", "urn:isbn:0451450523": "urn:isbn:*", "file:///a b": "file:///*", "file:///caf\u00e9": "file:///*", "db://host:5433/t": "db://host:5433/*",
		"https://example.com/doc?id=1#top": "https://example.com/doc?id=*", "https://example.com:8443/a": "https://example.com:8443/*", "notes://x/a%20b": "notes://x/a%20b",
		"https://example.com/fetch/https://example.org/a": "https://example.com/fetch/*", "mailto:a@example.com": "mailto:*", "data:,a%20b": "data:*",
		"c:/x": "c:*", "notes:1": "notes:1", "REPO://Owner/name": "REPO://Owner/*", "notes://box/a?path=../b": "notes://box/*", "https://example.com/a?from=https://example.org/b": "https://example.com/*",
		"notes://box/a/../b": "notes://box/*", "notes:///a/../b": "notes:///*", "notes:///b": "notes://*/b", "notes://box": "notes://box", "notes://box/a?x/./y#..z/...": "notes://box/*",
		"https://example.com/b?from=https://example.org/b": "https://example.com/b?from=https://*", "notes://box/a?x=//y": "notes://box/a?x=//*", "https://example.com/../x": "https://example.com/*",
	} {
		if status := reads(t, issuer, token, uri, map[string][]string{pattern: {"read"}}); status != http.StatusTeapot {
			t.Errorf("%q by %q: %d", uri, pattern, status)
		}
	}
}

// TestCaseOfNamesThatAreNoFiles checks that only names of files are compared without regard to case.
func TestCaseOfNamesThatAreNoFiles(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "scope": "read"})
	for uri, want := range map[string]int{"notes://box/A": http.StatusTeapot, "notes://box/a": http.StatusForbidden, "file:///srv/A": http.StatusForbidden, "file:///srv/B": http.StatusTeapot} {
		policy := map[string][]string{"notes://box/A": {"read"}, "notes://box/a": {"admin"}, "file:///srv/A": {"read"}, "file:///srv/a": {"admin"}, "file:///srv/B": {"read"}}
		if status := reads(t, issuer, token, uri, policy); status != want {
			t.Errorf("%q: %d, want %d", uri, status, want)
		}
	}
}

// TestNamesAreBounded checks that a message may not have as many names as fit into a body,
// because each is compared with the patterns.
func TestNamesAreBounded(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource})
	if status := reads(t, issuer, token, "notes:"+strings.Repeat("a", 15<<10), map[string][]string{"*": nil}); status != http.StatusTeapot {
		t.Errorf("15 KiB: %d", status)
	}
	if status := reads(t, issuer, token, "notes:"+strings.Repeat("a", 16<<10), map[string][]string{"*": nil}); status != http.StatusBadRequest {
		t.Errorf("more than 16 KiB: %d", status)
	}
}

// TestEscapesAreBounded checks that repeated escapes are decoded only a few times: without a
// bound, the cost of a text is the square of its length.
func TestEscapesAreBounded(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource})
	for levels, want := range map[int]int{1: http.StatusTeapot, 7: http.StatusTeapot, 8: http.StatusBadRequest, 7000: http.StatusBadRequest} {
		uri := "notes://box/%" + strings.Repeat("25", levels-1) + "41"
		if status := reads(t, issuer, token, uri, map[string][]string{"*": nil}); status != want {
			t.Errorf("escaped %d times: %d, want %d", levels, status, want)
		}
	}
}

// The parts of the URIs of TestOtherReaders.
var (
	pieceSchemes = []string{"file", "http", "https", "HTTP", "ws", "wss", "ftp", "repo", "Repo", "notes", "redis", "urn"}
	pieceSlashes = []string{":", ":/", "://", "://", "://", ":///", ":////", ":\\\\", ":/\\"}
	pieceHosts   = []string{
		"", "", "localhost", "LOCALHOST", "127.1", "0x7f.1", "2130706433", "127.0.0.1.", "0177.0.0.01", "example.com", "EXAMPLE.com", "example.com.", "ex%61mple.com", "[::1]",
		"[0::1]", "[::ffff:127.0.0.1]", "user@example.com", "u:p@h", "@h", "C:", "c|", "host:80", "host:443", "host:0080", "host:", "host:6379", "1.2.3.4.5", "256", "a_b", "a*b", "%2e", "..",
	}
	piecePaths = []string{
		"", "/", "//", "/..", "/.", "/%2e%2e", "/%2E.", `\..`, "%5c..", "/secret", "/a%2Fb", "/%73ecret", "/caf%C3%A9", "/\u00e9", "/a b", "/%", "/%zz", "/C:/x", "/c|/..", ";p=1", "\t", "\n", " ",
		"/%252e%252e", "/{id}", "/a'b", "/~x", "/..;/", "/^`|", "/%00", "/x:y@z",
	}
	pieceTails = []string{"", "", "", "?x", "?x=1#f", "#f", "?'a", "#`", "?%2e", "?", "#", "? "}
)

func somePiece(r *rand.Rand, pieces []string) string { return pieces[r.IntN(len(pieces))] }

func someURI(r *rand.Rand) string {
	uri := somePiece(r, pieceSchemes) + somePiece(r, pieceSlashes) + somePiece(r, pieceHosts)
	for range r.IntN(5) {
		uri += somePiece(r, piecePaths)
	}
	if uri += somePiece(r, pieceTails); r.IntN(20) == 0 {
		uri = " " + uri + "\n"
	}
	return uri
}

// nodeReads is a program for Node that prints the readings of each URI.
const nodeReads = `
const { fileURLToPath } = require("url");
const out = JSON.parse(require("fs").readFileSync(0, "utf8")).map((text) => {
  const seen = [];
  const note = (f) => { try { seen.push(f()); } catch {} };
  note(() => new URL(text).href);
  note(() => { const u = new URL(text); return u.protocol + (u.href.startsWith(u.protocol + "//") ? "//" : "") + u.host + decodeURIComponent(u.pathname); });
  note(() => { const u = new URL(text); u.hash = ""; u.search = ""; u.username = ""; u.password = ""; return u.href; });
  note(() => { if (!new URL(text).host) return "file://" + fileURLToPath(text); });
  note(() => { const u = new URL(text); if (u.protocol === "file:") return "file://" + decodeURIComponent(u.pathname); });
  return seen.filter((s) => s);
});
process.stdout.write(JSON.stringify(out));
`

// pythonReads is the same for Python.
const pythonReads = `
import json, posixpath, sys
from urllib.parse import urlsplit, urlparse, unquote, urlunsplit
def readings(text):
    seen = []
    def note(f):
        try:
            seen.append(f())
        except ValueError:
            pass
    s = urlsplit(text)
    if not s.scheme:
        return seen
    note(lambda: urlunsplit(s))
    note(lambda: unquote(urlunsplit(s)))
    if s.scheme == "file" and s.path.startswith("/"):
        note(lambda: "file://" + posixpath.normpath("/" + unquote(s.path).lstrip("/")))
    if s.netloc and s.path.startswith("/"):
        note(lambda: s.scheme + "://" + s.netloc + unquote(s.path))
        note(lambda: s.scheme + "://" + s.netloc + urlparse(text).path)
    return seen
json.dump([readings(t) for t in json.load(sys.stdin)], sys.stdout)
`

// TestOtherReaders checks that a URI needs the scopes of its readings in Node and Python, for
// many unusual URIs.
func TestOtherReaders(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource})
	random := rand.New(rand.NewPCG(3, 4))
	uris := make([]string, 1000)
	for i := range uris {
		uris[i] = someURI(random)
	}
	for name, command := range map[string][]string{"node": {"node", "-e", nodeReads}, "python": {"python3", "-c", pythonReads}} {
		t.Run(name, func(t *testing.T) {
			judged := 0
			for i, meanings := range ask(t, command, uris) {
				for _, meaning := range meanings {
					judged++
					if status := reads(t, issuer, token, uris[i], map[string][]string{"*": nil, meaning: {"admin"}}); status < 400 || status >= 500 || status == http.StatusTeapot {
						t.Errorf("%q: %d, though %s reads %q", uris[i], status, name, meaning)
					}
				}
			}
			if judged < len(uris) {
				t.Errorf("only %d readings", judged)
			}
		})
	}
}

// ask passes the URIs to another program.
func ask(t *testing.T, command []string, uris []string) (meanings [][]string) {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("there is no %s here", command[0])
	}
	in, err := json.Marshal(uris)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &meanings); err != nil || len(meanings) != len(uris) {
		t.Fatalf("%d answers, %v", len(meanings), err)
	}
	return meanings
}
