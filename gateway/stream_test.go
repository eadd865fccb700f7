package gateway_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
)

// serverOf answers with a handler.
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

// openRequest sends a request and returns the answer as soon as its header is there.
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

// lines reads a body line by line, each as it comes.
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

// An event arrives while the next one is not yet written, whether the gateway looks into
// the stream or not.
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

// A body arrives while the rest of it is not yet sent, and an answer while the body still
// comes.
func TestBodiesStream(t *testing.T) {
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		body := bufio.NewReader(r.Body)
		for {
			line, err := body.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, strings.ToUpper(line))
			_ = http.NewResponseController(w).Flush()
		}
	}))
	out, in := io.Pipe()
	r := g.request(t, "POST", "/mcp", "")
	r.Body, r.ContentLength = out, -1
	go func() { _, _ = io.WriteString(in, "one\n") }()
	res := openRequest(t, r)
	answers := lines(res.Body)
	for _, word := range []string{"ONE", "TWO", "THREE"} {
		if got := soon(t, "an answer", answers); got != word {
			t.Fatalf("%q, want %q", got, word)
		}
		if word != "THREE" {
			fmt.Fprintln(in, map[string]string{"ONE": "two", "TWO": "three"}[word])
		}
	}
	in.Close()
	if rest, more := <-answers; more {
		t.Errorf("after the end: %q", rest)
	}
}

// Bodies pass byte for byte, whatever they are, and as long as they say.
func TestBodiesAreNotTouched(t *testing.T) {
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	up := &upstream{}
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		up.mu.Lock()
		up.requests = append(up.requests, seen{body: body, length: r.ContentLength, header: r.Header.Clone()})
		up.mu.Unlock()
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Header().Set("Content-Encoding", "gzip") // which it is not: nobody looks
		_, _ = w.Write(body)
	}))
	for _, body := range []string{"x", " {\"a\" : 1,\n\"a\":2 }", "\xff\xfe\x00", string(big)} {
		for _, chunked := range []bool{false, true} {
			r := g.request(t, "POST", "/mcp", body, "Accept-Encoding", "gzip")
			want := int64(len(body))
			if chunked {
				r.ContentLength, want = -1, -1
			}
			res := openRequest(t, r)
			answer, err := io.ReadAll(res.Body)
			if err != nil || string(answer) != body {
				t.Errorf("%.20q comes back as %.20q, %v", body, answer, err)
			}
			if got := up.taken()[0]; string(got.body) != body || got.length != want {
				t.Errorf("%.20q arrives as %.20q with length %d", body, got.body, got.length)
			}
		}
	}
}

// When the client goes, so does the request to the upstream.
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

// A stream ends when the token does, after a whole number of events; other answers are cut
// off, so that nobody takes them for complete; and there is an answer where there was none.
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

// When the server is about to end, streams end, and whoever still waits is told.
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
		{"switches protocols", hijacked("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, "without being asked"},
		{"redirects elsewhere", status(307, "Location", "https://login.example.com/"), 502, "somewhere"},
		{"redirects beside itself", status(302, "Location", "/login"), 502, "somewhere"},
		{"redirects above itself", status(302, "Location", "/server/../admin"), 502, "somewhere"},
		{"redirects with a password", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://hunter22@"+r.Host+"/server/")
			w.WriteHeader(http.StatusFound)
		}, 502, "somewhere"},
		{"redirects to what is no URL", status(302, "Location", "http://["), 502, "somewhere"},
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
				t.Errorf("the answer tells where the upstream is: %s", a.body)
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

// hijacked answers with exactly these bytes, and hangs up.
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

// An answer that breaks off must not look complete.
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
		if text := g.log.String(); !strings.Contains(text, "hung up in the middle of an answer") {
			t.Errorf("%s: the log:\n%s", name, text)
		}
	}
}

// A redirect below the upstream leads below the resource, and is not followed here.
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

