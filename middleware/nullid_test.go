package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestErrorsWithoutIDForLists checks that the client gets an error response of an SDK with null
// for its id as the response to its request, where the policy filters lists.
func TestErrorsWithoutIDForLists(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	const want = `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Bad Request: no session","data":{"a":["b"]}}}`
	refused := strings.Replace(want, `"id":7,`, "", 1)
	refused = refused[:len(refused)-1] + `,"id":null}`
	const lost = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"The server's answer could not be read, so it was not passed on."}}`
	for _, status := range []int{200, 400, 404} {
		for body, want := range map[string]string{
			refused: want,
			strings.Replace(refused, `"id":null`, `"id":null,"result":{"tools":[{"name":"drop_notes"}]}`, 1): lost,
			strings.Replace(refused, `"id":null`, `"id":{}`, 1):                                              lost,
		} {
			if status == http.StatusOK && want == lost {
				continue // that is 502
			}
			inner := answering(status, body, "Content-Type", jsonType, "Content-Length", strconv.Itoa(len(body)))
			w := through(guard, inner, post(issuer, "", request("tools/list", `{}`)))
			if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != status {
				t.Errorf("%s: %d %s", body, w.Code, got)
			}
		}
	}
	stream := answering(200, "id: 1\ndata: "+refused+"\n\n", "Content-Type", streamType)
	w := through(guard, stream, post(issuer, "", request("tools/list", `{}`)))
	if got := messagesOf(w.Body.String()); len(got) != 1 || got[0] != want {
		t.Errorf("in a stream: %q", w.Body)
	}
}

// through returns the response of a handler behind a guard.
func through(guard *middleware.Guard, inner http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	guard.Protect(inner).ServeHTTP(w, r)
	return w
}
