package middleware_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// oldGet returns the request with which clients of the old transport open a stream.
func oldGet(issuer *middlewaretest.Issuer) *http.Request {
	return newRequest("GET", resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}), "Accept", "text/event-stream")
}

// TestOldTransportInAnySpelling checks that a stream whose first event is "endpoint" is
// replaced by a status and a description at once, that none of it is sent, and that the context
// of the handler ends.
func TestOldTransportInAnySpelling(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, change := range map[string]func(*middleware.Config){
		"no policy":   func(*middleware.Config) {},
		"a policy":    func(c *middleware.Config) { c.Policy = notesPolicy() },
		"streams end": func(c *middleware.Config) { c.EndStreams = true },
	} {
		var log bytes.Buffer
		guard := newGuard(t, issuer, change, func(c *middleware.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for _, text := range []string{
			"event: endpoint\ndata: /messages?sessionId=secret\n\n", "event:endpoint\r\ndata: /messages?sessionId=secret\r\n\r\n", "event: endpoint\rdata: /messages/secret\r\r",
			"\ufeffevent: endpoint\ndata: secret\n\n", "data: /messages?sessionId=secret\nevent: endpoint\n\n", ": ok\n\n: ok\n\nevent: endpoint\ndata: secret\n\n",
			"id: secret\nretry: 1\nevent: endpoint\ndata: secret\n\n", "event:  Endpoint \ndata: secret\n\n",
		} {
			for _, piece := range []int{1, 7, len(text)} {
				log.Reset()
				var over error
				w := httptest.NewRecorder()
				guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", streamType)
					w.Header().Set("Content-Length", "1")
					_ = http.NewResponseController(w).Flush()
					for rest := text; rest != ""; rest = rest[min(piece, len(rest)):] {
						_, _ = io.WriteString(w, rest[:min(piece, len(rest))])
						_ = http.NewResponseController(w).Flush()
					}
					over = r.Context().Err()
				})).ServeHTTP(w, oldGet(issuer))
				checkRefusal(t, w.Result(), w.Body.Bytes())
				if w.Code != http.StatusNotImplemented || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), "Use Streamable HTTP.") || w.Header().Get("Content-Length") != "" {
					t.Errorf("%s, %q: %d %s", name, text, w.Code, w.Body)
				}
				if over == nil || !strings.Contains(log.String(), "2024-11-05") || strings.Contains(log.String(), "secret") {
					t.Errorf("%s, %q: the context of the handler: %v, the log: %s", name, text, over, log.String())
				}
			}
		}
	}
}

// TestOldTransportInANewStream checks that a stream of a client of a newer revision ends with
// an error when the server uses the old transport in it, also in a response to POST.
func TestOldTransportInANewStream(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, policy := range []middleware.Policy{{}, notesPolicy()} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = policy })
		for _, r := range []*http.Request{stream(issuer, "reader"), post(issuer, "", callTool("whoami")), post(issuer, "", request("tools/list", `{}`))} {
			h := &replaying{text: ": ok\n\nevent: endpoint\ndata: /messages?sessionId=secret\n\n"}
			body := h.answer(guard, r).Body.String()
			if strings.Contains(body, "secret") || !strings.Contains(body, `"error":{"code":-32603,`) || !strings.Contains(body, "2024-11-05") {
				t.Errorf("%s: %q", r.Method, body)
			}
			if id := `"id":7`; len(policy.Tools) > 0 && r.Method == "POST" && !strings.Contains(body, id) {
				t.Errorf("%s: no id: %q", r.Method, body)
			}
		}
	}
}

