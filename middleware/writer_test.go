package middleware_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// Writers of a listener, with some of the optional interfaces.
type (
	bareWriter   struct{ http.ResponseWriter }
	flushWriter  struct{ bareWriter }
	hijackWriter struct{ bareWriter }
	readWriter   struct{ bareWriter }
	fullWriter   struct{ bareWriter }
)

func (flushWriter) Flush() {}

func (hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errHijacked }

func (w readWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }

func (fullWriter) Flush() {}

func (fullWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errHijacked }

func (w fullWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }

var errHijacked = errors.New("the listener was asked")

// TestWritersHaveWhatTheListenerHas: through each kind of guard, the handler's writer flushes,
// reads and is taken over if that of the listener is; in front of a server of the protocol no
// connection is taken over.
func TestWritersHaveWhatTheListenerHas(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	ends := func(c *middleware.Config) { c.EndStreams = true }
	unbound := func(c *middleware.Config) { c.InsecureUnboundSessions = true }
	tools := func(c *middleware.Config) { c.Policy.Tools = map[string][]string{"*": nil} }
	route := func(c *middleware.Config) { c.Policy.Routes = map[string][]string{"/": nil} }
	for name, tt := range map[string]struct {
		change  []func(*middleware.Config)
		hijacks bool
	}{
		"sessions":                {nil, false},
		"sessions that end":       {[]func(*middleware.Config){ends}, false},
		"lists":                   {[]func(*middleware.Config){tools}, false},
		"lists without sessions":  {[]func(*middleware.Config){tools, unbound}, false},
		"nothing to bind":         {[]func(*middleware.Config){unbound}, true},
		"streams that end":        {[]func(*middleware.Config){unbound, ends}, true},
		"routes":                  {[]func(*middleware.Config){route}, true},
		"routes and streams' end": {[]func(*middleware.Config){route, ends}, true},
	} {
		guard := newGuard(t, issuer, tt.change...)
		bare := bareWriter{httptest.NewRecorder()}
		for _, outer := range []http.ResponseWriter{bare, flushWriter{bare}, hijackWriter{bare}, readWriter{bare}, fullWriter{bare}} {
			for answers, wrap := range map[string]func(http.Handler) http.Handler{
				"": func(h http.Handler) http.Handler { return h }, " with AnswerErrors": middleware.AnswerErrors,
			} {
				calls := 0
				handler := guard.Protect(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					calls++
					_, flushes := w.(http.Flusher)
					_, reads := w.(io.ReaderFrom)
					_, hijacks := w.(http.Hijacker)
					_, flushes2 := outer.(http.Flusher)
					_, reads2 := outer.(io.ReaderFrom)
					_, hijacks2 := outer.(http.Hijacker)
					if flushes != flushes2 || reads != reads2 || hijacks != (hijacks2 && tt.hijacks) {
						t.Errorf("%s%s, %T: flush %t, read %t, hijack %t", name, answers, outer, flushes, reads, hijacks)
					}
					if _, _, err := http.NewResponseController(w).Hijack(); errors.Is(err, errHijacked) != hijacks {
						t.Errorf("%s%s, %T: ResponseController.Hijack: %v", name, answers, outer, err)
					}
					if err := http.NewResponseController(w).Flush(); (err == nil) != flushes {
						t.Errorf("%s%s, %T: ResponseController.Flush: %v", name, answers, outer, err)
					}
				})))
				r := newRequest("GET", resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}), "Accept", "text/html")
				if handler.ServeHTTP(outer, r); calls != 1 {
					t.Fatalf("%s%s: the handler was called %d times", name, answers, calls)
				}
			}
		}
	}
}

// sendfiles is a listener that counts how often a connection takes a file as a whole.
type sendfiles struct {
	net.Listener
	count *atomic.Int64
}

func (l sendfiles) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return sendfileConn{conn.(*net.TCPConn), l.count}, nil
}

type sendfileConn struct {
	*net.TCPConn
	count *atomic.Int64
}

// ReadFrom counts what net/http hands to the connection.
func (c sendfileConn) ReadFrom(src io.Reader) (int64, error) {
	c.count.Add(1)
	return c.TCPConn.ReadFrom(src)
}

// serveOn serves a handler with one's own listener, and returns its URL.
func serveOn(t *testing.T, count *atomic.Int64, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Listener = sendfiles{server.Listener, count}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// TestFilesAreSentAsAWhole: a file goes from the handler to the connection of net/http without a
// copy, through CloseUnclear, a guard that binds sessions and AnswerErrors; a filtered list does
// not.
func TestFilesAreSentAsAWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file.bin")
	text := strings.Repeat("0123456789abcdef", 64<<10)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	issuer := middlewaretest.NewIssuer(t)
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })
	var count atomic.Int64
	for path, want := range map[string]int64{"guard": 1, "routes": 1} {
		guard := newGuard(t, issuer, func(c *middleware.Config) {
			c.EndStreams = true
			if path == "routes" {
				c.Policy.Routes = map[string][]string{"GET /file": nil}
			}
		})
		url := serveOn(t, &count, middleware.CloseUnclear(onlyHost(guard.Protect(middleware.AnswerErrors(files)))))
		count.Store(0)
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/file", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(body) != text || count.Load() != want {
			t.Errorf("%s: %d bytes, %v, %d files as a whole", path, len(body), err, count.Load())
		}
	}
}

// onlyHost makes requests of a test name the host of the resource, which a guard on loopback wants.
func onlyHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "notes.example.com"
		next.ServeHTTP(w, r)
	})
}

// TestConnectionsEndWithTheToken: a connection that a handler took over ends when the token is no
// longer accepted, after the handler returned, if EndStreams is set.
func TestConnectionsEndWithTheToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	clock := newClock() // stands still: a slow machine does not end the token before the request
	for _, ends := range []bool{false, true} {
		guard := newGuard(t, issuer, func(c *middleware.Config) {
			c.EndStreams, c.Now = ends, clock.Now
			c.Policy.Routes = map[string][]string{"GET /socket": nil}
		})
		taken := make(chan net.Conn, 1)
		var count atomic.Int64
		url := serveOn(t, &count, onlyHost(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
			}
			taken <- conn
		}))))
		client, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		token := issuer.Mint(claims{"aud": resource, "exp": clock.Now().Add(-9 * time.Second).Unix()}) // accepted for ten seconds more
		_, _ = io.WriteString(client, "GET /socket HTTP/1.1\r\nHost: notes.example.com\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		conn := <-taken
		if !ends {
			_ = conn.Close() // by the handler
		}
		_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("EndStreams %t: %v", ends, err)
		}
		if err := conn.Close(); ends && err != nil {
			t.Errorf("closed once more: %v", err)
		}
	}
}
