package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
)

// serverOf starts a server with a handler.
func serverOf(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// soon receives from a channel, or fails the test.
func soon[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("%s: nothing in %s", what, patience)
		panic("not reached")
	}
}

// openRequest sends a request and returns the response as soon as its header has arrived.
func openRequest(t testing.TB, r *http.Request) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableCompression: true, ResponseHeaderTimeout: patience}}
	t.Cleanup(client.CloseIdleConnections)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// lines returns the lines of a body as they arrive.
func lines(body io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		scanner := bufio.NewScanner(body)
		for scanner.Scan() {
			out <- scanner.Text()
		}
	}()
	return out
}

// An event is forwarded before the next one is written, whether the gateway reads the stream or
// not.
func TestEventsArriveOneByOne(t *testing.T) {
	for name, change := range map[string]func(*gateway.Config){
		"without a policy": func(*gateway.Config) {},
		"with a policy":    func(c *gateway.Config) { c.Guard.Policy.Tools = map[string][]string{"a": {"notes:read"}} },
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush() // the header comes before any event
				for n := range 3 {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
					fmt.Fprintf(w, "id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n", n)
					_ = http.NewResponseController(w).Flush()
				}
			}), change)
			for _, r := range []*http.Request{g.request(t, "GET", "/mcp", "", "Mcp-Protocol-Version", "2025-11-25"), g.request(t, "POST", "/mcp", call("tools/list", nil))} {
				res := openRequest(t, r)
				events := lines(res.Body)
				for n := range 3 {
					select {
					case next <- true:
					case <-time.After(patience):
						t.Fatal("the upstream does not want to write")
					}
					if got := soon(t, "an event", events); !strings.HasPrefix(got, fmt.Sprintf("id: %d.", n)) {
						t.Fatalf("%s: %q, want event %d", r.Method, got, n)
					}
					soon(t, "its data", events)
					soon(t, "its end", events)
				}
				if rest, more := <-events; more || res.StatusCode != 200 {
					t.Errorf("%s: after the last event: %q", r.Method, rest)
				}
			}
		})
	}
}

// When the client disconnects, the request to the upstream ends.
func TestClientGoes(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan error, 1)
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.ReadAll(r.Body)
		began <- true
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}))
	for _, method := range []string{"GET", "POST"} { // in the middle of an answer, and before it
		ctx, leave := context.WithCancel(t.Context())
		r := g.request(t, method, "/mcp", strings.Repeat(" ", len(method)-3)).WithContext(ctx)
		done := make(chan bool)
		go func() {
			defer close(done)
			if res, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.ReadAll(res.Body)
				res.Body.Close()
			}
		}()
		soon(t, method+" begins", began)
		leave()
		soon(t, method+" ends at the upstream", ended)
		<-done
	}
	if text := g.log.String(); text != "" {
		t.Errorf("a client that goes is nothing to log:\n%s", text)
	}
}

// A stream ends with its token, after a complete event; other responses are cut off, so that
// clients do not take them for complete; and a request without a response gets one.
func TestTokenExpires(t *testing.T) {
	const leeway = 10 * time.Second // for which the guard accepts a token that has expired
	expiry := time.Now().Add(time.Hour).Truncate(time.Second)
	ended := make(chan bool, 4)
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if kind := r.Header.Get("X-Kind"); kind != "" {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		ended <- true
	}), func(c *gateway.Config) {
		c.Guard.EndStreams = true
		c.Guard.Now = func() time.Time { return expiry.Add(leeway - time.Second) }
	})
	token := "Bearer " + g.token(t, claims{"exp": expiry.Unix(), "iat": expiry.Add(-time.Minute).Unix()})
	open := map[string]*http.Response{}
	for _, kind := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "application/json"} {
		open[kind] = openRequest(t, g.request(t, "GET", "/mcp", "", "X-Kind", kind, "Authorization", token))
	}
	describes(t, do(t, g.request(t, "GET", "/mcp", "", "Authorization", token)), http.StatusGatewayTimeout)
	for kind, res := range open {
		var want error
		if kind == "application/json" {
			want = io.ErrUnexpectedEOF
		}
		if body, err := io.ReadAll(res.Body); !strings.HasSuffix(string(body), "data: 1\n\n") || !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", kind, body, err, want)
		}
	}
	for range 4 {
		soon(t, "the end at the upstream", ended)
	}
	if text := g.log.String(); strings.Contains(text, "WARN") {
		t.Errorf("the upstream did nothing wrong:\n%s", text)
	}
}

