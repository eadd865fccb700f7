package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// sentBy returns a request with a message that comes with another method of HTTP than POST.
func sentBy(method string, r *http.Request) *http.Request {
	r.Method = method
	return r
}

// TestMessagesWithGet: a handler that ignores the message in a request with GET, HEAD or DELETE opens
// a stream or ends a session, so such a request needs the scopes of both.
func TestMessagesWithGet(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Methods: map[string][]string{"*": {"notes:use"}, "ping": {}, "notifications/*": {"notes:read"}}}
	})
	ping, told := request("ping", `{}`), `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	passes(t, guard, post(issuer, "", ping))
	passes(t, guard, post(issuer, "notes:read", told))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
		for _, body := range []string{ping, told} {
			res := serve(guard.Protect(&inner{}), sentBy(method, post(issuer, "notes:read", body)))
			if res.StatusCode != http.StatusForbidden || !strings.Contains(res.Header.Get("WWW-Authenticate"), "notes:use") {
				t.Errorf("%s with %s: %s %q", method, body, res.Status, res.Header.Get("WWW-Authenticate"))
			}
			passes(t, guard, sentBy(method, post(issuer, "notes:use notes:read", body)))
		}
		if res := serve(guard.Protect(&inner{}), sentBy(method, post(issuer, "notes:use", told))); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s with a message that is not covered: %s", method, res.Status)
		}
	}
}

// TestListsInStreamsBesideAMessage: a stream that GET opens is filtered whatever message comes with
// the request, and its cursors are those of its lists.
func TestListsInStreamsBesideAMessage(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"whoami": {}, "*": {"notes:admin"}}, Listing: middleware.ListGranted}
		c.InsecureUnboundSessions = true
	})
	for _, body := range []string{request("ping", `{}`), request("tools/list", `{}`), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		r := sentBy(http.MethodGet, post(issuer, "", body, "Accept", streamType, "Last-Event-Id", "3"))
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource, "sub": "reader"}))
		w := listed(guard, r, streamType, "id: 4\ndata: "+toolList+"\n\n")
		names, _, _ := shown(t, strings.TrimPrefix(w.Body.String(), "id: 4\ndata: "))
		if got := strings.Join(names, " "); got != "whoami" {
			t.Errorf("beside %s the stream shows %s", body, got)
		}
		page := &paging{next: `"x"`, media: jsonType}
		guard.Protect(page).ServeHTTP(httptest.NewRecorder(), as(issuer, "reader", "tools/list", quoted(nextIn(t, strings.TrimPrefix(w.Body.String(), "id: 4\ndata: ")))))
		if len(page.asked) != 1 || page.asked[0] != `"abc"` {
			t.Errorf("beside %s: the handler was asked for %q", body, page.asked)
		}
	}
}
