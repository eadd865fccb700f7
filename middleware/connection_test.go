package middleware_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/middleware"
)

// CloseUnclear closes a connection on which two readers could disagree, and keeps every other
// one.
func TestCloseUnclear(t *testing.T) {
	server := httptest.NewServer(middleware.CloseUnclear(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })))
	t.Cleanup(server.Close)
	const hidden = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
	for name, tt := range map[string]struct {
		request string
		kept    bool
	}{
		"nothing":             {hidden, true},
		"a length":            {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true},
		"an encoding":         {"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
		"both":                {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
		"HTTP/1.0":            {"GET / HTTP/1.0\r\nHost: example.com\r\nConnection: keep-alive\r\n\r\n", false},
		"another spelling":    {"POST / HTTP/1.1\r\nHost: example.com\r\nContent_Length: 90\r\n\r\n", false},
		"something like it":   {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Lengthy: 90\r\nX-Transfer-Encoding: chunked\r\n\r\n", true},
		"length and spelling": {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer.Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprint(conn, tt.request+hidden)
			answers := bufio.NewReader(conn)
			first, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, first.Body)
			_, err = http.ReadResponse(answers, nil)
			ended := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
			if first.Close == tt.kept || tt.kept && err != nil || !tt.kept && !ended {
				t.Errorf("the first answer ends the connection: %t; then %v", first.Close, err)
			}
		})
	}
}
