package middleware_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// stream returns a request of a subject for a stream.
func stream(issuer *middlewaretest.Issuer, subject string, fields ...string) *http.Request {
	return newRequest("GET", resource, append(fields, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource, "sub": subject}), "Mcp-Protocol-Version", "2025-11-25")...)
}

// replaying is a protected handler that streams one text, and records the Last-Event-ID of
// requests.
type replaying struct {
	text  string
	after []string
}

func (p *replaying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.after = append(p.after, strings.Join(r.Header["Last-Event-Id"], "|"))
	w.Header().Set("Content-Type", streamType)
	_, _ = io.WriteString(w, p.text)
}

func (p *replaying) answer(guard *middleware.Guard, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	guard.Protect(p).ServeHTTP(w, r)
	return w
}

var idLine = regexp.MustCompile(`(?m)^id: (.*)$`)

// lastID returns the last id in a stream.
func lastID(t *testing.T, text string) string {
	t.Helper()
	all := idLine.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatalf("no id in %q", text)
	}
	return all[len(all)-1][1]
}

// TestEventIDsAreBound checks that in every spelling of an event id, in a response to GET or
// POST, the client gets one that only its own principal can use.
func TestEventIDsAreBound(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, change := range map[string]func(*middleware.Config){
		"no policy":     func(*middleware.Config) {},
		"a policy":      func(c *middleware.Config) { c.Policy.Tools = map[string][]string{"*": nil} },
		"one that ends": func(c *middleware.Config) { c.EndStreams = true },
	} {
		guard := newGuard(t, issuer, change)
		for _, form := range []string{
			"id: a_1\ndata: {}\n\n", "data: {}\nid: a_1\n\n", "id:a_1\r\ndata: {}\r\n\r\n", "id: a_1\rdata: {}\r\r", "\ufeffid: a_1\n\n", "id: x\nid: a_1\n\n", ": c\n\nid:  a_1 \n\n",
		} {
			for _, r := range []*http.Request{stream(issuer, "reader"), post(issuer, "", callTool("x"))} {
				h := &replaying{text: form}
				body := h.answer(guard, r).Body.String()
				id := lastID(t, body)
				if !strings.HasPrefix(id, "a_1.") || strings.Contains(body, "\r") || regexp.MustCompile(`(?m)^id: ?(a_1|x)$`).MatchString(body) {
					t.Errorf("%s, %s: %q becomes %q", name, r.Method, form, body)
				}
				h.after = nil
				if w := h.answer(guard, stream(issuer, "reader", "Last-Event-Id", id)); w.Code != 200 || h.after[0] != "a_1" {
					t.Errorf("%s: %d, the handler goes on after %q", name, w.Code, h.after)
				}
				h.after = nil
				for what, foreign := range map[string]*http.Request{
					"somebody else":   stream(issuer, "writer", "Last-Event-Id", id),
					"the server's id": stream(issuer, "reader", "Last-Event-Id", "a_1"),
					"altered":         stream(issuer, "reader", "Last-Event-Id", "b"+id),
					"cut off":         stream(issuer, "reader", "Last-Event-Id", id[:len(id)-1]),
					"two":             stream(issuer, "reader", "Last-Event-Id", id, "Last-Event-Id", id),
				} {
					if w := h.answer(guard, foreign); w.Code != 400 || len(h.after) > 0 {
						t.Errorf("%s, %s: %d, the handler goes on after %q", name, what, w.Code, h.after)
					}
				}
			}
		}
	}
}

// TestSessionIDIsNoEventID checks that a handle bound for one purpose is refused for another.
func TestSessionIDIsNoEventID(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	w := httptest.NewRecorder()
	guard.Protect(answering(200, "id: a_1\n\n", "Mcp-Session-Id", "a_1", "Content-Type", streamType)).ServeHTTP(w, stream(issuer, "reader"))
	h := &replaying{}
	if w := h.answer(guard, stream(issuer, "reader", "Last-Event-Id", w.Header().Get("Mcp-Session-Id"))); w.Code != 400 {
		t.Errorf("a session id opens a stream: %d", w.Code)
	}
	if w := h.answer(guard, stream(issuer, "reader", "Mcp-Session-Id", lastID(t, w.Body.String()))); w.Code != 404 {
		t.Errorf("the id of an event opens a session: %d", w.Code)
	}
}

