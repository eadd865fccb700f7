package middleware_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// dial opens a connection and sends the beginning of a request with a body of 100 bytes.
func dial(t *testing.T, server *httptest.Server, token string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: notes.example.com\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", token)
	return conn
}

// TestSlowBodiesAreCut checks the deadline of a body, whether the guard, the handler or none of
// them reads it.
func TestSlowBodiesAreCut(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	good := issuer.Mint(claims{"aud": resource})
	for name, tt := range map[string]struct {
		policy  middleware.Policy
		token   string
		trickle bool // one byte after the other, so that something always arrives
		want    int
	}{
		"the guard reads":                 {middleware.Policy{Methods: map[string][]string{"*": nil}}, good, false, http.StatusRequestTimeout},
		"the guard reads a trickle":       {middleware.Policy{Methods: map[string][]string{"*": nil}}, good, true, http.StatusRequestTimeout},
		"the handler reads":               {middleware.Policy{}, good, false, http.StatusTeapot},
		"the handler reads a trickle":     {middleware.Policy{}, good, true, http.StatusTeapot},
		"nobody reads":                    {middleware.Policy{}, "wrong", false, http.StatusUnauthorized},
		"nobody reads, and guards a list": {middleware.Policy{Tools: map[string][]string{"*": nil}}, "wrong", false, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard := newGuard(t, issuer, func(c *middleware.Config) { c.BodyTime, c.Policy = 150*time.Millisecond, tt.policy })
			cut := make(chan error, 1)
			server := httptest.NewServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				cut <- err
				w.WriteHeader(http.StatusTeapot)
			})))
			t.Cleanup(server.Close)
			conn := dial(t, server, tt.token)
			if tt.trickle {
				ended := make(chan struct{})
				defer close(ended)
				go func() {
					for range 98 {
						select {
						case <-ended:
							return
						case <-time.After(20 * time.Millisecond):
						}
						_, _ = conn.Write([]byte(" ")) // fails when it was cut
					}
				}()
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != tt.want || !res.Close {
				t.Fatalf("%v, %v, want %d and the end of the connection", res, err, tt.want)
			}
			if tt.want == http.StatusTeapot {
				if err := <-cut; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the handler reads: %v", err)
				}
			}
		})
	}
}

// TestSlowAnswersAreNotCut checks that the deadline does not apply to the response.
func TestSlowAnswersAreNotCut(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const bodyTime = 50 * time.Millisecond
	for name, policy := range map[string]middleware.Policy{"read": {Methods: map[string][]string{"*": nil}}, "unread": {}} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.BodyTime, c.Policy = bodyTime, policy })
		server := httptest.NewServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			select {
			case <-time.After(4 * bodyTime):
				w.WriteHeader(http.StatusTeapot)
			case <-r.Context().Done():
			}
		})))
		t.Cleanup(server.Close)
		conn := dial(t, server, issuer.Mint(claims{"aud": resource}))
		fmt.Fprintf(conn, "%-99s", `"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusTeapot {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// TestBodyTimeOfTheListener checks that a negative BodyTime sets no deadline.
func TestBodyTimeOfTheListener(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.BodyTime = -1 })
	server := httptest.NewUnstartedServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
			w.WriteHeader(http.StatusTeapot)
		}
	})))
	server.Config.ReadTimeout = 150 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	if res, err := http.ReadResponse(bufio.NewReader(dial(t, server, issuer.Mint(claims{"aud": resource}))), nil); err != nil || res.StatusCode != http.StatusTeapot {
		t.Errorf("%v, %v", res, err)
	}
}
