package authz_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"gatehouse.example/authz"
)

// visit returns the answer to a person who opens a path.
func (h *harness) visit(path string) *httptest.ResponseRecorder {
	h.t.Helper()
	r, w := httptest.NewRequest(http.MethodGet, h.issuer+path, nil), httptest.NewRecorder()
	r.Header.Set("Accept", "text/html")
	h.handler.Load().ServeHTTP(w, r)
	return w
}

// TestPagesHaveALength: pages and errors on pages say how long they are, so that they are not sent in
// chunks.
func TestPagesHaveALength(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for path, status := range map[string]int{
		"/": 200, "/consent": 400, "/authorize": 400, strings.TrimPrefix(h.visit("/authorize?"+asks(c).Encode()).Header().Get("Location"), h.issuer): 400,
		"/authorize?" + asks(c).Encode(): 303, "/account": 303,
	} {
		w := h.visit(path)
		length := w.Header().Get("Content-Length")
		if w.Code != status || w.Body.Len() > 0 != (status != 303) || status != 303 && length != strconv.Itoa(w.Body.Len()) || status == 303 && length != "" {
			t.Errorf("%s: status %d, length %q of %d bytes", path, w.Code, length, w.Body.Len())
		}
	}
}

// TestPageThatCannotBeWritten: it is answered with an error, and not as an empty page with status 200.
func TestPageThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	home, err := os.ReadFile("../templates/pages/home.html")
	if err != nil {
		t.Fatal(err)
	}
	const fault = `{{define "page"}}{{if eq .Issuer "https://other.example.com"}}{{index .Pinned 99}}{{end}}`
	h := newHarness(t, setup{issuer: "https://other.example.com", config: func(c *authz.Config) {
		c.Pages.Files = fstest.MapFS{"home.html": {Data: bytes.Replace(home, []byte(`{{define "page"}}`), []byte(fault), 1)}}
	}})
	if w := h.visit("/"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "<h1>") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
