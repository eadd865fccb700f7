package middleware_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// quoted returns a text as a JSON string.
func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

func called(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":` + quoted(method) + `,"params":` + params + `}`
}

// TestMethodsHaveOneSpelling checks that other spellings of the methods that the policy checks
// are refused, in requests and in notifications.
func TestMethodsHaveOneSpelling(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Policy.Methods["example.com/export"] = []string{"notes:admin"}
		c.Policy.Methods["Mixed/Case"] = nil
		c.Policy.Methods["mixed/*"] = []string{"notes:admin"}
	})
	for _, method := range []string{
		"Tools/Call", "TOOLS/CALL", "tools/Call", " tools/call", "tools/call ", "tools/call\x00", "\x00tools/call", "tools/call\n", "tools/call\t", "tools\u00a0/call",
		"tools/call/", "/tools/call", "tools//call", "tools/./call", "tools/../tools/call", "./tools/call", `tools\call`, "tools%2fcall", "tools%2Fcall", "tools/call?x", "tools/call#x", "tools/call;x",
		"tools.call", "tools_call", "tools-call", "tools:call", "tools/cal\u0131", "too\u2113s/call", "\uff54ools/call", "tool\u017f/call", "tools\u2215call", "tools\uff0fcall", "t\u043eols/call",
		"\ufefftools/call", "tools/call\u200b", "tools\u00ad/call", "\u202etools/call", "\"tools/call\"", "tools/call,ping", "tools/call ping", "*", "tools/*",
		"TOOLS/list", "tools.list", "Resources/Templates/List", "resources/templates.list", "Prompts/Get", "RESOURCES/READ", "resources_read", "Completion/Complete", "subscriptions/Listen",
		"logging/setlevel", "Logging/SetLevel", "logging.setLevel", "Notifications/cancelled", "notifications.cancelled", "Example.com/export", "example/com/export", "example.com/Export", "Mixed/case", "MIXED/other",
		strings.Repeat("x", 257), ".", "..", "x/..", "x/",
	} {
		for _, body := range []string{called(method, `{"name":"drop_notes","uri":"notes://secret/1"}`), `{"jsonrpc":"2.0","method":` + quoted(method) + `}`} {
			h := &reading{}
			w := httptest.NewRecorder()
			guard.Protect(h).ServeHTTP(w, post(issuer, "notes:admin notes:notify", body))
			if w.Code != 400 || len(h.bodies) > 0 {
				t.Errorf("%s: %d %s, the handler got %q", body, w.Code, w.Body, h.bodies)
				continue
			}
			if strings.Contains(body, `"id"`) {
				checkFault(t, w, -32600, "7")
			} else {
				checkFault(t, w, 0, "")
			}
		}
	}
	for _, method := range []string{
		"ping", "initialize", "tools/list", "resources/templates/list", "logging/setLevel", "sampling/createMessage", "tasks/get", "notifications/roots/list_changed",
		"com.example/do-it", "$/cancelRequest", "example.com/export", "Mixed/Case", "experimental:x/y_z", "toolbox/call", "tools/calls", strings.Repeat("x", 256),
	} {
		h := &reading{}
		w := httptest.NewRecorder()
		guard.Protect(h).ServeHTTP(w, post(issuer, "notes:admin notes:notify", called(method, `{}`)))
		if w.Code != 418 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

// TestMethodsWithoutAPolicy checks that bodies are not read when the policy has no names.
func TestMethodsWithoutAPolicy(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	h := &reading{}
	body := called("Tools/Call", `{}`)
	newGuard(t, issuer).Protect(h).ServeHTTP(httptest.NewRecorder(), post(issuer, "", body))
	if len(h.bodies) != 1 || h.bodies[0] != body {
		t.Errorf("the handler got %q", h.bodies)
	}
}

// TestNamesThatNoMethodHas checks that a pattern that can match no method is an error of the
// configuration.
func TestNamesThatNoMethodHas(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, good := range map[string]bool{
		"Tools/Call": false, "tools.list": false, "tools call": false, "tools/": false, "/tools/*": false, "tools//*": false, "t\u00f6\u00f6ls/*": false,
		"*": true, "tools/call": true, "tools/*": true, "*/list": true, "logging/setLevel": true, "example.com/*": true, "notifications/**": true,
	} {
		_, err := middleware.New(middleware.Config{
			Resource: resource, AuthorizationServers: []string{issuer.URL()}, Policy: middleware.Policy{Methods: map[string][]string{name: nil}},
		})
		if (err == nil) != good || !good && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMethod checks that no method is forwarded that a lenient server, which trims, decodes and
// folds, takes for one that the token does not cover.
func FuzzMethod(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Tools: map[string][]string{"whoami": nil}, Methods: map[string][]string{"notes/export": {"notes:admin"}, "*": nil}}
	})
	token := issuer.Mint(claims{"aud": resource})
	for _, method := range []string{"tools/call", "Tools/Call", " notes/export", "notes/export/", "notes//export", "notes.export", "no\u0074es/export", "notes%2fexport", "notes-/export", "notes._export", "$notes/export", "notes/export-", "$tools-/call", "NOTES/EXPORT\x00", "ping"} {
		f.Add(method)
	}
	f.Fuzz(func(t *testing.T, method string) {
		var h inner
		serve(guard.Protect(&h), cachedPost(token, called(method, `{"name":"hidden"}`)))
		if len(h.requests) == 0 {
			return
		}
		bare := strings.Map(func(c rune) rune {
			if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
				return c
			}
			return -1
		}, strings.ToLower(method))
		if words := strings.FieldsFunc(strings.ToLower(method), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }); len(words) == 2 && (bare == "toolscall" && words[0] == "tools" || bare == "notesexport" && words[0] == "notes") {
			t.Fatalf("%q got through", method)
		}
	})
}