// TestOldTransportUnbound checks that with InsecureUnboundSessions the old transport is
// forwarded, also with a policy, and that lists in it are filtered.
func TestOldTransportUnbound(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy, c.InsecureUnboundSessions = notesPolicy(), true })
	const endpoint = "event: endpoint\ndata: /messages?sessionId=1\n\n"
	h := &replaying{text: endpoint + "event: message\ndata: " + toolList + "\n\n"}
	if body := h.answer(guard, oldGet(issuer)).Body.String(); !strings.HasPrefix(body, endpoint) || strings.Contains(body, secretTool) || !strings.Contains(body, "whoami") {
		t.Errorf("the stream is %q", body)
	}
	r := post(issuer, "", callTool("whoami"))
	r.URL.RawQuery = "sessionId=1"
	passes(t, guard, r)
}

// TestStreamsWithoutASession checks that a stream that could belong to the old transport and
// does not is forwarded completely, with its header, and that a flood of comments is not
// buffered.
func TestStreamsWithoutASession(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for _, text := range []string{"", ": ok\n\n", "data: {}\n\n", "data: {}", "retry: 1\n\nevent: message\ndata: {}\n\n", "event: endpoints\ndata: x\n\n"} {
		w := httptest.NewRecorder()
		guard.Protect(answering(200, text, "Content-Type", streamType, "X-Kept", "1")).ServeHTTP(w, oldGet(issuer))
		if got := w.Body.String(); w.Code != 200 || strings.TrimSpace(got) != strings.TrimSpace(text) || w.Result().Header.Get("X-Kept") != "1" {
			t.Errorf("%q: %d %q %v", text, w.Code, got, w.Header())
		}
	}
	w := httptest.NewRecorder()
	guard.Protect(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", streamType)
		for range 2000 {
			_, _ = io.WriteString(out, ": "+strings.Repeat("x", 60)+"\n\n")
		}
		if w.Body.Len() == 0 {
			t.Error("comments are kept without a bound")
		}
	})).ServeHTTP(w, oldGet(issuer))
}

// TestHandlesInTheQueryAreRefused checks that a session or stream in the query is refused in
// every spelling, with an error response for a message with an id.
func TestHandlesInTheQueryAreRefused(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	plain, policed := newGuard(t, issuer), newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	notification := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, query := range []string{
		"sessionId=1", "sessionid=1", "session_id=1", "session-id=1", "SESSIONID=1", "x=y&sessionId=1", "x=y;sessionId=1", "sessionId", "session%49d=1", "session%5Fid=1", "sessionId[]=1", "session.id=1", "+sessionId=1",
		"Mcp-Session-Id=1", "mcp_session_id=1", "lastEventId=1", "Last-Event-ID=1", "last_event_id=1",
	} {
		for _, guard := range []*middleware.Guard{plain, policed} {
			for _, tt := range []struct {
				body string
				code int
				id   string
			}{{callTool("whoami"), -32600, "7"}, {request("tools/list", `{}`), -32600, "7"}, {`{"jsonrpc":"2.0","id":"a","method":"ping"}`, -32600, `"a"`}, {notification, 0, ""}, {"", 0, ""}} {
				r := post(issuer, "notes:admin notes:notify", tt.body)
				r.URL.RawQuery = query
				w := httptest.NewRecorder()
				var h inner
				guard.Protect(&h).ServeHTTP(w, r)
				if w.Code != 400 || len(h.requests) > 0 || !strings.Contains(w.Body.String(), "Use Streamable HTTP.") {
					t.Errorf("%s, %s: %d %s", query, tt.body, w.Code, w.Body)
					continue
				}
				checkFault(t, w, tt.code, tt.id)
			}
			r := oldGet(issuer)
			r.URL.RawQuery = query
			refused(t, guard, r, 400)
		}
	}
	for _, query := range []string{"", "session=1", "sessionIdle=1", "q=sessionId", "id=1", "eventId=1"} {
		r := post(issuer, "", callTool("whoami"))
		r.URL.RawQuery = query
		passes(t, policed, r)
	}
	r := post(issuer, "", callTool("drop_notes")) // the policy comes first
	r.URL.RawQuery = "sessionId=1"
	if res := serve(policed.Protect(&inner{}), r); res.StatusCode != 403 {
		t.Errorf("what the policy refuses: %s", res.Status)
	}
}
