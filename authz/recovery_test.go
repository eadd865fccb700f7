package authz

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestPanicTellsNoSecret: the line about a panic names the endpoint without the query, and the answer
// says nothing of it.
func TestPanicTellsNoSecret(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	w := httptest.NewRecorder()
	s.withRecovery(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login/company/callback?code=c0de&state=5tate", nil))
	if w.Code != http.StatusInternalServerError || w.Header().Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), "broken") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "endpoint=/login/company/callback ") || !strings.Contains(line, "panic=broken") ||
		strings.Contains(line, "c0de") || strings.Contains(line, "5tate") {
		t.Error(line)
	}
}

// TestAbortedAnswer: a handler that ends its connection does so, and nothing is written to the log.
func TestAbortedAnswer(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	w := httptest.NewRecorder()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) || w.Body.Len() > 0 || log.Len() > 0 {
			t.Errorf("%v, an answer %q and a line %q", err, w.Body, log.String())
		}
	}()
	s.withRecovery(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
}

// TestHeadersOfPages: which headers a page has, over http and https.
func TestHeadersOfPages(t *testing.T) {
	t.Parallel()
	for secure, more := range map[bool][]string{false: nil, true: {"Strict-Transport-Security"}} {
		s, h := &Server{pagePolicy: []string{"default-src 'none'"}}, http.Header{}
		s.cookies.secure = secure
		s.pageHeaders(h)
		want := append([]string{"Cache-Control", "Content-Security-Policy", "Content-Type", "Cross-Origin-Resource-Policy", "Permissions-Policy", "Pragma", "Referrer-Policy", "X-Content-Type-Options", "X-Frame-Options"}, more...)
		if got := slices.Sorted(maps.Keys(h)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("secure %t: %q, want %q", secure, got, want)
		}
	}
}
