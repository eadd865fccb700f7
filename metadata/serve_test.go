package metadata_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

func resourceDocument() metadata.Resource {
	return metadata.Resource{
		Resource:               "https://notes.example.com/mcp",
		AuthorizationServers:   []string{"https://auth.example.com"},
		ScopesSupported:        []string{"notes:read", "notes:write"},
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "Notes",
	}
}

func serve(t *testing.T, doc any) *httptest.Server {
	t.Helper()
	handler, err := metadata.Serve(doc)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func fetch(t *testing.T, method, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestServe(t *testing.T) {
	server := serve(t, resourceDocument())
	res, body := fetch(t, "GET", server.URL, nil)
	const want = `{"resource":"https://notes.example.com/mcp","authorization_servers":["https://auth.example.com"],` +
		`"scopes_supported":["notes:read","notes:write"],"bearer_methods_supported":["header"],"resource_name":"Notes"}`
	if res.StatusCode != http.StatusOK || body != want {
		t.Fatalf("GET: %s\n%s\nwant %s", res.Status, body, want)
	}
	for name, value := range map[string]string{
		"Content-Type":                "application/json",
		"Cache-Control":               "public, max-age=300",
		"Access-Control-Allow-Origin": "*",
		"X-Content-Type-Options":      "nosniff",
	} {
		if got := res.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if _, ok := res.Header["Access-Control-Allow-Credentials"]; ok {
		t.Error("credentials are allowed")
	}
	etag := res.Header.Get("ETag")
	if !strings.HasPrefix(etag, `"`) || len(etag) < 20 {
		t.Errorf("the ETag %q is not strong", etag)
	}

	head, none := fetch(t, "HEAD", server.URL, nil)
	head.Header.Del("Date")
	res.Header.Del("Date")
	if head.StatusCode != http.StatusOK || none != "" || head.ContentLength != int64(len(want)) || head.Header.Get("ETag") != etag {
		t.Errorf("HEAD: %s, %d bytes announced, %q", head.Status, head.ContentLength, none)
	}
}

func TestServeConditional(t *testing.T) {
	server := serve(t, resourceDocument())
	res, _ := fetch(t, "GET", server.URL, nil)
	etag := res.Header.Get("ETag")
	for _, tt := range []struct {
		ifNoneMatch []string
		want        int
	}{
		{nil, 200},
		{[]string{""}, 200},
		{[]string{`"other"`}, 200},
		{[]string{strings.Trim(etag, `"`)}, 200},
		{[]string{`"` + etag + `"`}, 200},
		{[]string{`w/` + etag}, 200},
		{[]string{etag}, 304},
		{[]string{"W/" + etag}, 304},
		{[]string{"*"}, 304},
		{[]string{`"other" , ` + etag}, 304},
		{[]string{`"other"`, etag}, 304},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			header := http.Header{}
			if tt.ifNoneMatch != nil {
				header["If-None-Match"] = tt.ifNoneMatch
			}
			res, body := fetch(t, method, server.URL, header)
			if res.StatusCode != tt.want {
				t.Errorf("%s with %q: %s, want %d", method, tt.ifNoneMatch, res.Status, tt.want)
			}
			if res.StatusCode == 304 && (body != "" || res.Header.Get("ETag") != etag || res.Header.Get("Cache-Control") == "" || res.Header.Get("Access-Control-Allow-Origin") != "*") {
				t.Errorf("%s with %q: 304 with %v and %q", method, tt.ifNoneMatch, res.Header, body)
			}
		}
	}
}

func TestServePreflight(t *testing.T) {
	server := serve(t, resourceDocument())
	res, body := fetch(t, "OPTIONS", server.URL, http.Header{
		"Origin":                         {"https://inspector.example.org"},
		"Access-Control-Request-Method":  {"GET"},
		"Access-Control-Request-Headers": {"mcp-protocol-version"},
	})
	if res.StatusCode != http.StatusNoContent || body != "" || res.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("OPTIONS: %s %v", res.Status, res.Header)
	}
	allowed := strings.Split(strings.ToLower(res.Header.Get("Access-Control-Allow-Headers")), ", ")
	for _, want := range []string{"mcp-protocol-version", "mcp-method", "mcp-name", "authorization", "content-type", "accept"} {
		if !slices.Contains(allowed, want) {
			t.Errorf("the header %s is not allowed", want)
		}
	}
	if res.Header.Get("Access-Control-Allow-Credentials") != "" || res.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD, OPTIONS" {
		t.Errorf("OPTIONS: %v", res.Header)
	}
}

func TestServeOtherMethods(t *testing.T) {
	server := serve(t, resourceDocument())
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get"} {
		res, body := fetch(t, method, server.URL, nil)
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD, OPTIONS" || body != "" {
			t.Errorf("%s: %s, Allow %q, %q", method, res.Status, res.Header.Get("Allow"), body)
		}
	}
}

func TestServeRefusesWhatIsNotJSON(t *testing.T) {
	if handler, err := metadata.Serve(func() {}); err == nil || handler != nil {
		t.Errorf("Serve(func) = %v, %v", handler, err)
	}
}

func TestServeIsDeterministic(t *testing.T) {
	a, _ := fetch(t, "GET", serve(t, resourceDocument()).URL, nil)
	b, _ := fetch(t, "GET", serve(t, resourceDocument()).URL, nil)
	other := resourceDocument()
	other.ResourceName = "Other"
	c, _ := fetch(t, "GET", serve(t, other).URL, nil)
	if a.Header.Get("ETag") != b.Header.Get("ETag") || a.Header.Get("ETag") == c.Header.Get("ETag") {
		t.Error("the ETag must follow the bytes of the document")
	}
}

// discard is a ResponseWriter that does not allocate.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func TestServeAllocatesNothing(t *testing.T) {
	handler, err := metadata.Serve(resourceDocument())
	if err != nil {
		t.Fatal(err)
	}
	w, r := discard{http.Header{}}, httptest.NewRequest("GET", "/", nil)
	if n := testing.AllocsPerRun(100, func() { handler.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

func BenchmarkServe(b *testing.B) {
	handler, err := metadata.Serve(resourceDocument())
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"GET", "304"} {
		b.Run(name, func(b *testing.B) {
			w, r := discard{http.Header{}}, httptest.NewRequest("GET", "/", nil)
			if name == "304" {
				handler.ServeHTTP(w, r)
				r.Header.Set("If-None-Match", w.header.Get("ETag"))
			}
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}
