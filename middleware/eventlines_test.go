package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

var anyEnd = regexp.MustCompile("\r\n|\r|\n")

// messagesOf reads a stream of events as browsers do (HTML standard, section 9.2.6).
func messagesOf(stream string) (messages []string) {
	var data []string
	lines := anyEnd.Split(strings.TrimPrefix(stream, "\ufeff"), -1)
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && data != nil:
			messages, data = append(messages, strings.Join(data, "\n")), nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return messages
}

// spelled are streams of one message in different spellings that clients read alike.
func spelled(message string) (streams []string) {
	half := strings.Index(message, ",") + 1
	for _, end := range []string{"\n", "\r", "\r\n"} {
		for _, stream := range []string{
			"data: %s\n\n", "data:%s\n\n", "\ufeffdata: %s\n\n", "\ufeff\ndata: %s\n\n", "data\ndata: %s\n\n", "data: %s\ndata\n\n",
			": c\n\nevent: message\nid: 1\ndata: %s\n\n", "data: %[2]s\n:x\nDATA: no\n data: no\ndata: %[3]s\n\n", "retry: 5\n\n\n\ndata: %s\nx: data: {}\n\n",
		} {
			args := []any{message, message[:half], message[half:]}
			if !strings.Contains(stream, "[3]") {
				args = args[:1]
			}
			streams = append(streams, strings.ReplaceAll(fmt.Sprintf(stream, args...), "\n", end))
		}
	}
	return streams
}

// inParts writes a text in two parts, or byte for byte where the first has none.
func inParts(text string, first int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", streamType)
		if first > 0 {
			_, _ = io.WriteString(w, text[:first])
			_, _ = io.WriteString(w, text[first:])
			return
		}
		for i := range len(text) {
			_, _ = io.WriteString(w, text[i:i+1])
		}
	})
}

// TestStreamsAreReadAsByClients checks that errors in a stream are repaired and lists filtered
// in every spelling that clients read, wherever the server splits its writes, and that guard and
// clients read the same messages.
func TestStreamsAreReadAsByClients(t *testing.T) {
	const broken, mended = `{"jsonrpc":"2.0","error":{"code":0,"message":"m"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"m"}}`
	const list = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"whoami"},{"name":"drop_notes"}]}}`
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for i, stream := range spelled(broken) {
		for first := range len(stream) {
			w := httptest.NewRecorder()
			middleware.AnswerErrors(inParts(stream, first)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"x"}`)))
			if got := messagesOf(w.Body.String()); len(got) != 1 || strings.TrimSpace(got[0]) != mended {
				t.Fatalf("%q after %d bytes: %q", stream, first, w.Body)
			}
		}
		filtered := spelled(list)[i]
		for first := 0; first < len(filtered); first += 3 {
			w := httptest.NewRecorder()
			guard.Protect(inParts(filtered, first)).ServeHTTP(w, post(issuer, "", request("tools/list", `{}`)))
			if got := messagesOf(w.Body.String()); len(got) != 1 || !strings.Contains(got[0], `"whoami"`) || strings.Contains(got[0], "drop_notes") {
				t.Fatalf("%q after %d bytes: %q", filtered, first, w.Body)
			}
		}
	}
}

// TestLongEventsAreReadAsByClients checks that a long event is forwarded unchanged, and that
// the next event is repaired, with every kind of line end.
func TestLongEventsAreReadAsByClients(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for _, end := range []string{"\n", "\r", "\r\n"} {
		for _, before := range []string{"data: " + long + "\n", "\ufeffdata: " + long + "\n", ":" + long + "\n\ufeffdata: 2\n"} {
			stream := strings.ReplaceAll(before+`data`+"\n\n"+`data: {"jsonrpc":"2.0","error":{"code":0,"message":"m"}}`+"\n\n", "\n", end)
			w := httptest.NewRecorder()
			middleware.AnswerErrors(inParts(stream, 69<<10)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":"x","method":"x"}`)))
			want, got := messagesOf(stream), messagesOf(w.Body.String())
			through := httptest.NewRecorder()
			if guard.Protect(inParts(stream, 69<<10)).ServeHTTP(through, post(issuer, "", callTool("whoami"))); strings.HasPrefix(before, ":") != (len(messagesOf(through.Body.String())) != 2) {
				t.Errorf("%.20q, %q: behind the guard, %d bytes", before, end, through.Body.Len())
			}
			if len(got) != len(want) || got[0] != want[0] || !strings.Contains(got[1], `"id":"x"`) {
				t.Errorf("%.20q, %q: %d messages, the last %.200q", before, end, len(got), got[len(got)-1])
			}
		}
	}
}