// When the server stops, streams end, and requests without a response get one.
func TestServerStops(t *testing.T) {
	began := make(chan bool, 2)
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if r.Method == "GET" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		began <- true
		<-r.Context().Done()
	}))
	life, end := context.WithCancelCause(t.Context())
	g.listen(t, func(s *http.Server) { s.BaseContext = func(net.Listener) context.Context { return life } })
	res := openRequest(t, g.request(t, "GET", "/mcp", ""))
	waiting := make(chan answered, 1)
	go func() { waiting <- do(t, g.request(t, "POST", "/mcp", "{}")) }()
	soon(t, "the stream", began)
	soon(t, "the call", began)
	end(gateway.ErrStopping)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "data: 1\n\n" {
		t.Errorf("the stream ends with %q, %v", body, err)
	}
	a := soon(t, "an answer", waiting)
	describes(t, a, http.StatusServiceUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestUpstreamFails(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		status  int
		log     string
	}{
		{"down", nil, 502, "connection refused"},
		{"says nothing", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "EOF"},
		{"no HTTP", hijacked("hello\r\n\r\n"), 502, "the upstream failed"},
		{"wants a token", status(401, "WWW-Authenticate", "Basic realm=x"), 502, "credentials of its own"},
		{"wants a proxy's token", status(407, "Proxy-Authenticate", "Basic realm=x"), 502, "credentials of its own"},
		{"switches protocols", hijacked("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, "without a request for it"},
		{"redirects elsewhere", status(307, "Location", "https://login.example.com/"), 502, "not below its own"},
		{"redirects beside itself", status(302, "Location", "/login"), 502, "not below its own"},
		{"redirects above itself", status(302, "Location", "/server/../admin"), 502, "not below its own"},
		{"redirects with a password", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://hunter22@"+r.Host+"/server/")
			w.WriteHeader(http.StatusFound)
		}, 502, "not below its own"},
		{"redirects to what is no URL", status(302, "Location", "http://["), 502, "not below its own"},
		{"fails", status(500), 500, ""},
		{"is busy", status(503, "Retry-After", "7"), 503, ""},
		{"refuses", status(403), 403, ""},
		{"knows nothing", status(404), 404, ""},
		{"has nothing new", status(304), 304, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := closed.URL
			if tt.handler != nil {
				url = serverOf(t, tt.handler)
			}
			g := newGate(t, url+"/server")
			a := do(t, g.request(t, "POST", "/mcp", "{}"))
			if a.status != tt.status || a.header["Www-Authenticate"] != nil || a.header["Location"] != nil {
				t.Errorf("%d %v, want %d", a.status, a.header, tt.status)
			}
			if tt.status == http.StatusBadGateway {
				describes(t, a, http.StatusBadGateway)
				if a.header.Get("Retry-After") == "" && !strings.Contains(a.body, "cannot be passed on") {
					t.Error("no Retry-After")
				}
			}
			if text := g.log.String(); !strings.Contains(text, tt.log) || (tt.log == "") != (text == "") {
				t.Errorf("the log has no %q:\n%s", tt.log, text)
			}
			if strings.Contains(a.body, "127.0.0.1") {
				t.Errorf("the response reveals the address of the upstream: %s", a.body)
			}
		})
	}
}

func status(code int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(code)
	}
}

// hijacked writes exactly these bytes and closes the connection.
func hijacked(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// A response that breaks off must not look complete.
func TestUpstreamHangsUp(t *testing.T) {
	for name, text := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n12345",
		"chunks": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
		"events": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n",
	} {
		g := newGate(t, serverOf(t, hijacked(text)))
		res := openRequest(t, g.request(t, "POST", "/mcp", "{}"))
		if body, err := io.ReadAll(res.Body); err == nil || res.StatusCode != 200 {
			t.Errorf("%s: %s with %q looks complete", name, res.Status, body)
		}
		if text := g.log.String(); !strings.Contains(text, "closed the connection in the middle of a response") {
			t.Errorf("%s: the log:\n%s", name, text)
		}
	}
}

// A redirect below the upstream is rewritten to one below the resource, and the gateway does not
// follow it.
func TestRedirects(t *testing.T) {
	var location string
	asked := 0
	url := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Location", strings.ReplaceAll(location, "{upstream}", "http://"+r.Host))
		code := http.StatusTemporaryRedirect
		if strings.HasSuffix(r.URL.Path, "/new") {
			code = http.StatusCreated
		}
		w.WriteHeader(code)
	})
	for _, tt := range []struct{ resource, upstream, path, location, want string }{
		{"/mcp", "/server", "/mcp", "{upstream}/server/", "https://notes.example.com/mcp/"},
		{"/mcp", "/server", "/mcp", "/server/", "https://notes.example.com/mcp/"},
		{"/mcp", "/server", "/mcp/", "{upstream}/server", "https://notes.example.com/mcp"},
		{"/mcp", "/server/", "/mcp", "/server", "https://notes.example.com/mcp"},
		{"/mcp", "/server", "/mcp/a", "b?c=d%20e#f", "https://notes.example.com/mcp/b?c=d%20e#f"},
		{"/mcp", "/server", "/mcp/a/b", "../c%20d", "https://notes.example.com/mcp/c%20d"},
		{"/mcp", "", "/mcp", "/a", "https://notes.example.com/mcp/a"},
		{"", "/server", "/", "/server/a", "https://notes.example.com/a"},
		{"", "", "/", "{upstream}", "https://notes.example.com"},
		{"/mcp", "/server", "/mcp/new", "/server/1", "https://notes.example.com/mcp/1"},
		{"/mcp", "/server", "/mcp/new", "/elsewhere/1", ""},
	} {
		g := newGate(t, url+tt.upstream, func(c *gateway.Config) {
			c.Guard.Resource, c.Guard.Audiences = "https://notes.example.com"+tt.resource, []string{resource}
		})
		location, asked = tt.location, 0
		a := do(t, g.request(t, "POST", tt.path, "{}"))
		if a.header.Get("Location") != tt.want || asked != 1 || (a.status != 307 && a.status != 201) {
			t.Errorf("%s from %s%s: %d to %q after %d requests, want %q", tt.path, tt.upstream, tt.location, a.status, a.header.Get("Location"), asked, tt.want)
		}
	}
}

// roundTrip is a transport to an upstream.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
