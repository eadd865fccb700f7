package middleware_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware/middlewaretest"
)

// asked is a request for a URL as a client in another language makes it: the target in the request
// line, the values of "htu" that programs in that language take, and the path as it decodes it. The
// target is empty if the language refuses the URL.
type asked struct {
	Target, Decoded string
	URLs            []string
}

const nodeAsks = `
const out = JSON.parse(require("fs").readFileSync(0, "utf8")).map((text) => {
  try {
    const u = new URL(text);
    const bare = text.replace(/[?#].*$/s, "");
    return { Target: u.pathname + u.search, URLs: [text, bare, u.href, u.origin + u.pathname], Decoded: unescape(u.pathname) };
  } catch { return {}; }
});
process.stdout.write(JSON.stringify(out));
`

const pythonAsks = `
import json, sys
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit, urlunsplit
def asks(text):
    try:
        s = urlsplit(urljoin(text, text))
        host = s.hostname + (":%d" % s.port if s.port not in (None, 443) else "")
    except ValueError:
        return {}
    path = quote(s.path or "/", safe="/%!$&'()*+,;=:@~")
    bare = urlunsplit(s._replace(query="", fragment=""))
    return {"Target": path + ("?" + s.query if s.query.isascii() and s.query.isprintable() and " " not in s.query else ""), "Decoded": unquote_to_bytes(path).decode("latin-1"),
            "URLs": [text, bare, urlunsplit(s), urlunsplit((s.scheme, host, path, "", "")), urlunsplit((s.scheme, s.netloc, path, s.query, ""))]}
json.dump([asks(t) for t in json.load(sys.stdin)], sys.stdout)
`

// urlPieces are put into the paths of the URLs of TestProofsOfOtherReaders.
var urlPieces = []string{
	"a", "b", "A", "/", "/a", "/b", "/.", "/..", "/%2e", "/%2E%2e/", "%2F", "%2f", "%61", "%41", "%7e", "~", "caf\u00e9", "caf%C3%A9", "caf%c3%a9", "\u65e5", "%20", "%7C", "|", "^", "\"", "{x}", "%7Bx%7D",
	"`", "<", "%3C", "[", "]", "%5B", ";x", "%3Bx", ":", "%3A", "@", "!", "'", "(", "*", "+", "%2B", ",", "=", "&", "$", "%24", "%25", "%2561", "?", "?x=/../b", "?a=\u00e9", "#f", "#/../b", "\U0001f600", "%F0%9F%98%80", "%ff",
}

var urlOrigins = []string{"https://notes.example.com", "https://notes.example.com:443", "HTTPS://Notes.Example.COM", "https://NOTES.example.com:443"}

// TestProofsOfOtherReaders checks that a guard accepts the "htu" of honest clients in Node and Python
// for the requests that these make, and that "htu" for another path is refused.
func TestProofsOfOtherReaders(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	texts := []string{"https://notes.example.com", "https://notes.example.com:443", "https://NOTES.example.com?x", "https://notes.example.com/#f"}
	for range 400 {
		text := somePiece(random, urlOrigins) + "/mcp"
		for range random.IntN(5) {
			text += somePiece(random, urlPieces)
		}
		texts = append(texts, text)
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	issuer := middlewaretest.NewIssuer(t)
	client, guard := newBound(t, issuer, jose.ES256), newGuard(t, issuer, accepting())
	handler := guard.Protect(&inner{})
	accepted := func(target, htu string) bool {
		r := newRequest("POST", resource)
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		r.URL, r.RequestURI = u, target
		client.Send(r, resource, client.token, claims{"htu": htu})
		return serve(handler, r).StatusCode == http.StatusTeapot
	}
	for name, command := range map[string][]string{"node": {"node", "-e", nodeAsks}, "python": {"python3", "-c", pythonAsks}} {
		t.Run(name, func(t *testing.T) {
			var all []asked
			if askReader(t, command, in, &all); len(all) != len(texts) {
				t.Fatalf("%d answers to %d questions", len(all), len(texts))
			}
			random := rand.New(rand.NewPCG(11, 12)) // one for each reader: maps have no order
			judged, crossed := 0, 0
			for i, one := range all {
				if one.Target == "" {
					continue
				}
				for _, htu := range one.URLs {
					if judged++; !accepted(one.Target, htu) {
						t.Errorf("%q for %q is refused", htu, one.Target)
					}
				}
				other := all[random.IntN(len(all))]
				if samePath(other.Decoded, one.Decoded) || len(other.URLs) == 0 {
					continue
				}
				if crossed++; accepted(one.Target, other.URLs[i%len(other.URLs)]) {
					t.Errorf("%q for %q is accepted", other.URLs, one.Target)
				}
			}
			if t.Logf("%d accepted, %d refused", judged, crossed); judged < 3*len(texts) || crossed < len(texts)/2 {
				t.Error("the URLs show too little")
			}
		})
	}
}

// samePath reports whether two paths without escapes are one without their dot segments (RFC 3986
// section 6.2.2.3).
func samePath(one, other string) bool {
	plain := func(path string) string { return new(url.URL).ResolveReference(&url.URL{Path: path}).Path }
	return plain(one) == plain(other)
}
