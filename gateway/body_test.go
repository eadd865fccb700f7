package gateway_test

import (
	"bufio"
	"context"
	"crypto/rand"
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

// A body is forwarded while the client still sends it, and a response while the body is still on
// the way.
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

// Bodies are forwarded byte for byte, with any content, and with their length.
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
		w.Header().Set("Content-Encoding", "gzip") // a wrong one: the gateway does not decode bodies
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

// A body that does not arrive ends the request, and there is no deadline for the response after
// one that arrived.
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

// A client that disconnects in the middle of its body is not logged as a failure of the upstream.
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

// An upstream that answers before it has the whole body, or not at all, does not affect the
// connection: the response arrives, and no part of the body is read as a request.
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

// A malformed body is an error of the client.
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

// deadlines is a ResponseWriter that records read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

// SetReadDeadline implements the interface of http.ResponseController.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// The deadline of a body starts with the request and again with the first Read, in however many
// pieces the body comes. After the end there is no deadline.
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
