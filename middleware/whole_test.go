package middleware_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// answering is a protected handler with a fixed status, header and body.
func answering(status int, body string, fields ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

const secretTool = "drop_notes"

// TestListsInAnyFormAreFiltered checks that hidden items are in no response with a list, for
// every status and media type, and that the status of an error does not change.
func TestListsInAnyFormAreFiltered(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	stream := "event: message\ndata: " + toolList + "\n\n"
	forms := []struct {
		name, body string
		shown      bool // whether what is allowed is still shown
		fields     []string
	}{
		{"JSON", toolList, true, []string{"Content-Type", "application/json"}},
		{"JSON with a parameter that is none", toolList, true, []string{"Content-Type", "application/json;x"}},
		{"JSON in capitals", toolList, true, []string{"Content-Type", "Application/JSON"}},
		{"JSON of another kind", toolList, true, []string{"Content-Type", "application/vnd.example+json"}},
		{"a stream", stream, true, []string{"Content-Type", "text/event-stream"}},
		{"a stream with a parameter that is none", stream, true, []string{"Content-Type", "text/event-stream;"}},
		{"text", toolList, false, []string{"Content-Type", "text/plain"}},
		{"no type", toolList, false, nil},
		{"an empty type", toolList, false, []string{"Content-Type", ""}},
		{"two types", toolList, false, []string{"Content-Type", "application/json", "Content-Type", "text/plain"}},
		{"two types in one", toolList, false, []string{"Content-Type", "text/plain, application/json"}},
		{"a type that is none", toolList, false, []string{"Content-Type", "application"}},
		{"bytes", toolList, false, []string{"Content-Type", "application/octet-stream"}},
		{"HTML", "<pre>" + toolList + "</pre>", false, []string{"Content-Type", "text/html"}},
		{"lines of JSON", toolList + "\n" + toolList + "\n", false, []string{"Content-Type", "application/x-ndjson"}},
		{"lines of JSON as JSON", toolList + "\n" + toolList + "\n", false, []string{"Content-Type", "application/json"}},
		{"a batch", "[" + toolList + "]", false, []string{"Content-Type", "application/json"}},
		{"several parts", "--x\r\nContent-Type: application/json\r\n\r\n" + toolList + "\r\n--x--", false, []string{"Content-Type", "multipart/mixed; boundary=x"}},
		{"a stream as text", stream, false, []string{"Content-Type", "text/plain"}},
		{"compressed JSON", gzipped(toolList), false, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}},
		{"a compressed stream", gzipped(stream), false, []string{"Content-Type", "text/event-stream", "Content-Encoding", "gzip"}},
		{"JSON that says it is compressed", toolList, false, []string{"Content-Type", "application/json", "Content-Encoding", "x-none"}},
		{"UTF-16", string([]byte{'{', 0, '"', 0}), false, []string{"Content-Type", "application/json; charset=utf-16"}},
		{"Tools instead of tools", strings.Replace(toolList, `"tools"`, `"Tools"`, 1), false, []string{"Content-Type", "application/json"}},
		{"a bare result", `{"tools":[{"name":"drop_notes"}]}`, false, []string{"Content-Type", "application/json"}},
		{"a byte order mark", "\ufeff" + toolList, false, []string{"Content-Type", "application/json"}},
	}
	for _, form := range forms {
		for _, status := range []int{200, 201, 202, 203, 206, 300, 302, 400, 404, 409, 500, 503} {
			w := httptest.NewRecorder()
			guard.Protect(answering(status, form.body, form.fields...)).ServeHTTP(w, post(issuer, "", request("tools/list", `{}`)))
			name, body := fmt.Sprintf("%s with %d", form.name, status), w.Body.String()
			if strings.Contains(body, secretTool) || strings.Contains(body, gzipped(toolList)[10:]) || strings.Contains(body, `"abc"`) {
				t.Errorf("%s shows %q", name, body)
			}
			if shown := strings.Contains(body, `"add_note"`); shown != form.shown {
				t.Errorf("%s: %q", name, body)
			}
			want := status
			if status < 300 && !form.shown {
				want = http.StatusBadGateway
				checkFault(t, w, -32603, "7")
			}
			if w.Code != want || w.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s: %d %v", name, w.Code, w.Header())
			}
		}
	}
}

