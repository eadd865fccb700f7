package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestQuestionsNameTheirRequest checks that an introspection request has the id of the request
// that it is for, as in the log and in the response.
func TestQuestionsNameTheirRequest(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var asked, seen, inner string
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("X-Request-Id")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Observe = func(r *http.Request, _ middleware.Event) { seen = middleware.RequestID(r.Context()) }
	})
	request := withToken("an-opaque-token")
	request.Header.Set("X-Request-Id", "theirs")
	answer := serve(guard.Protect(&recorded{&inner}), request).Header.Get("X-Request-Id")
	if answer == "" || asked != answer || seen != answer || inner != "" {
		t.Errorf("the answer is about %q, the question about %q, the event about %q", answer, asked, seen)
	}
	answers(issuer, `{"active":true,"sub":"reader","aud":"`+resource+`","client_id":"editor","exp":4102444800}`)
	if answer = serve(guard.Protect(&recorded{&inner}), withToken("another")).Header.Get("X-Request-Id"); inner != answer || answer == "" {
		t.Errorf("the answer is about %q, the handler about %q", answer, inner)
	}
}

// recorded records the id of the request in the handler.
type recorded struct{ id *string }

func (h *recorded) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	*h.id = middleware.RequestID(r.Context())
}

// TestNoIDOfOurs checks that a request has no id without a guard.
func TestNoIDOfOurs(t *testing.T) {
	if id := middleware.RequestID(httptest.NewRequest(http.MethodGet, "/", nil).Context()); id != "" {
		t.Errorf("a request without a guard has the id %q", id)
	}
}
