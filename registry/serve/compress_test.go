package serve_test

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/registry/serve"
)

// unzip returns the content of a compressed body.
func unzip(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	r, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// TestGzip: a client that accepts gzip gets the same bytes compressed with another tag, and 304
// for either of the two tags. Short answers are not compressed.
func TestGzip(t *testing.T) {
	d := newDesk(t, serve.Config{}, heavyRows(0, 20, 500)...)
	d.commit(rowOf("com.example/a", "1.0.0"))
	const list, short = "/v0.1/servers", "/v0.1/servers/com.example%2Fa/versions/latest"
	plain := d.get(list)
	tag := plain.Header().Get("ETag")
	for accept, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "br, gzip;q=0.5": true, "gzip; q=1.0, identity; q=0.5": true, "*": true, "identity;q=0, *;q=0.1": true, "deflate, gzip;q=0.001": true,
		"gzip;q=0.5, identity;q=0.5": true, "gzip \t;\tq=0.5 ": true, "gzip;Q=0.5": true,
		"": false, "gzip;q=0": false, "gzip;q=0.000": false, "identity": false, "br": false, "*, gzip;q=0": false, "gzip;q=0.3, identity;q=0.7": false, "gzip;q=x": false, "gzip;q=2": false, "gzip;q=-1": false, "gzip;level=1": false, "gzip;q=0.5000": false, "gzip;q=NaN": false, "*;q=0": false, "gzipped": false,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w := ask(d.handler, method, list, "Accept-Encoding: "+accept)
			length, vary := w.Header().Get("Content-Length"), w.Header().Get("Vary")
			if is := w.Header().Get("Content-Encoding") == "gzip"; is != want || is == (w.Header().Get("ETag") == tag) || vary != "Accept-Encoding" || w.Code != 200 {
				t.Errorf("%s with %q: %d %v", method, accept, w.Code, w.Header())
			}
			if is := length == plain.Header().Get("Content-Length"); is == want {
				t.Errorf("%s with %q: %s bytes", method, accept, length)
			}
			if method == "HEAD" {
				continue
			}
			if body := w.Body.String(); want && unzip(t, w) != plain.Body.String() || !want && body != plain.Body.String() {
				t.Errorf("with %q it is something else", accept)
			}
		}
		if w := ask(d.handler, "GET", short, "Accept-Encoding: "+accept); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("a short answer with %q: %v", accept, w.Header())
		}
	}
	packed := ask(d.handler, "GET", list, "Accept-Encoding: gzip").Header().Get("ETag")
	for _, held := range []string{tag, packed, "W/" + packed, `"x", ` + packed} {
		for _, accept := range []string{"gzip", "identity"} {
			w := ask(d.handler, "GET", list, "Accept-Encoding: "+accept, "If-None-Match: "+held)
			if is := w.Header().Get("ETag"); w.Code != 304 || !strings.Contains(held, is) || w.Header().Get("Vary") == "" || w.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s and %s: %d %v", held, accept, w.Code, w.Header())
			}
		}
	}
	page := ask(d.handler, "GET", "/", "Accept-Encoding: gzip")
	if page.Header().Get("Content-Encoding") != "gzip" || !strings.Contains(unzip(t, page), "com.example/heavy") {
		t.Errorf("a page for people: %v", page.Header())
	}
}
