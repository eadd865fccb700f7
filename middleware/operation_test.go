package middleware_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// Messages that two readers could interpret differently are not forwarded. The refusal has an
// error response if the protocol has one.
func TestMessagesThatAreRefused(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy, c.MaxBody = notesPolicy(), 1000 })
	for _, tt := range []struct {
		name, body string
		status     int
		code       int    // of the message that answers; 0 for none
		id         string // of that message
	}{
		{"not JSON", `{"jsonrpc":`, 400, -32700, ""},
		{"a body of spaces", "  ", 400, -32700, ""},
		{"no message", `{}`, 400, -32600, ""},
		{"a batch", "[" + callTool("whoami") + "," + callTool("add_note") + "]", 400, -32600, ""},
		{"two messages", callTool("whoami") + callTool("add_note"), 400, -32700, ""},
		{"METHOD beside method", `{"jsonrpc":"2.0","id":7,"method":"tools/call","METHOD":"ping","params":{"name":"whoami"}}`, 400, -32600, "7"},
		{"method twice", `{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call","params":{"name":"add_note"}}`, 400, -32600, "7"},
		{"name twice", request("tools/call", `{"name":"whoami","name":"add_note"}`), 400, -32600, "7"},
		{"name twice, by escapes", request("tools/call", `{"name":"whoami","n\u0061me":"add_note"}`), 400, -32600, "7"},
		{"Name beside name", request("tools/call", `{"name":"whoami","Name":"add_note"}`), 400, -32602, "7"},
		{"Name instead of name", request("tools/call", `{"Name":"add_note"}`), 400, -32602, "7"},
		{"name with a long s", request("subscriptions/listen", `{"notification\u017f":{}}`), 400, -32602, "7"},
		{"no name", request("tools/call", `{}`), 400, -32602, "7"},
		{"name is null", request("tools/call", `{"name":null}`), 400, -32602, "7"},
		{"name is a number", request("tools/call", `{"name":1}`), 400, -32602, "7"},
		{"name is empty", request("tools/call", `{"name":""}`), 400, -32602, "7"},
		{"no parameters", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, 400, -32602, "7"},
		{"parameters are an array", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["add_note"]}`, 400, -32600, "7"},
		{"id is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, ""},
		{"id has a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, -32600, ""},
		{"a malformed notification", `{"jsonrpc":"2.0","method":"notifications/x","params":1}`, 400, 0, ""},
		{"a malformed response", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, 400, 0, ""},
		{"a notification that calls", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":1}}`, 400, 0, ""},
		{"no reference", request("completion/complete", `{}`), 400, -32602, "7"},
		{"an unknown reference", request("completion/complete", `{"ref":{"type":"ref/tool","name":"add_note"}}`), 400, -32602, "7"},
		{"subscriptions without a filter", request("subscriptions/listen", `{}`), 400, -32602, "7"},
		{"subscriptions to a number", request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[1]}}`), 400, -32602, "7"},
		{"too deep", request("tools/call", `{"name":"whoami","arguments":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`), 400, -32600, "7"},
		{"invalid UTF-8", request("tools/call", "{\"name\":\"who\xffami\"}"), 400, -32700, ""},
		{"a lone surrogate", request("tools/call", `{"name":"\ud800"}`), 400, -32600, "7"},
		{"too large", request("ping", `{"x":"`+strings.Repeat("x", 1000)+`"}`), 413, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &reading{}
			w := httptest.NewRecorder()
			guard.Protect(h).ServeHTTP(w, post(issuer, "notes:admin", tt.body))
			if w.Code != tt.status || len(h.bodies) > 0 {
				t.Fatalf("%d %s, the handler got %q", w.Code, w.Body, h.bodies)
			}
			checkFault(t, w, tt.code, tt.id)
		})
	}
}

// checkFault checks that a refusal has an error response, or a description where a response is
// not allowed.
func checkFault(t *testing.T, w *httptest.ResponseRecorder, code int, id string) {
	t.Helper()
	var answer struct {
		JSONRPC     string          `json:"jsonrpc"`
		ID          json.RawMessage `json:"id"`
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%v %q: %v", w.Header(), w.Body, err)
	}
	if code == 0 {
		if answer.Description == "" || answer.JSONRPC != "" {
			t.Errorf("the answer is %s", w.Body)
		}
		return
	}
	var fault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer.Error, &fault); err != nil || fault.Code != code || fault.Message == "" || string(answer.ID) != id || answer.JSONRPC != "2.0" {
		t.Errorf("the answer is %s, want the code %d and the id %q", w.Body, code, id)
	}
}

// Headers that repeat the message must agree with it.
func TestHeadersRepeatTheMessage(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	encoded := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	read := request("resources/read", `{"uri":"notes://shared/1"}`)
	for _, tt := range []struct {
		name, body string
		fields     []string
		status     int
	}{
		{"both", callTool("whoami"), []string{"Mcp-Method", "tools/call", "Mcp-Name", "whoami"}, 418},
		{"none", callTool("whoami"), nil, 418},
		{"one", callTool("whoami"), []string{"Mcp-Method", "tools/call"}, 418},
		{"spaces around", callTool("whoami"), []string{"Mcp-Method", " tools/call\t", "Mcp-Name", " whoami "}, 418},
		{"encoded", callTool("whoami"), []string{"Mcp-Name", encoded("whoami")}, 418},
		{"a resource", read, []string{"Mcp-Method", "resources/read", "Mcp-Name", "notes://shared/1"}, 418},
		{"a method without a name", request("tools/list", `{}`), []string{"Mcp-Method", "tools/list", "Mcp-Name", "anything"}, 418},

		{"another method", callTool("whoami"), []string{"Mcp-Method", "tools/list"}, 400},
		{"another case", callTool("whoami"), []string{"Mcp-Method", "Tools/Call"}, 400},
		{"another name", callTool("whoami"), []string{"Mcp-Method", "tools/call", "Mcp-Name", "list_notes"}, 400},
		{"another resource", read, []string{"Mcp-Name", "notes://shared/2"}, 400},
		{"an empty method", callTool("whoami"), []string{"Mcp-Method", ""}, 400},
		{"two methods", callTool("whoami"), []string{"Mcp-Method", "tools/call", "Mcp-Method", "tools/call"}, 400},
		{"two names", callTool("whoami"), []string{"Mcp-Name", "whoami", "Mcp-Name", "whoami"}, 400},
		{"encoded otherwise", callTool("whoami"), []string{"Mcp-Name", encoded("list_notes")}, 400},
		{"encoded wrongly", callTool("whoami"), []string{"Mcp-Name", "=?base64?d2hvYW1p"}, 400},
		{"encoded with a stray bit", callTool("whoami"), []string{"Mcp-Name", "=?base64?d2hvYW1q?="}, 400},
	} {
		w := httptest.NewRecorder()
		guard.Protect(&inner{}).ServeHTTP(w, post(issuer, "notes:admin", tt.body, tt.fields...))
		if w.Code != tt.status {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
		if tt.status == 400 {
			checkFault(t, w, -32020, "7")
		}
	}
	// a request for a stream has no message for the header to repeat
	stream := newRequest(http.MethodGet, resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}), "Mcp-Method", "tools/list")
	if res := serve(guard.Protect(&inner{}), stream); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a stream with a method: %s", res.Status)
	}
}

// A body that another reader could decode differently, or that does not arrive, is refused.
func TestBodiesThatAreRefused(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"as it should be", func(r *http.Request) {}, 418},
		{"UTF-8", func(r *http.Request) { r.Header.Set("Content-Type", `application/json; charset="UTF-8"`) }, 418},
		{"identity", func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") }, 418},
		{"length unknown", func(r *http.Request) { r.ContentLength, r.TransferEncoding = -1, []string{"chunked"} }, 418},
		{"another method", func(r *http.Request) { r.Method = http.MethodPut }, 418},
		{"no type", func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		{"text", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"a form", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		{"two types", func(r *http.Request) { r.Header.Add("Content-Type", "application/json") }, 415},
		{"UTF-16", func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-16") }, 415},
		{"UTF-7", func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-7") }, 415},
		{"compressed", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415},
		{"compressed, in a second header", func(r *http.Request) { r.Header["Content-Encoding"] = []string{"identity", "br"} }, 415},
		{"cut off", func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 10), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}, 400},
	} {
		r := post(issuer, "", callTool("whoami"))
		tt.change(r)
		if res := serve(guard.Protect(&inner{}), r); res.StatusCode != tt.status {
			t.Errorf("%s: %s", tt.name, res.Status)
		}
	}
	// a message is checked for every method of HTTP
	for _, method := range []string{"PUT", "PATCH", "GET", "DELETE", "PROPFIND"} {
		r := post(issuer, "", callTool("add_note"))
		r.Method = method
		if res := serve(guard.Protect(&inner{}), r); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
}

// The handler gets a body of known length in place of one with a transfer encoding, and no body
// where there is none, also behind a handler that wraps all bodies.
func TestBodyIsPutBack(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	r := post(issuer, "", callTool("whoami"))
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	var h inner
	serve(guard.Protect(&h), r)
	if len(h.requests) != 1 || h.requests[0].ContentLength != int64(len(callTool("whoami"))) || h.requests[0].TransferEncoding != nil {
		t.Errorf("the handler got %+v", h.requests)
	}
	stream := newRequest(http.MethodGet, resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))
	stream.Body = io.NopCloser(strings.NewReader(""))
	passes(t, guard, stream)
}

// The body is not read before the token is verified.
func TestTokenBeforeBody(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for _, authorization := range []string{"", "Bearer x", "Basic YTpi"} {
		r := newRequest("POST", resource, "Content-Type", "application/json")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		r.Body, r.ContentLength = io.NopCloser(failing{t}), 100
		refused(t, guard, r, http.StatusUnauthorized)
	}
}

// A URI has many spellings: the policy applies to the reading of every server, and a URI that no
// server can read is refused.
func TestResourceURIs(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Resources: map[string][]string{"*": nil, "file:///secret/*": {"notes:admin"}}}
	})
	plain := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"*": nil}}
	})
	for _, tt := range []struct {
		uri    string
		status int
	}{
		{"file:///public/1", 418},
		{"file:///public/a%20b", 418},
		{"file:///public/.hidden", 418},
		{"file:///public/a..b?x=../y", 418},
		{"file:///public/caf%C3%A9", 418},
		{"file:///public/what%3F", 418},
		{"file:///public/{id}", 418},
		{"notes:1", 418},
		{"notes://box/", 418},
		{"https://example.com:8443/a", 418},
		{"https://example.com/a/b?c=d#e", 418},
		{"file:///secret/1", 403},
		{"file:///public/../secret/1", 403},
		{"file:///public/./../secret/1", 403},
		{"file:///public/..", 418},
		{"file:///public/%2e%2e/secret/1", 403},
		{"file:///public/%2E./secret/1", 403},
		{"file:///public%2f..%2fsecret/1", 403},
		{"file:///public/%252e%252e/secret/1", 403},
		{`file:///public/..\\secret/1`, 403},
		{"file:///public/%5c..%5csecret/1", 403},
		{"file:///secret%2f1", 403},
		{"file:////secret/1", 403},
		{"FILE:///secret/1", 403},
		{"File:///secret/1", 403},
		{"https://EXAMPLE.com/a", 418},
		{" file:///secret/1", 403},
		{"file:///secret/1 ", 403},
		{"file:///sec\\tret/1", 403},
		{"file:///secret/1%00", 403},
		{"file:///%73ecret/1", 403},
		{"file:///secret%21/1", 418},
		{"file:///caf%c3%a9", 418},
		{"file:///café", 418},
		{"file:///a%2", 418},
		{"file:///%7Bid%7D", 418},
		{"file:///a b", 418},
		{"file:/secret/1", 403},
		{"file://localhost/secret/1", 403},
		{"https://example.com:443/a", 418},
		{"http://example.com:80/a", 418},
		{"https://example.com:/a", 418},
		{"https://example.com./a", 418},
		{"https://example.com", 418},
		{"https://user@example.com/a", 418},
		{"/secret/1", 400},
		{"secret", 400},
		{"https://b\u00fccher.example/a", 400},
		{"https://xn--bcher-kva.example/a", 400},
	} {
		body := request("resources/read", `{"uri":"`+tt.uri+`"}`)
		if res := serve(guard.Protect(&inner{}), post(issuer, "", body)); res.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d", tt.uri, res.Status, tt.status)
		}
		if res := serve(plain.Protect(&inner{}), post(issuer, "", body)); res.StatusCode != 418 {
			t.Errorf("%s without rules for resources: %s", tt.uri, res.Status)
		}
	}
}
