package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// inPieces is a handler whose answer comes in pieces of a size, in bytes.
func inPieces(contentType, body string, size int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for ; len(body) > size; body = body[size:] {
			_, _ = w.Write([]byte(body[:size]))
		}
		_, _ = w.Write([]byte(body))
	})
}

// long is more than the guard keeps of an answer, in bytes, if it expects no list.
const long = 80 << 10

// TestListsInOtherAnswers checks that a list is filtered in the answer to a request that asked for none:
// servers that find the stream of a result by the id of its request send it there, if the client uses one
// id twice.
func TestListsInOtherAnswers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Policy.Resources = map[string][]string{"*": nil, "notes://secret*": {"notes:admin"}}
		c.Policy.Listing, c.InsecureUnboundSessions = middleware.ListGranted, true
	})
	const call = `{"name":"whoami"}`
	filler := `"_meta":{"a":"` + strings.Repeat("x", long) + `"},`
	for _, tt := range []struct {
		result, shown, hidden string // shown is empty for an answer that is not passed on
	}{
		{`{"tools":[{"name":"whoami"},{"name":"drop_notes"}]}`, `{"name":"whoami"}`, "drop_notes"},
		{`{"resources":[{"uri":"notes://a"},{"uri":"notes://secret"}]}`, `{"uri":"notes://a"}`, "secret"},
		{`{"_meta":{"tools":[]},"resourceTemplates":[{"uriTemplate":"notes://a"},{"uriTemplate":"notes://secret/{id}"}]}`, `"notes://a"`, "secret"},
		{`{"a":"\"","tools":[{"name":"whoami"},{"name":"drop_notes"}],"b":"\\"}`, `{"name":"whoami"}`, "drop_notes"},
		{`{"completion":{"values":["a","secret"]}}`, `"values":[]`, "secret"},
		{`{"Tools":[{"name":"drop_notes"}]}`, "", "drop_notes"},
		{`{"\u0074ools":[{"name":"drop_notes"}]}`, "", "drop_notes"},
		{`{` + filler + `"tools":[{"name":"drop_notes"}]}`, "", "drop_notes"},
	} {
		for _, form := range []string{`{"jsonrpc":"2.0","id":7,"result":%s}`, `{"result":%s,"jsonrpc":"2.0","id":7}`, `[{"jsonrpc":"2.0","id":7,"result":%s}]`} {
			for _, contentType := range []string{jsonType, streamType} {
				for _, size := range []int{1, 7, 1 << 20} {
					body := fmt.Sprintf(form, tt.result)
					if contentType == streamType {
						body = "event: message\nid: 3\ndata: " + body + "\n\n"
					}
					w := httptest.NewRecorder()
					guard.Protect(inPieces(contentType, body, size)).ServeHTTP(w, post(issuer, "", request("tools/call", call), "Mcp-Session-Id", "s"))
					readable := !strings.HasPrefix(form, "[") && (tt.shown != "")
					if seen := w.Body.String(); strings.Contains(seen, tt.hidden) || readable && !strings.Contains(seen, tt.shown) {
						t.Errorf("%s in pieces of %d: %.300s: %.300s", contentType, size, body, seen)
					}
				}
			}
		}
	}
}

// TestOtherAnswersStayAsTheyAre checks that no byte of an answer changes which has no list in its result.
func TestOtherAnswersStayAsTheyAre(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy, c.InsecureUnboundSessions = notesPolicy(), true })
	large := `{"jsonrpc":"2.0","id":7,"result":{"content":"` + strings.Repeat(`\"tools\":`, long) + `"}}`
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7, "result":{"content":[{"tools":[{"name":"drop_notes"}]}],"a":NaN}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":{"tools":["drop_notes"]},"content":[]}}`,
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"tools":[{"name":"drop_notes"}]}}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"\"tools\":","data":{"tools":[]}}}`,
		`{"jsonrpc":"2.0","id":7,"result":["tools"]}`, `[]`, ``, `not JSON at all`, large,
	} {
		for _, contentType := range []string{jsonType, streamType} {
			for _, size := range []int{1, 7, 1 << 20} {
				if size == 1 && len(body) > long {
					continue
				}
				text := body
				if contentType == streamType {
					text = ": hello\n\ndata: " + body + "\nid:\ndata:x\n\nretry: 1\ndata: " + body + "\ndata: " + body + "\n"
				}
				w := httptest.NewRecorder()
				guard.Protect(inPieces(contentType, text, size)).ServeHTTP(w, post(issuer, "", request("tools/call", `{"name":"whoami"}`), "Mcp-Session-Id", "s"))
				if seen := w.Body.String(); w.Code != http.StatusOK || lines(seen) != lines(text) {
					t.Errorf("%s in pieces of %d: %d %.300s\nwant %.300s", contentType, size, w.Code, seen, text)
				}
			}
		}
	}
}

// TestOtherAnswersWithoutSession checks that a member of a result is no list where no other request could
// have asked for one.
func TestOtherAnswersWithoutSession(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	const body = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"drop_notes"}],"a":1.50}}`
	if w := listed(guard, post(issuer, "", request("tools/call", `{"name":"whoami"}`)), jsonType, body); w.Body.String() != body {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLongAnswersAreFlushed checks that an answer which is passed on as it comes is sent when the handler
// flushes it.
func TestLongAnswersAreFlushed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy, c.InsecureUnboundSessions = notesPolicy(), true })
	w := httptest.NewRecorder()
	guard.Protect(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", jsonType)
		for _, want := range []bool{false, true} { // the first part is kept, the second one makes it too long
			_, _ = out.Write([]byte(strings.Repeat(" ", long/2)))
			if err := http.NewResponseController(out).Flush(); err != nil || w.Flushed != want {
				t.Errorf("flushed: %t, want %t, %v", w.Flushed, want, err)
			}
		}
	})).ServeHTTP(w, post(issuer, "", request("tools/call", `{"name":"whoami"}`), "Mcp-Session-Id", "s"))
	if w.Body.Len() != long {
		t.Errorf("%d bytes", w.Body.Len())
	}
}

// lines returns the lines of a stream that are not about its events' ids, the data after the others.
func lines(text string) string {
	var data, others []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "data:") {
			data = append(data, line)
		} else {
			others = append(others, line)
		}
	}
	return strings.Join(append(others, data...), "\n")
}
