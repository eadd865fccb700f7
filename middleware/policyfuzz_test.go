package middleware_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// cachedPost is like post with one token for all inputs of a fuzz target.
func cachedPost(token, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, resource, strings.NewReader(body))
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// FuzzMessage checks that no body is forwarded that a lenient reader, which ignores case and uses
// the last of several members, could take for a call that the token does not cover, and that
// bodies are forwarded as they were sent.
func FuzzMessage(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"*": nil, "add_note": {"notes:write"}}}
	})
	token := issuer.Mint(claims{"aud": resource})
	for _, body := range []string{
		callTool("whoami"), callTool("add_note"), "[" + callTool("add_note") + "]", `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"add_note"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n\u0061me":"add_note"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"param\u017f":{"name":"add_note"}}`,
		"\ufeff" + callTool("add_note"), callTool("add_note\x00"),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		h := &reading{}
		w := httptest.NewRecorder()
		guard.Protect(h).ServeHTTP(w, cachedPost(token, body))
		if len(h.bodies) == 0 {
			if w.Code == http.StatusTeapot || w.Code >= 500 {
				t.Fatalf("%q got %d", body, w.Code)
			}
			return
		}
		if h.bodies[0] != body {
			t.Fatalf("the handler got %q for %q", h.bodies[0], body)
		}
		var lenient struct {
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal([]byte(body), &lenient) == nil && lenient.Method == "tools/call" && lenient.Params.Name == "add_note" {
			t.Fatalf("%q got through", body)
		}
	})
}

// FuzzResourceURI checks that no URI is forwarded that leads to a protected one after any number
// of decodings and cleaning.
func FuzzResourceURI(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Resources: map[string][]string{"*": nil, "file:///secret/*": {"notes:admin"}}}
	})
	token := issuer.Mint(claims{"aud": resource})
	for _, uri := range []string{"file:///secret/1", "file:///a/../secret/1", "file:///%73ecret/1", "FILE:///SECRET/1", "file://localhost/secret/1", "file://a@/secret/1", "file://a@localhost/secret/1", "file://host/secret/1", "file://a@//secret/1", "file:/secret/1", "file:secret/1"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		params, err := json.Marshal(map[string]string{"uri": uri})
		if err != nil {
			return
		}
		var h inner
		serve(guard.Protect(&h), cachedPost(token, request("resources/read", string(params))))
		if len(h.requests) == 0 {
			return
		}
		for range 3 {
			u, err := url.Parse(uri)
			if err != nil {
				return
			}
			if u.Scheme == "file" && strings.HasPrefix(strings.ToLower(path.Clean(strings.ReplaceAll(u.Path, `\`, "/"))), "/secret/") {
				t.Fatalf("%q got through, which is %s", uri, u.Path)
			}
			if uri, err = url.PathUnescape(uri); err != nil {
				return
			}
		}
	})
}

// FuzzStream checks that for any stream of the handler, clients read no tool in it that is hidden
// from the token.
func FuzzStream(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"whoami": nil}}
	})
	token := issuer.Mint(claims{"aud": resource})
	hidden := `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"hidden"},{"name":"whoami"}]}}`
	for _, stream := range []string{
		"data: " + hidden + "\n\n", "data:" + hidden + "\r\n\r\n", "\ufeffdata: " + hidden + "\n\n", "id: 1\rdata: " + hidden + "\r\r",
		"data: {\ndata: " + hidden[1:] + "\n\n", ": \n\ndata\n\n", "data: " + hidden + "\n", "data : " + hidden + "\n\n",
	} {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		w := listed(guard, cachedPost(token, request("tools/list", `{}`)), streamType, stream)
		for _, data := range events(w.Body.String()) {
			var answer struct {
				Result struct {
					Tools []struct{ Name string }
				}
			}
			if json.Unmarshal([]byte(data), &answer) != nil {
				continue
			}
			for _, tool := range answer.Result.Tools {
				if tool.Name != "whoami" {
					t.Fatalf("%q shows %q", stream, tool.Name)
				}
			}
		}
	})
}

// events reads a stream as the HTML standard describes it (section 9.2.6): lines end with LF, CR
// or CRLF. It also returns an incomplete last event.
func events(stream string) []string {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var out, data []string
	for _, line := range append(strings.Split(stream, "\n"), "") {
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			out, data = append(out, strings.Join(data, "\n")), nil
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

// FuzzHeaders checks that headers that repeat a message are accepted only if they equal it, as
// they are or in base64.
func FuzzHeaders(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"*": nil}}
	})
	token := issuer.Mint(claims{"aud": resource})
	f.Add("tools/call", "whoami")
	f.Add(" tools/call\t", "=?base64?d2hvYW1p?=")
	f.Add("TOOLS/CALL", "=?base64?d2hvYW1q?=")
	f.Add("=?base64?dG9vbHMvY2FsbA==?=", "=?base64?d2hvYW1p\r\n?=")
	f.Fuzz(func(t *testing.T, method, name string) {
		r := cachedPost(token, callTool("whoami"))
		r.Header["Mcp-Method"], r.Header["Mcp-Name"] = []string{method}, []string{name}
		var h inner
		serve(guard.Protect(&h), r)
		if want := says(method, "tools/call") && says(name, "whoami"); (len(h.requests) == 1) != want {
			t.Fatalf("%q and %q reached the handler %d times", method, name, len(h.requests))
		}
	})
}

// says reports whether the value of a header stands for a text.
func says(value, text string) bool {
	value = strings.Trim(value, " \t")
	return value == text || value == "=?base64?"+base64.StdEncoding.EncodeToString([]byte(text))+"?="
}