// TestOwnEventKeepsThePlace checks that when a stream ends again before its first event, the
// next one continues after the last event before it.
func TestOwnEventKeepsThePlace(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, unbound := range []bool{false, true} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams, c.InsecureUnboundSessions = true, unbound })
		h := &replaying{text: "id: a-1_7\ndata: {}\n\n"}
		id := lastID(t, h.answer(guard, stream(issuer, "reader")).Body.String())
		h.text = ""
		seen := map[string]bool{id: true}
		for range 3 {
			id = lastID(t, h.answer(guard, stream(issuer, "reader", "Last-Event-Id", id)).Body.String())
			if after := h.after[len(h.after)-1]; after != "a-1_7" || seen[id] || len(id) > 200 {
				t.Errorf("unbound %v: the handler goes on after %q; the next id is %q", unbound, after, id)
			}
			seen[id] = true
		}
	}
}

// TestUnreadableEventsEndInAnError checks that an unreadable event ends the stream with an
// error response for the client, a log line with the reason, and the end of the handler's
// context.
func TestUnreadableEventsEndInAnError(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var log bytes.Buffer
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy, c.Logger = notesPolicy(), slog.New(slog.NewTextHandler(&log, nil))
	})
	twice := `{"jsonrpc":"2.0","id":9,"result":{"tools":[],"tools":[{"name":"drop_notes"}]}}`
	for _, tt := range []struct {
		name, event  string
		posted, read string // the id of the error, for POST and for GET
	}{
		{"no JSON", "data: drop_notes\n\n", "7", ""},
		{"a list that cannot be read", `data: {"jsonrpc":"2.0","id":9,"result":{"tools":"drop_notes"}}` + "\n\n", "7", "9"},
		{"two lists", "event: message\nid: 5\ndata: " + twice + "\n\n", "7", "9"},
		{"no message", `data: {"drop_notes":1}` + "\n\n", "7", ""},
		{"a batch", "data: [" + toolList + "]\n\n", "7", ""},
		{"no end", "data: " + toolList + "\n", "7", ""},
		{"no end of a line", "data: " + toolList, "7", ""},
	} {
		for want, r := range map[string]*http.Request{tt.posted: post(issuer, "", request("tools/list", `{}`)), tt.read + " ": stream(issuer, "reader")} {
			log.Reset()
			var over error
			w := httptest.NewRecorder()
			guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answering(200, ": hello\n\n"+tt.event, "Content-Type", streamType).ServeHTTP(w, r)
				over = r.Context().Err()
				_, _ = io.WriteString(w, "data: "+toolList+"\n\n")
			})).ServeHTTP(w, r)
			body := w.Body.String()
			checkLost(t, tt.name, body, strings.TrimSpace(want))
			unfinished := strings.HasPrefix(tt.name, "no end")
			if strings.Contains(body, secretTool) || !strings.HasPrefix(body, ": hello\n\n") || !unfinished && (over == nil || !strings.Contains(log.String(), "was not passed on")) {
				t.Errorf("%s, %s: %q, the context %v, the log %s", tt.name, r.Method, body, over, log.String())
			}
			if strings.Contains(tt.event, "id: 5") && !strings.Contains(body, "\nid: 5.") {
				t.Errorf("%s: whoever opens the stream again gets the same event: %q", tt.name, body)
			}
		}
	}
}

// TestEventsThatAreNoMessages checks that events of other types neither end the stream nor
// reveal hidden items.
func TestEventsThatAreNoMessages(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	const end = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n"
	for _, tt := range [][2]string{
		{"event: ping\ndata: 2026-01-01 00:00\n\n", "event: ping\ndata: 2026-01-01 00:00\n\n"},
		{"event: heartbeat\ndata: {\"drop_notes\":1}\n\n", ""},
		{": keep-alive\n\nretry: 10\n\n", ": keep-alive\n\nretry: 10\n\n"},
		{"event: prime\nid:\ndata: \n\n", "event: prime\nid:\ndata: \n\n"},
	} {
		h := &replaying{text: tt[0] + end}
		if got := h.answer(guard, stream(issuer, "reader")).Body.String(); got != tt[1]+end {
			t.Errorf("%q becomes %q", tt[0], got)
		}
	}
}

