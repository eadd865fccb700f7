// Package listenertest tests listeners with attacks that smuggle requests past a proxy.
package listenertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait.
const patience = 10 * time.Second

// Attack is a request that some parsers take for one request and others for two.
type Attack struct {
	Name string
	// Head are the header lines, without the request line and Host.
	Head []string
	// Body follows the header. The hidden request follows the body.
	Body string
	// Version is the version of HTTP, 1.1 if it is empty.
	Version string
}

const chunked = "0\r\n\r\n"

// Attacks returns the known ambiguities between headers, and some variants of them.
func Attacks() []Attack {
	both := []string{"Content-Length: 5", "Transfer-Encoding: chunked"}
	return []Attack{
		{"length and encoding", both, chunked, ""},
		{"encoding and length", []string{both[1], both[0]}, chunked, ""},
		{"a length of everything", []string{"Transfer-Encoding: chunked", "Content-Length: 5000"}, chunked, ""},
		{"a length of nothing", []string{"Content-Length: 0", "Transfer-Encoding: chunked"}, chunked, ""},
		{"encoding alone", []string{"Transfer-Encoding: chunked"}, chunked, ""},
		{"chunks with a body", []string{"Transfer-Encoding: chunked"}, "3\r\nabc\r\n" + chunked, ""},
		{"a chunk extension", []string{"Transfer-Encoding: chunked"}, "3;x=\"y\"\r\nabc\r\n" + chunked, ""},
		{"trailers", []string{"Transfer-Encoding: chunked", "Trailer: X"}, "0\r\nX: y\r\n\r\n", ""},
		{"capitals", []string{"Content-Length: 5", "TRANSFER-ENCODING: CHUNKED"}, chunked, ""},
		{"mixed capitals", []string{"Content-Length: 5", "tRANSFER-eNCODING: cHuNkEd"}, chunked, ""},
		{"a tab before the value", []string{"Content-Length: 5", "Transfer-Encoding:\tchunked"}, chunked, ""},
		{"a blank behind the value", []string{"Content-Length: 5", "Transfer-Encoding: chunked "}, chunked, ""},
		{"a blank behind the name", []string{"Content-Length: 5", "Transfer-Encoding : chunked"}, chunked, ""},
		{"a folded line", []string{"Content-Length: 5", "Transfer-Encoding:\r\n chunked"}, chunked, ""},
		{"a folded length", []string{"Content-Length:\r\n\t5", "Transfer-Encoding: chunked"}, chunked, ""},
		{"identity", []string{"Content-Length: 5", "Transfer-Encoding: identity"}, chunked, ""},
		{"identity in a list", []string{"Content-Length: 5", "Transfer-Encoding: chunked, identity"}, chunked, ""},
		{"gzip before", []string{"Content-Length: 5", "Transfer-Encoding: gzip, chunked"}, chunked, ""},
		{"in quotes", []string{"Content-Length: 5", "Transfer-Encoding: \"chunked\""}, chunked, ""},
		{"empty", []string{"Content-Length: 5", "Transfer-Encoding:"}, chunked, ""},
		{"twice", []string{"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}, chunked, ""},
		{"twice with identity", []string{"Content-Length: 5", "Transfer-Encoding: identity", "Transfer-Encoding: chunked"}, chunked, ""},
		{"an underscore", []string{"Content-Length: 5", "Transfer_Encoding: chunked"}, chunked, ""},
		{"a dot", []string{"Content-Length: 5", "Transfer.Encoding: chunked"}, chunked, ""},
		{"a length with an underscore", []string{"Content_Length: 5000", "Content-Length: 5"}, chunked, ""},
		{"two lengths", []string{"Content-Length: 5", "Content-Length: 6"}, chunked, ""},
		{"a signed length", []string{"Content-Length: +5"}, chunked, ""},
		{"HTTP/1.0 with encoding", []string{"Connection: keep-alive", "Content-Length: 5", "Transfer-Encoding: chunked"}, chunked, "1.0"},
		{"HTTP/1.0 with encoding alone", []string{"Connection: keep-alive", "Transfer-Encoding: chunked"}, "", "1.0"},
		{"HTTP/1.0 with a length", []string{"Connection: keep-alive", "Content-Length: 5"}, chunked, "1.0"},
		{"an expectation", []string{"Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue"}, chunked, ""},
		{"kept alive by name", []string{"Content-Length: 5", "Transfer-Encoding: chunked", "Connection: keep-alive"}, chunked, ""},
	}
}

// Smuggling sends every attack, followed by a hidden request, on a new connection. Each must be
// answered at most once and its connection closed. dial opens a connection, host is the name in
// the requests, and path one that the listener answers.
func Smuggling(t *testing.T, dial func() (net.Conn, error), host, path string) {
	t.Helper()
	honest(t, dial, host, path)
	for _, method := range []string{"POST", "GET"} {
		for _, a := range Attacks() {
			t.Run(method+" "+a.Name, func(t *testing.T) { a.send(t, dial, method, host, path) })
		}
	}
}

// Dial returns a function that opens connections to an address.
func Dial(addr string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", addr, patience) }
}

// honest checks that the listener serves two requests on one connection if the end of the first
// one is unambiguous; otherwise the attacks would prove nothing.
func honest(t *testing.T, dial func() (net.Conn, error), host, path string) {
	t.Helper()
	conn := open(t, dial)
	defer conn.Close()
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\n\r\n%s", path, host, chunked)
	write(t, conn, request+request)
	answers := bufio.NewReader(conn)
	for i := range 2 {
		if _, err := answer(answers); err != nil {
			t.Fatalf("honest request %d: %v", i+1, err)
		}
	}
}

func (a Attack) send(t *testing.T, dial func() (net.Conn, error), method, host, path string) {
	t.Helper()
	version := a.Version
	if version == "" {
		version = "1.1"
	}
	conn := open(t, dial)
	defer conn.Close()
	hidden := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
	write(t, conn, fmt.Sprintf("%s %s HTTP/%s\r\nHost: %s\r\n%s\r\n\r\n%s%s%s", method, path, version, host, strings.Join(a.Head, "\r\n"), a.Body, hidden, hidden))
	answers := bufio.NewReader(conn)
	first, err := answer(answers)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if !first.Close {
		t.Error("the answer does not say that the connection ends")
	}
	if second, err := answer(answers); err == nil {
		t.Errorf("the hidden request is answered with %s", second.Status)
	} else if !closed(err) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// closed reports whether the other side has closed the connection, also with unread bytes.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

func open(t *testing.T, dial func() (net.Conn, error)) net.Conn {
	t.Helper()
	conn, err := dial()
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// answer reads the next final response.
func answer(r *bufio.Reader) (*http.Response, error) {
	for {
		got, err := http.ReadResponse(r, nil)
		if err != nil {
			return nil, err
		}
		if _, err = io.Copy(io.Discard, got.Body); err != nil {
			return nil, err
		}
		if got.StatusCode >= http.StatusOK {
			return got, nil
		}
	}
}
