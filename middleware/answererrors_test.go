package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
)

// sdk is a handler that answers as a third-party SDK might: with a status, a media type and
// pieces of a body, flushed after each piece.
type sdk struct {
	status int
	media  string
	pieces []string
}

func (s sdk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if s.media != "" {
		w.Header().Set("Content-Type", s.media)
	}
	w.Header().Set("Content-Length", "7")
	w.WriteHeader(s.status)
	for _, piece := range s.pieces {
		_, _ = io.WriteString(w, piece)
		w.(http.Flusher).Flush()
	}
}

// throughErrors sends a message to a handler inside of AnswerErrors.
func throughErrors(inner http.Handler, method, message, revision string) (int, string) {
	r := httptest.NewRequest(method, "/mcp", strings.NewReader(message))
	r.Header.Set("Mcp-Protocol-Version", revision)
	w := httptest.NewRecorder()
	middleware.AnswerErrors(inner).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestAnswersOfAnySDK checks that for any response of a handler to a failure, the client gets
// an error with the id of its request and a code, and that other responses do not change.
func TestAnswersOfAnySDK(t *testing.T) {
	const (
		asked  = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}`
		told   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		plain  = "text/plain; charset=utf-8"
		stream = "text/event-stream"
		object = "application/json"
	)
	long := strings.Repeat("x", 70<<10)
	result := `{"jsonrpc":"2.0","id":"x","result":{"text":"an error, \"code\":0"}}`
	failed := func(rest string) string { return `{"jsonrpc":"2.0","id":"x","error":` + rest + `}` }
	for _, tt := range []struct {
		name    string
		sdk     sdk
		message string
		status  int
		body    string
	}{
		{"text", sdk{400, plain, []string{"no ", "such thing\n"}}, asked, 400, failed(`{"code":-32600,"message":"no such thing"}`)},
		{"text of an unknown method", sdk{400, plain, []string{"Method not found"}}, asked, 200, failed(`{"code":-32601,"message":"Method not found"}`)},
		{"text about params", sdk{400, plain, []string{"Invalid params: x"}}, asked, 400, failed(`{"code":-32602,"message":"Invalid params: x"}`)},
		{"a session that ended", sdk{404, plain, []string{"session not found"}}, asked, 404, failed(`{"code":-32600,"message":"session not found"}`)},
		{"a fault", sdk{500, plain, []string{"oh"}}, asked, 500, failed(`{"code":-32603,"message":"oh"}`)},
		{"nothing", sdk{503, "", nil}, asked, 503, failed(`{"code":-32603,"message":"Service Unavailable"}`)},
		{"a page", sdk{502, "text/html", []string{"<h1>no</h1>"}}, asked, 502, failed(`{"code":-32603,"message":"Bad Gateway"}`)},
		{"a long text", sdk{400, plain, []string{long, "x"}}, asked, 400, failed(`{"code":-32600,"message":"` + long[:1024] + `"}`)},
		{"not UTF-8", sdk{400, plain, []string{"a\xffb"}}, asked, 400, failed(`{"code":-32600,"message":"ab"}`)},
		{"another object", sdk{429, object, []string{`{"error":"slow"}`}}, asked, 429, failed(`{"code":-32600,"message":"Too Many Requests","data":{"error":"slow"}}`)},
		{"no id", sdk{400, object, []string{`{"jsonrpc":"2.0","error":{"code":-32001,"message":"m"}}`}}, asked, 400, failed(`{"code":-32001,"message":"m"}`)},
		{"id null", sdk{200, object, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"m"}}`}}, asked, 200, failed(`{"code":-32001,"message":"m"}`)},
		{"code 0", sdk{200, object, []string{failed(`{"code":0,"message":"m","data":[1]}`)}}, asked, 200, failed(`{"code":-32603,"message":"m","data":[1]}`)},
		{"code 0, spread out", sdk{200, object + "; charset=utf-8", []string{`{ "error" : {"message":"m", "code" : 0}, "id":"x",` + "\n", `"jsonrpc":"2.0"}`}}, asked, 200, failed(`{"code":-32603,"message":"m"}`)},
		{"an answer", sdk{404, object, []string{failed(`{"code":-32601,"message":"m"}`)}}, asked, 404, failed(`{"code":-32601,"message":"m"}`)},
		{"a result", sdk{200, object, []string{result}}, asked, 200, result},
		{"a long result", sdk{200, object, []string{long, result}}, asked, 200, long + result},
		{"a number as id", sdk{400, plain, []string{"no"}}, `{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`, 400, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32600,"message":"no"}}`},
		{"a notification", sdk{404, plain, []string{"session not found"}}, told, 404, "session not found"},
		{"a response", sdk{400, plain, []string{"no"}}, result, 400, "no"},
		{"garbage", sdk{400, plain, []string{"no"}}, "{", 400, "no"},

		{"code 0 in a stream", sdk{200, stream, []string{"id: 1\nevent: message\nda", "ta: " + failed(`{"code":0,"message":"m"}`) + "\n", "\n: end\n\n"}}, asked, 200,
			"id: 1\nevent: message\ndata: " + failed(`{"code":-32603,"message":"m"}`) + "\n\n: end\n\n"},
		{"in two lines", sdk{200, stream, []string{"data: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\r\ndata: \"error\":{\"code\":0,\"message\":\"m\"}}\r\n\r\n"}}, asked, 200,
			"data: " + failed(`{"code":-32603,"message":"m"}`) + "\n\n"},
		{"no id in a stream", sdk{200, stream, []string{`data:{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}` + "\n\n"}}, asked, 200,
			"data: " + failed(`{"code":-1,"message":"m"}`) + "\n\n"},
		{"other events", sdk{200, stream, []string{"data: " + result + "\r\n\r", "\ndata: {\"error\"\n\nretry: 7\n\n"}}, asked, 200,
			"data: " + result + "\n\ndata: {\"error\"\n\nretry: 7\n\n"},
		{"a long event, then code 0", sdk{200, stream, []string{"data: " + long, "\ndata: x\n\n", "data: " + failed(`{"code":0,"message":"m"}`) + "\n\n"}}, asked, 200,
			"data: " + long + "\ndata: x\n\ndata: " + failed(`{"code":-32603,"message":"m"}`) + "\n\n"},
		{"an event without an end", sdk{200, stream, []string{"data: x"}}, asked, 200, "data: x"},
	} {
		status, body := throughErrors(tt.sdk, http.MethodPost, tt.message, "2025-11-25")
		if status != tt.status || body != tt.body {
			t.Errorf("%s: %d %.300q, want %d %.300q", tt.name, status, body, tt.status, tt.body)
		}
	}
	if status, body := throughErrors(sdk{400, plain, []string{"not handled"}}, http.MethodPost, asked, "2026-07-28"); status != 400 || !strings.Contains(body, "-32601") {
		t.Errorf("an unknown method where statuses tell it: %d %s", status, body)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, body := throughErrors(sdk{405, plain, []string{"no"}}, method, "", "2025-11-25"); status != 405 || body != "no" {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if _, body := throughErrors(sdk{200, stream, []string{"data: " + failed(`{"code":0,"message":"m"}`) + "\n\n"}}, http.MethodGet, "", ""); !strings.Contains(body, "-32603") {
		t.Errorf("a stream that is opened again: %s", body)
	}
}

// TestStreamsComeAsTheyAreSent checks that events are forwarded before the response ends, also
// in a stream whose lines end with carriage returns.
func TestStreamsComeAsTheyAreSent(t *testing.T) {
	for name, event := range map[string]string{"line feeds": "data: 1\n\n", "carriage returns": "data: 1\r\rdata: 2\r\r", "no end": "data: " + strings.Repeat("x", 70<<10)} {
		w := httptest.NewRecorder()
		handler := middleware.AnswerErrors(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(out, event)
			_ = http.NewResponseController(out).Flush()
			if w.Body.String() != strings.ReplaceAll(event, "\r", "\n") || !w.Flushed {
				t.Errorf("%s: %d bytes of %d are there while the stream is open", name, w.Body.Len(), len(event))
			}
		}))
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`)))
	}
}

