package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestManagingFromBrowsers: the preflight allows a program in a browser to read, replace and
// delete its registration; the registration endpoint allows POST only.
func TestManagingFromBrowsers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for path, methods := range map[string][]string{
		"/register": {"POST"}, "/register/anything": {"GET", "PUT", "DELETE"},
	} {
		preflight := h.send(h.newRequest(http.MethodOptions, h.issuer+path, nil))
		allowed := strings.Split(preflight.header.Get("Access-Control-Allow-Methods"), ", ")
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			if slices.Contains(allowed, method) != slices.Contains(methods, method) {
				t.Errorf("%s: allowed are %s, want %s", path, allowed, methods)
			}
			answer := h.send(h.newRequest(method, h.issuer+path, nil))
			if (answer.status == http.StatusMethodNotAllowed) == slices.Contains(methods, method) || answer.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s %s: status %d, %v", method, path, answer.status, answer.header)
			}
		}
	}
}
