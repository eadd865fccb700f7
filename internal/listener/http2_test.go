package listener

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"gatehouse.example/internal/listener/listenertest"
)

// secure serves over TLS, and returns a client that speaks HTTP/2 with it and one that dials
// it.
func secure(t *testing.T) (*Server, string, *http.Client, func() (net.Conn, error)) {
	t.Helper()
	issued := issuedTLS(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Proto)
	})
	s, addr := running(t, handler, Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: issued.certificates}})
	dial := func() (net.Conn, error) {
		return tls.Dial("tcp", addr, issued.client.Clone())
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: issued.client.Clone(), ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return s, "https://" + addr, client, dial
}

// post sends a body of unknown length and reports whether the connection was there before.
func post(t *testing.T, client *http.Client, url string) (reused bool) {
	t.Helper()
	body, in := io.Pipe()
	go func() {
		_, _ = io.WriteString(in, "a body of unknown length")
		_ = in.Close()
	}()
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { reused = got.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "HTTP/2.0" {
		t.Errorf("%q, %v", text, err)
	}
	return reused
}

// HTTP/2 delimits requests unambiguously: its connections are kept, also after bodies of unknown
// length. Attacks with HTTP/1.1 over the same TLS fail.
func TestHTTP2IsNotAffected(t *testing.T) {
	_, url, client, dial := secure(t)
	post(t, client, url)
	for range 3 {
		if !post(t, client, url) {
			t.Fatal("the connection ended with the answer")
		}
	}
	listenertest.Smuggling(t, dial, "example.com", "/")
}

// A server that stops also sends GOAWAY to HTTP/2 clients.
func TestHTTP2Drains(t *testing.T) {
	s, url, client, _ := secure(t)
	post(t, client, url)
	if !post(t, client, url) {
		t.Fatal("the connection ended with the answer")
	}
	s.stopping.Store(true)
	post(t, client, url) // this answer says so
	for range 3 {
		if post(t, client, url) {
			t.Fatal("a connection is used that was to end")
		}
	}
}

// deadlines is an answer that records deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// What is left of an answer over HTTP/2 when its handler has returned has the time of stall, too.
// HTTP/1.1 has a bound of its own for that.
func TestTheRestOfAnAnswerIsBounded(t *testing.T) {
	for proto, want := range map[int]int{1: 0, 2: 1, 3: 1} {
		d, r := &deadlines{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor = proto
		before := time.Now()
		windowed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") }), time.Hour).ServeHTTP(d, r)
		if len(d.set) != want {
			t.Fatalf("HTTP/%d: %d deadlines", proto, len(d.set))
		}
		if want == 1 && (d.set[0].Before(before.Add(time.Hour)) || d.set[0].After(time.Now().Add(time.Hour))) {
			t.Errorf("HTTP/%d: %s after the beginning", proto, d.set[0].Sub(before))
		}
	}
}