// TestHandlersReadTheSameBytes checks that the handler reads the request as it was sent, also a
// body that is too long for AnswerErrors to read.
func TestHandlersReadTheSameBytes(t *testing.T) {
	for _, size := range []int{0, 10, 5 << 20} {
		var got int
		middleware.AnswerErrors(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = len(body)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", size))))
		if got != size {
			t.Errorf("%d bytes of %d arrive", got, size)
		}
	}
}

// TestCompressedAnswers checks that a compressed response is forwarded byte for byte, unless it
// is a failure: its replacement has no headers that describe the compressed bytes.
func TestCompressedAnswers(t *testing.T) {
	const bytes = "\x1f\x8b error \r\r\n\ufeff\rdata:\n\n\x00"
	for name, tt := range map[string]struct {
		status      int
		media, want string
	}{
		"a stream":  {200, "text/event-stream", bytes},
		"a message": {200, "application/json", bytes},
		"a text":    {400, "text/plain", `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Bad Request"}}`},
		"an error":  {500, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal Server Error"}}`},
	} {
		w := httptest.NewRecorder()
		middleware.AnswerErrors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Digest", "sha-256=:AAAA:")
			sdk{tt.status, tt.media, []string{bytes}}.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`)))
		kept := w.Header().Get("Content-Encoding") != "" && w.Header().Get("Content-Digest") != ""
		if w.Code != tt.status || w.Body.String() != tt.want || kept != (tt.want == bytes) {
			t.Errorf("%s: %d %v %q", name, w.Code, w.Header(), w.Body)
		}
	}
}