// TestLongLines checks that data of any length is forwarded where it is not filtered, in pieces
// of any size and with bounded memory, and that other lines have a maximum size.
func TestLongLines(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	long := strings.Repeat("x", 3<<20)
	text := "id: 1\ndata: " + long + "\ndata: y\n\n"
	w := httptest.NewRecorder()
	guard.Protect(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", streamType)
		for rest := []byte(text); len(rest) > 0; {
			n, err := out.Write(rest[:min(len(rest), 10007)])
			if err != nil {
				t.Fatal(err)
			}
			if rest = rest[n:]; len(text)-len(rest)-w.Body.Len() > 64<<10 {
				t.Fatalf("of %d bytes, %d have gone on", len(text)-len(rest), w.Body.Len())
			}
		}
	})).ServeHTTP(w, post(issuer, "", callTool("x")))
	if got := w.Body.String(); !strings.HasSuffix(got, "\ndata: "+long+"\ndata: y\n\n") || !strings.HasPrefix(got, "id: 1.") {
		t.Errorf("%d bytes become %d", len(text), len(got))
	}
	h := &replaying{text: ": x\n\nid: " + long + "\n\n"}
	if got := h.answer(guard, stream(issuer, "reader")).Body.String(); len(got) > 1000 || !strings.Contains(got, `"error"`) {
		t.Errorf("an id of %d bytes: %.200q", len(long), got)
	}
}

// TestStreamsAreNotCompressed checks that the guard does not request a compressed stream, and
// does not forward one.
func TestStreamsAreNotCompressed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for _, r := range []*http.Request{stream(issuer, "reader", "Accept-Encoding", "gzip"), post(issuer, "", callTool("x"), "Accept-Encoding", "gzip", "Accept", "application/json, text/event-stream"), post(issuer, "", callTool("x"), "Accept-Encoding", "gzip"), post(issuer, "", callTool("x"), "Accept-Encoding", "gzip", "Accept", "*/*")} {
		var h inner
		serve(guard.Protect(&h), r)
		if got := h.requests[0].Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("%s: Accept-Encoding %q", r.Method, got)
		}
	}
	w := httptest.NewRecorder()
	guard.Protect(answering(200, gzipped("id: 1\n\n"), "Content-Type", streamType, "Content-Encoding", "gzip")).ServeHTTP(w, stream(issuer, "reader"))
	if w.Code != 502 || !strings.Contains(w.Body.String(), "error_description") {
		t.Errorf("a compressed stream: %d %q", w.Code, w.Body)
	}
}

// FuzzEvents checks that a client reads the same data with and without the guard, and no unbound
// id, in whatever pieces the handler writes.
func FuzzEvents(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) { c.Sessions = newHandles(f, 1) })
	token := issuer.Mint(claims{"aud": resource})
	for _, text := range []string{"id: 1\ndata: a\n\n", "id:1\rdata: a\r\r", "data\ndata:\r\n\r\nid", "\ufeffid: 1\n\n", "\ufeff\ufeffid: 1\n\n", "id: 1\n\n: x\n\n", "event: endpoint\ndata: x\n\n", "id : 1\n\n", "\r\n\r\nid: \x00\n"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(1, size%16)
		w := httptest.NewRecorder()
		guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", streamType)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				_, _ = io.WriteString(w, rest[:n])
				rest = rest[n:]
			}
		})).ServeHTTP(w, cachedPost(token, "{}"))
		out := w.Body.String()
		if strings.Contains(out, "2024-11-05") {
			return
		}
		if got, want := fmt.Sprintf("%q", events(out)), fmt.Sprintf("%q", events(text)); strings.Trim(got, `[" ]`) != strings.Trim(want, `[" ]`) {
			t.Fatalf("%q becomes %q: %s, want %s", text, out, got, want)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimPrefix(out, "\ufeff"), "\r", "\n"), "\n") {
			value, ok := strings.CutPrefix(line, "id:")
			if bound := strings.TrimPrefix(value, " "); ok && strings.Trim(bound, " \t") != "" {
				resumed := newRequest("GET", resource, "Authorization", "Bearer "+token, "Last-Event-Id", bound)
				if res := serve(guard.Protect(&inner{}), resumed); res.StatusCode != http.StatusTeapot {
					t.Fatalf("%q has the id %q, which does not resume the stream: %s", out, bound, res.Status)
				}
			}
		}
	})
}