// TestOtherAnswersPass checks that responses without a list to requests for one are forwarded:
// sentences, errors, empty bodies.
func TestOtherAnswersPass(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for _, tt := range []struct {
		status      int
		media, body string
	}{
		{404, "text/plain; charset=utf-8", "session not found\n"},
		{400, "text/plain", `malformed payload: unexpected "x"`},
		{404, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no", "data": {"tools": []}}}`},
		{404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}`},
		{403, "application/json", `{"error":"insufficient_scope","error_description":"The access token does not cover this operation."}` + "\n"},
		{429, "application/problem+json", `{"status":429,"title":"slow down","x":null,"y":true}`},
		{202, "", ""},
		{200, "application/json", `{"jsonrpc":"2.0", "id":7,"result":{}}`},
		{204, "", ""},
		{304, "", ""},
		{503, "text/html", "<h1>503 Service Unavailable</h1>"},
	} {
		w := httptest.NewRecorder()
		guard.Protect(answering(tt.status, tt.body, "Content-Type", tt.media)).ServeHTTP(w, post(issuer, "", request("tools/list", `{}`)))
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%d %s: %d %q, want %q", tt.status, tt.media, w.Code, w.Body, tt.body)
		}
	}
}

// TestPagesBesideTheProtocolPass checks that pages for a browser below the resource are
// forwarded, and that streams of the protocol are read whatever their media type.
func TestPagesBesideTheProtocolPass(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	get := func(fields ...string) *http.Request {
		return newRequest("GET", resource, append(fields, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))...)
	}
	page := "<style>p{color:red}</style>"
	for _, tt := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"a page", get("Accept", "text/html,*/*"), 200},
		{"a stream by its Accept", get("Accept", "application/json, Text/Event-Stream"), 502},
		{"a stream by its revision", get("Mcp-Protocol-Version", "2025-06-18"), 502},
	} {
		w := httptest.NewRecorder()
		guard.Protect(answering(200, page, "Content-Type", "text/html")).ServeHTTP(w, tt.r)
		if w.Code != tt.want || tt.want == 200 != (w.Body.String() == page) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
	// a stream with the wrong media type, which many clients ignore
	w := httptest.NewRecorder()
	guard.Protect(answering(200, "data: "+toolList+"\n\n", "Content-Type", "text/plain")).ServeHTTP(w, get("Mcp-Protocol-Version", "2025-06-18", "Accept", "text/event-stream"))
	if w.Code != 502 || strings.Contains(w.Body.String(), secretTool) {
		t.Errorf("a stream as text: %d %s", w.Code, w.Body)
	}
}

// TestListsOfAllKindsInAnyForm checks the other kinds of lists in the same way, and that
// headers about changed bytes are removed.
func TestListsOfAllKindsInAnyForm(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		delete(c.Policy.Prompts, "*")
	})
	for method, list := range map[string]string{
		"prompts/list": `"prompts":[{"name":"hidden"}]`, "resources/list": `"resources":[{"uri":"notes://hidden/1"}]`,
		"resources/templates/list": `"resourceTemplates":[{"uriTemplate":"notes://hidden/{id}"}]`,
	} {
		for _, media := range []string{"text/plain", "application/json", "", "text/event-stream"} {
			for _, status := range []int{200, 404} {
				body := `{"jsonrpc":"2.0","id":7,"result":{` + list + `,"nextCursor":"hidden"}}`
				if media == streamType {
					body = "data: " + body + "\n\n"
				}
				w := httptest.NewRecorder()
				guard.Protect(answering(status, body, "Content-Type", media, "Etag", `"1"`, "Content-Md5", "x", "Content-Range", "bytes 0-1/2")).ServeHTTP(w, post(issuer, "notes:admin", request(method, `{}`)))
				if strings.Contains(w.Body.String(), "hidden") || media != streamType && (w.Header().Get("Etag") != "" || w.Header().Get("Content-Range") != "") {
					t.Errorf("%s as %q with %d: %v %s", method, media, status, w.Header(), w.Body)
				}
			}
		}
	}
}

// TestListsThatAreTooLarge checks that a response above the maximum size is replaced by an
// error.
func TestListsThatAreTooLarge(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	large := strings.Repeat(" ", 17<<20)
	w := httptest.NewRecorder()
	guard.Protect(answering(200, large+toolList, "Content-Type", jsonType)).ServeHTTP(w, post(issuer, "", request("tools/list", `{}`)))
	if w.Code != 502 {
		t.Errorf("%d", w.Code)
	}
	checkFault(t, w, -32603, "7")
	w = httptest.NewRecorder()
	guard.Protect(answering(200, "data: "+large+toolList, "Content-Type", streamType)).ServeHTTP(w, post(issuer, "", request("tools/list", `{}`)))
	checkLost(t, "a large event", w.Body.String(), "7")
}

// TestListsAreAskedForWhole checks that the handler gets no Range for a list.
func TestListsAreAskedForWhole(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	var h inner
	serve(guard.Protect(&h), post(issuer, "", request("tools/list", `{}`), "Range", "bytes=10-", "If-Range", "x", "Accept-Encoding", "gzip"))
	if got := h.requests[0].Header; got.Get("Range") != "" || got.Get("If-Range") != "" || got.Get("Accept-Encoding") != "" {
		t.Errorf("the handler got %v", got)
	}
}