// A body that does not come ends the request, and one that came leaves the answer all the
// time it needs.
func TestBodiesThatDawdle(t *testing.T) {
	const bodyTime = 200 * time.Millisecond
	cut := make(chan error, 1)
	url := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select {
		case <-time.After(4 * bodyTime):
		case <-r.Context().Done():
			cut <- context.Cause(r.Context())
		}
		_, _ = io.WriteString(w, "slow")
	})
	for name, policy := range map[string]map[string][]string{"streams": nil, "is read": {"ping": {}}} {
		g := newGate(t, url, func(c *gateway.Config) { c.BodyTime, c.Guard.Policy.Methods = bodyTime, policy })
		if a := do(t, g.request(t, "POST", "/mcp", call("ping", nil))); a.status != 200 || a.body != "slow" {
			t.Errorf("%s: a slow answer: %d %s", name, a.status, a.body)
		}
		good, bad := "Bearer "+g.token(t, nil), "Bearer wrong"
		var open []net.Conn
		tests := []struct {
			path, token string
			want        []int
		}{
			{"/mcp", good, []int{408}}, {"/mcp", bad, []int{401}}, {"/mcp/%2e", good, []int{400}}, {"/elsewhere", good, []int{404}}, {"/verify", good, []int{200}},
			{"/healthz", good, []int{405}}, {"/.well-known/x", good, []int{404}},
		}
		for _, tt := range tests {
			conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: notes.example.com\r\nContent-Type: application/json\r\nAuthorization: %s\r\nContent-Length: 100\r\n\r\n{", tt.path, tt.token)
			open = append(open, conn)
		}
		for i, tt := range tests {
			res, err := http.ReadResponse(bufio.NewReader(open[i]), nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, tt.path, err)
			}
			if !slices.Contains(tt.want, res.StatusCode) {
				t.Errorf("%s: %s: %s, want one of %v", name, tt.path, res.Status, tt.want)
			}
		}
	}
	select {
	case err := <-cut:
		if err == nil {
			t.Error("a slow answer was cut off")
		}
	default:
	}
}

// A client that goes in the middle of its body is no fault of the upstream.
func TestClientGoesInTheMiddleOfItsBody(t *testing.T) {
	ended := make(chan bool, 1)
	g := newGate(t, serverOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		ended <- true
	}))
	conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: notes.example.com\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", g.token(t, nil))
	_ = conn.Close()
	soon(t, "the end at the upstream", ended)
	g.server.Close()
	if text := g.log.String(); strings.Contains(text, "WARN") {
		t.Errorf("the log:\n%s", text)
	}
}

// An upstream that answers before it has the whole body, or not at all, does no harm to the
// connection: the answer arrives, and nothing of the body is taken for a request.
func TestAnswersBeforeTheBodyEnds(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	early := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too long")
	})
	const smuggled = "GET /mcp/smuggled HTTP/1.1\r\nHost: notes.example.com\r\n\r\n"
	for url, want := range map[string]int{early: http.StatusRequestEntityTooLarge, closed.URL: http.StatusBadGateway} {
		g := newGate(t, url)
		conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: notes.example.com\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", g.token(t, nil), 3*len(smuggled))
		reader := bufio.NewReader(conn)
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != want || !res.Close {
			t.Fatalf("%v, %v, want %d", res, err, want)
		}
		_, _ = io.WriteString(conn, smuggled+smuggled+smuggled+smuggled)
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Errorf("%d: the answer breaks off: %v", want, err)
		}
		if rest, err := io.ReadAll(reader); len(rest) != 0 {
			t.Errorf("%d: more answers: %q, %v", want, rest, err)
		}
		if text := g.log.String(); strings.Contains(text, "smuggled") {
			t.Errorf("%d: the log:\n%s", want, text)
		}
	}
}

// A body that is none is the client's fault.
func TestBodiesThatAreBroken(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: notes.example.com\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n", g.token(t, nil))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusBadRequest || !res.Close {
		t.Errorf("%v, %v", res, err)
	}
	if text := g.log.String(); strings.Contains(text, "WARN") {
		t.Errorf("the upstream did nothing wrong:\n%s", text)
	}
}

// deadlines is an answer that remembers until when a body may arrive.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

// SetReadDeadline is for http.ResponseController.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A body has its time when it begins and when somebody begins to read it, however many pieces
// it comes in. After the end there is no deadline.
func TestBodiesHaveDeadlines(t *testing.T) {
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		for piece := make([]byte, 1); ; {
			if _, err := r.Body.Read(piece); err != nil {
				return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}
		}
	})
	for name, tt := range map[string]struct {
		policy map[string][]string
	}{"streams": {nil}, "is read": {map[string][]string{"ping": {}}}} {
		g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) {
			c.Transport, c.Guard.Policy.Methods, c.BodyTime = transport, tt.policy, time.Minute
		})
		body := call("ping", nil)
		r := httptest.NewRequest("POST", resource, strings.NewReader(body)).WithContext(t.Context())
		r.Header.Set("Authorization", "Bearer "+g.token(t, nil))
		r.Header.Set("Content-Type", "application/json")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		g.ServeHTTP(w, r)
		last := len(w.set) - 1
		if w.Code != http.StatusNoContent || last != 2 || !w.set[last].IsZero() {
			t.Errorf("%s: %d, deadlines %v", name, w.Code, w.set)
			continue
		}
		for _, at := range w.set[:last] {
			if at.Before(began.Add(time.Minute)) || at.After(time.Now().Add(time.Minute)) {
				t.Errorf("%s: a deadline at %s", name, at)
			}
		}
	}
}

// roundTrip is a way to an upstream.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
