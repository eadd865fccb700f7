package framing_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/internal/framing"
)

// full is a recorder that copies files and gives its connection away.
type full struct{ *httptest.ResponseRecorder }

func (full) ReadFrom(io.Reader) (int64, error) { return 0, nil }

var errTaken = errors.New("the connection is taken over")

func (full) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errTaken }

// TestCloseBeginsWithTheResponse begins a response in each way: the header is there by then, and the
// question whether the server ends is asked once.
func TestCloseBeginsWithTheResponse(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter) error{
		"status":     func(w http.ResponseWriter) error { w.WriteHeader(http.StatusNoContent); return nil },
		"bytes":      func(w http.ResponseWriter) error { _, err := w.Write([]byte("x")); return err },
		"flush":      func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"controller": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
		"copy": func(w http.ResponseWriter) error {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
			return err
		},
	} {
		asked, inner := 0, full{httptest.NewRecorder()}
		framing.Close(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := begin(w); err != nil || asked != 1 || inner.Header().Get("Connection") != "close" {
				t.Errorf("%s: %v, asked %d times, %v", name, err, asked, inner.Header())
			}
		}), func() bool { asked++; return true }).ServeHTTP(inner, httptest.NewRequest("GET", "/", nil))
		if asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
}

// TestCloseKeepsAbilities takes the connection over, and looks for what a poor writer does not have.
func TestCloseKeepsAbilities(t *testing.T) {
	framing.Close(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, errTaken) {
			t.Error(err)
		}
	}), nil).ServeHTTP(full{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
	framing.Close(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, flushes := w.(http.Flusher)
		_, reads := w.(io.ReaderFrom)
		_, hijacks := w.(http.Hijacker)
		if flushes || reads || hijacks {
			t.Errorf("flushes %t, reads %t, hijacks %t", flushes, reads, hijacks)
		}
	}), nil).ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
}

// TestInterimAnswers: an interim answer begins no response, so what decides about the connection may
// still change.
func TestInterimAnswers(t *testing.T) {
	asked, inner := 0, httptest.NewRecorder()
	framing.Close(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		if asked != 0 || inner.Header().Get("Connection") != "" {
			t.Errorf("after an interim answer: asked %d times, %v", asked, inner.Header())
		}
		w.WriteHeader(http.StatusOK)
	}), func() bool { asked++; return true }).ServeHTTP(inner, httptest.NewRequest("GET", "/", nil))
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestUnclear: servers disagree about the end of a body in chunks, of HTTP/1.0, and where a header is
// spelled like one that says the length.
func TestUnclear(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"a length":       {func(r *http.Request) { r.Header.Set("Content-Length", "1") }, false},
		"chunks":         {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, true},
		"HTTP/1.0":       {func(r *http.Request) { r.ProtoMinor = 0 }, true},
		"HTTP/2":         {func(r *http.Request) { r.ProtoMajor, r.ProtoMinor = 2, 0 }, false},
		"a spelling":     {func(r *http.Request) { r.Header["Content_Length"] = []string{"1"} }, true},
		"an encoding":    {func(r *http.Request) { r.Header["Transfer_encoding"] = []string{"chunked"} }, true},
		"another header": {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, false},
		"no body":        {func(*http.Request) {}, false},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		test.change(r)
		if got := framing.Unclear(r); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
