//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// recorder is a proxy between the gateway and the server.
type recorder struct {
	next http.RoundTripper
	seen chan struct{} // closed by the client when it has seen progress

	mu  sync.Mutex
	all []*recorded
}

type recorded struct {
	method, url, body string
	header            http.Header
	status            int
}

func (r *recorded) String() string {
	return fmt.Sprint(r.method, " ", r.url, " ", r.header, " ", r.body)
}

// RoundTrip implements http.RoundTripper.
func (w *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	note := &recorded{method: r.Method, url: r.URL.String(), body: string(body), header: r.Header.Clone()}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.URL.Path == "/mcp" {
		w.mu.Lock()
		defer w.mu.Unlock()
		note.status = resp.StatusCode
		w.all = append(w.all, note)
	}
	if strings.Contains(note.body, `"name":"`+longTool+`"`) {
		resp.Body = &held{Closer: resp.Body, lines: bufio.NewReader(resp.Body), seen: w.seen}
	}
	return resp, nil
}

func (w *recorder) requests() []*recorded {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func (w *recorder) answered(method string, status int) (n int) {
	for _, r := range w.requests() {
		if r.method == method && r.status == status {
			n++
		}
	}
	return n
}

// held is a stream that continues after the first event with progress only when the client has
// received that.
type held struct {
	io.Closer
	lines *bufio.Reader
	rest  []byte
	began bool // whether progress was in the event
	seen  <-chan struct{}
}

// Read implements io.Reader. It reads line by line.
func (h *held) Read(p []byte) (int, error) {
	if len(h.rest) == 0 {
		if err := h.wait(); err != nil {
			return 0, err
		}
		line, err := h.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		h.rest, h.began = line, h.began || bytes.Contains(line, []byte("notifications/progress"))
	}
	n := copy(p, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// wait waits before the event after the first one.
func (h *held) wait() error {
	next, err := h.lines.Peek(1)
	if !h.began || err != nil || next[0] == '\n' {
		return nil
	}
	select {
	case <-h.seen:
		return nil
	case <-time.After(patience):
		return errors.New("the client has not seen what came first")
	}
}
