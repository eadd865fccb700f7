//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/storage/redis/redistest"
)

// tape records the requests of a client to the authorization server and to the demo.
type tape struct {
	mu       sync.Mutex
	requests []taped
}

// taped is a recorded request with the status of its response.
type taped struct {
	method, path string
	header       http.Header
	body         string
	status       int
}

// startTaped runs both commands for each other with their default settings, with a tape in front
// of each. Arguments are for the authorization server.
func startTaped(t *testing.T, args ...string) (authz *process, resource string, record *tape) {
	t.Helper()
	record = &tape{}
	own, other := redistest.FreeAddress(t), redistest.FreeAddress(t)
	issuer := record.front(t, own)
	resource = record.front(t, other) + "/mcp"
	args = append([]string{"serve", "--dev", "--admin-listen", "off", "--listen", own, "--issuer", issuer, "--dev-resource", resource}, args...)
	authz = start(t, build(t, "authz"), own, []string{"AUTHZ_DEV_PASSWORD=" + personPassword}, args)
	startDemo(t, nil, "--listen", other, "--resource", resource, "--issuer", issuer)
	return authz, resource, record
}

// front returns the URL of a proxy for an address, which changes nothing.
func (w *tape) front(t *testing.T, address string) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: address}
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, Transport: w,
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// RoundTrip implements http.RoundTripper.
func (w *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, taped{r.Method, r.URL.Path, r.Header.Clone(), string(body), resp.StatusCode})
	return resp, nil
}

// all returns the requests to a path that were answered with a status below 300.
func (w *tape) all(path string) []taped {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.requests), func(h taped) bool {
		return h.path != path || h.method == http.MethodOptions || h.status > 299
	})
}

// called reports whether the demo answered a message with the method.
func (w *tape) called(method string) bool {
	return slices.ContainsFunc(w.all("/mcp"), func(h taped) bool { return strings.Contains(h.body, `"method":"`+method+`"`) })
}

// granted counts the token responses for a grant type.
func (w *tape) granted(grantType string) (n int) {
	for _, h := range w.all("/token") {
		if form, err := url.ParseQuery(h.body); err == nil && form.Get("grant_type") == grantType {
			n++
		}
	}
	return n
}

// story returns the recorded requests, for a test that fails. It contains no secrets but those of
// this test.
func (w *tape) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, h := range w.requests {
		b.WriteString(strings.Join([]string{http.StatusText(h.status), h.method, h.path, h.header.Get("User-Agent"), h.body, "\n"}, " "))
	}
	return b.String()
}
