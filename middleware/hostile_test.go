package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// hostile returns messages whose bodies are full of names to compare with patterns.
func hostile() map[string]string {
	var some, most strings.Builder
	for i := range 511 {
		fmt.Fprintf(&some, `,"notes://%d"`, i)
	}
	for i := range 400000 {
		fmt.Fprintf(&most, `,"n:%d"`, i%7)
	}
	const half = 2<<20 - 200
	return map[string]string{
		"arguments":    request("tools/call", `{"name":"ab","arguments":{"text":"`+strings.Repeat("ab", half)+`"}}`),
		"a name":       request("tools/call", `{"name":"`+strings.Repeat("ab", half)+`"}`),
		"a prompt":     request("prompts/get", `{"name":"`+strings.Repeat("ab", half)+`"}`),
		"a method":     request(strings.Repeat("ab", half), `{}`),
		"a URI":        request("resources/read", `{"uri":"notes://`+strings.Repeat("ab", half)+`"}`),
		"a URI, fits":  request("resources/read", `{"uri":"notes://`+strings.Repeat("ab/%61;", 2300)+`?a;b#c"}`),
		"URIs":         request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["n:a"`+most.String()+`]}}`),
		"URIs, fit":    request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["n:a"`+some.String()+`]}}`),
		"513 URIs":     request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["n:a","n:b"`+some.String()+`]}}`),
		"a completion": request("completion/complete", `{"ref":{"type":"ref/resource","uri":"n:`+strings.Repeat("ab", half)+`"}}`),
	}
}

// crowded is a policy of 200 patterns in each part.
func crowded() middleware.Policy {
	part := map[string][]string{"*": {"notes:read"}}
	for i := range 200 {
		part[fmt.Sprintf("*ab*ab*%d*", i)] = []string{"notes:write"}
	}
	return middleware.Policy{Methods: part, Tools: part, Prompts: part, Resources: part}
}

// TestHostileMessages checks that the names in a message are bounded, however long it is.
func TestHostileMessages(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = crowded() })
	for name, message := range hostile() {
		want := http.StatusBadRequest
		if name == "arguments" || strings.HasSuffix(name, "fits") || strings.HasSuffix(name, "fit") {
			want = http.StatusTeapot
		}
		var h inner
		if res := serve(guard.Protect(&h), post(issuer, "notes:read notes:write", message)); res.StatusCode != want {
			t.Errorf("%s: %s, want %d", name, res.Status, want)
		}
	}
}

// TestListsThatAreTooMuch checks that lists with too much work are withheld instead of compared
// for minutes, and that lists hide items whose names no message may have.
func TestListsThatAreTooMuch(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = crowded() })
	list := func(uris int, uri string) string {
		item := `{"uri":"` + uri + `"}`
		return `{"jsonrpc":"2.0","id":7,"result":{"resources":[` + strings.Repeat(item+",", uris-1) + item + `]}}`
	}
	send := func(body string) (int, string) {
		w := listed(guard, post(issuer, "notes:read notes:write", request("resources/list", `{}`)), "application/json", body)
		return w.Code, w.Body.String()
	}
	if code, body := send(list(2000, "notes://box/1")); code != http.StatusOK || strings.Count(body, "notes://box/1") != 2000 {
		t.Errorf("2000 items: %d, %d bytes", code, len(body))
	}
	if code, body := send(list(800, "notes://"+strings.Repeat("ab/%61;", 2000))); code != http.StatusBadGateway || strings.Contains(body, "notes:") {
		t.Errorf("11 MiB of URIs: %d, %d bytes", code, len(body))
	}
	if code, body := send(list(1, "notes://"+strings.Repeat("a", 17<<10))); code != http.StatusOK || strings.Contains(body, "notes:") {
		t.Errorf("a URI that no message may name: %d, %d bytes", code, len(body))
	}
	value := `"` + strings.Repeat("ab/%61;", 2000) + `"`
	w := listed(guard, post(issuer, "notes:read notes:write", request("completion/complete", completionOf("notes://{+path}", `{"name":"path","value":""}`, `{}`))), "application/json",
		`{"jsonrpc":"2.0","id":7,"result":{"completion":{"values":[`+strings.Repeat(value+",", 800)+value+`]}}}`)
	if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), "ab/") {
		t.Errorf("11 MiB of values: %d, %d bytes", w.Code, w.Body.Len())
	}
}

// TestCompletionsOfHostileTemplates checks that a template which has a long value a thousand times, and values of
// very many variables, cost no more than they weigh.
func TestCompletionsOfHostileTemplates(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = crowded() })
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `"v%d":"",`, i)
	}
	known := `{` + many.String() + `"a":"` + strings.Repeat("a", 1<<20) + `"}`
	for _, template := range []string{"notes://x/" + strings.Repeat("{a}", 3000) + "{g}", "notes://x/{g," + strings.Repeat("a,", 3000) + "a}", "notes://x/{g}"} {
		r := post(issuer, "notes:read notes:write", request("completion/complete", completionOf(template, `{"name":"g","value":""}`, known)))
		answer := `{"jsonrpc":"2.0","id":7,"result":{"completion":{"values":[` + strings.Repeat(`"b",`, 99) + `"b"]}}}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := listed(guard, r, "application/json", answer)
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; w.Code != http.StatusOK || used > 200 {
			t.Errorf("%.20s: %d with %d MiB", template, w.Code, used)
		}
	}
}

// BenchmarkHostileMessages measures messages of 4 MiB, and lists of 10 000 items, against 200
// patterns.
func BenchmarkHostileMessages(b *testing.B) {
	issuer := middlewaretest.NewIssuer(b)
	run := func(name, message, answer string) {
		b.Run(name, func(b *testing.B) {
			guard := newGuard(b, issuer, func(c *middleware.Config) { c.Policy = crowded() })
			handler := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answer)
			}))
			r := post(issuer, "notes:read notes:write", message)
			body := strings.NewReader(message)
			r.Body = io.NopCloser(body)
			for b.Loop() {
				body.Reset(message)
				handler.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
	for name, message := range hostile() {
		run(name, message, "{}")
	}
	for _, l := range []struct{ method, member, name string }{{"tools/list", "tools", "name"}, {"resources/list", "resources", "uri"}} {
		var items strings.Builder
		for i := range 10000 {
			fmt.Fprintf(&items, `,{"%s":"notes://some/box/item_%d"}`, l.name, i)
		}
		run(l.method, request(l.method, `{}`), `{"jsonrpc":"2.0","id":7,"result":{"`+l.member+`":[`+items.String()[1:]+`]}}`)
	}
}
