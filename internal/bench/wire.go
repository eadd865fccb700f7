package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerTime bounds each answer. It is long, because a busy machine is no reason to fail.
const answerTime = time.Minute

// wire is one connection that is kept open, with the cookies of one browser. It is the whole
// generator: it writes requests that are already text, and reads of an answer what operations
// need, so that its own cost stays at a few microseconds. One goroutine uses it at a time.
type wire struct {
	address string
	host    string // the Host header
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	body    []byte
	cookies [][2]string
}

// answer is what came back. Body is valid until the next request.
type answer struct {
	status   int
	location string
	body     []byte
	last     bool // the server closes the connection
	chunked  bool
	length   int
}

func newWire(address, host string) *wire { return &wire{address: address, host: host} }

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// get sends a GET with the cookies of the browser.
func (w *wire) get(path string) (answer, error) {
	w.begin("GET", path)
	w.sendCookies()
	return w.exchange("", nil)
}

// submit sends a form as a browser does, with cookies and origin.
func (w *wire) submit(path, origin string, body []byte) (answer, error) {
	w.begin("POST", path)
	w.header("Origin", origin)
	w.header("Sec-Fetch-Site", "same-origin")
	w.sendCookies()
	return w.exchange("application/x-www-form-urlencoded", body)
}

// post sends a request of a program. Authorization may be empty.
func (w *wire) post(path, contentType, authorization string, body []byte) (answer, error) {
	w.begin("POST", path)
	if authorization != "" {
		w.header("Authorization", authorization)
	}
	return w.exchange(contentType, body)
}

func (w *wire) begin(method, path string) {
	w.request = append(append(append(w.request[:0], method...), ' '), path...)
	w.request = append(w.request, " HTTP/1.1\r\n"...)
	w.header("Host", w.host)
}

func (w *wire) header(name, value string) {
	w.request = append(append(append(append(w.request, name...), ": "...), value...), "\r\n"...)
}

func (w *wire) sendCookies() {
	for i, c := range w.cookies {
		separator := "; "
		if i == 0 {
			separator = "Cookie: "
		}
		w.request = append(append(append(append(w.request, separator...), c[0]...), '='), c[1]...)
	}
	if len(w.cookies) > 0 {
		w.request = append(w.request, "\r\n"...)
	}
}

// exchange sends the request that was begun and reads its answer.
func (w *wire) exchange(contentType string, body []byte) (answer, error) {
	if contentType != "" {
		w.header("Content-Type", contentType)
		w.header("Content-Length", strconv.Itoa(len(body)))
	}
	w.request = append(append(w.request, "\r\n"...), body...)
	if err := w.open(); err != nil {
		return answer{}, err
	}
	if _, err := w.conn.Write(w.request); err != nil {
		w.close()
		return answer{}, err
	}
	a, err := w.read()
	if err != nil || a.last {
		w.close()
	}
	return a, err
}

func (w *wire) open() error {
	if w.conn == nil {
		conn, err := net.DialTimeout("tcp", w.address, answerTime)
		if err != nil {
			return err
		}
		w.conn, w.reader = conn, bufio.NewReaderSize(conn, 16<<10)
	}
	return w.conn.SetDeadline(time.Now().Add(answerTime))
}

func (w *wire) read() (answer, error) {
	line, err := w.line()
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer{}, fmt.Errorf("not HTTP/1.1: %q", line)
	}
	var a answer
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, err
	}
	for {
		if line, err = w.line(); err != nil || len(line) == 0 {
			break
		}
		w.note(&a, line)
	}
	if err != nil {
		return answer{}, err
	}
	return a, w.readBody(&a)
}

// line returns the next line without its end, valid until the next read.
func (w *wire) line() ([]byte, error) {
	line, err := w.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// note takes from a header line what the generator needs.
func (w *wire) note(a *answer, line []byte) {
	name, value, _ := bytes.Cut(line, []byte(": "))
	switch {
	case is(name, "Content-Length"):
		a.length, _ = strconv.Atoi(string(value))
	case is(name, "Transfer-Encoding"):
		a.chunked = true
	case is(name, "Location"):
		a.location = string(value)
	case is(name, "Connection"):
		a.last = is(value, "close")
	case is(name, "Set-Cookie"):
		w.setCookie(string(value))
	}
}

func is(got []byte, want string) bool {
	return len(got) == len(want) && strings.EqualFold(string(got), want)
}

// setCookie keeps a cookie, or drops the one that ends.
func (w *wire) setCookie(text string) {
	pair, attributes, _ := strings.Cut(text, ";")
	name, value, _ := strings.Cut(pair, "=")
	ends := value == "" || strings.Contains(strings.ToLower(attributes), "max-age=0")
	for i, c := range w.cookies {
		if c[0] != name {
			continue
		}
		if ends {
			w.cookies = append(w.cookies[:i], w.cookies[i+1:]...)
		} else {
			w.cookies[i][1] = value
		}
		return
	}
	if !ends {
		w.cookies = append(w.cookies, [2]string{name, value})
	}
}

func (w *wire) readBody(a *answer) error {
	w.body = w.body[:0]
	if !a.chunked {
		err := w.take(a.length)
		a.body = w.body
		return err
	}
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(line), 16, 32)
		if err != nil {
			return err
		}
		if err := w.take(int(n)); err != nil {
			return err
		}
		if line, err = w.line(); err != nil {
			return err
		}
		if len(line) > 0 {
			return fmt.Errorf("chunk ends in %q", line)
		}
		if n == 0 {
			a.body = w.body
			return nil
		}
	}
}

// take reads the next n bytes behind what there is of the body.
func (w *wire) take(n int) error {
	from := len(w.body)
	if n < 0 || n > 8<<20 {
		return fmt.Errorf("a body of %d bytes", n)
	}
	w.body = append(w.body, make([]byte, n)...)
	_, err := io.ReadFull(w.reader, w.body[from:])
	return err
}
