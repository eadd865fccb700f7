package middleware_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// offered has the members of a completion that the tests check.
type offered struct {
	Values  []string
	Total   *int
	HasMore *bool
}

// complete returns what a client sees of a completion that a handler answers with.
func complete(t *testing.T, guard *middleware.Guard, r *http.Request, contentType, answer string) (got offered) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"completion":%s}}`, answer)
	if contentType == streamType {
		body = "data: " + body + "\n\n"
	}
	w := listed(guard, r, contentType, body)
	var seen struct{ Result struct{ Completion offered } }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(w.Body.String()), "data: ")), &seen); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return seen.Result.Completion
}

func completionOf(template, argument, known string) string {
	return fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q},"argument":%s,"context":{"arguments":%s}}`, template, argument, known)
}

// TestCompletions checks that the values for a variable of a template are those that lead to resources
// which the client may see.
func TestCompletions(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const box, name = `{"name":"box","value":"s"}`, `{"name":"name","value":""}`
	policy := map[string][]string{"*": nil, "notes://secret/*": {"notes:admin"}, "notes://shared/plan": {"notes:read"}, "file:///srv/secret/*": {"notes:admin"}}
	for _, tt := range []struct{ template, argument, known, scopes, values, want string }{
		{"notes://{box}/{name}", box, `{}`, "", "secret shared", "shared"},
		{"notes://{box}/{name}", box, `{}`, "notes:admin", "secret shared", "secret shared"},
		{"notes://{box}/{name}", name, `{"box":"secret"}`, "", "a b", ""},
		{"notes://{box}/{name}", name, `{"box":"secret"}`, "notes:admin", "a b", "a b"},
		{"notes://{box}/{name}", name, `{"box":"shared"}`, "", "a plan", "a"},
		{"notes://{box}/{name}", name, `{"box":"shared"}`, "notes:read", "a plan", "a plan"},
		{"notes://{box}/{name}", name, `null`, "", "a b", "a b"}, // the box is not known
		{"notes://{box}/{name}", `{"name":"Box","value":""}`, `{}`, "notes:admin", "shared", ""},
		{"notes://{box}/{name}", `{"name":1}`, `{}`, "notes:admin", "shared", ""},
		{"notes://{box}/{name}", name, `{"box":1}`, "notes:admin", "a", ""},
		{"notes://{box}/{name}", `[]`, `{}`, "notes:admin", "a", ""},
		{"notes://shared/all", name, `{}`, "notes:admin", "a", ""},
		{"notes://{+path}", `{"name":"path","value":""}`, `{}`, "", "secret/1 shared/1 ../secret/1", "shared/1"},
		{"notes://{path*}", `{"name":"path","value":""}`, `{}`, "", "secret/1 shared/1 s%65cret/1", "shared/1"},
		{"notes:/{/box,name}", name, `{"box":"secret"}`, "", "a", ""},
		{"notes:/{/box*}/x", box, `{}`, "", "secret shared", "shared"},
		{"notes://{box}/{name}{?x,y}", `{"name":"y","value":""}`, `{"box":"secret"}`, "", "1", ""},
		{"notes://{box}/{name}{?x,y}", `{"name":"y","value":""}`, `{"box":"shared","name":"plan"}`, "", "1", ""},
		{"notes://{box}/{name}{?x,y}", `{"name":"y","value":""}`, `{"box":"shared","name":"a"}`, "", "1", "1"},
		{"notes://{box:3}/{name}", box, `{}`, "notes:admin", "shared", ""},
		{"notes://{box}/{}", box, `{}`, "notes:admin", "shared", ""},
		{"notes://{box}/}", box, `{}`, "notes:admin", "shared", ""},
		{"notes://{box}/{name", box, `{}`, "notes:admin", "shared", ""},
		{"file:///srv/{box}/{name}", box, `{}`, "", "SECRET open", "open"},
		{"file:///srv/{box}/{name}", name, `{"box":"open"}`, "", "a ../secret/b", "a"},
		{"notes://a%zz{box}", box, `{}`, "", "b", "b"},
	} {
		for _, contentType := range []string{jsonType, streamType} {
			guard := newGuard(t, issuer, func(c *middleware.Config) {
				c.Policy = middleware.Policy{Resources: policy, Listing: middleware.ListGranted}
			})
			values, _ := json.Marshal(strings.Fields(tt.values))
			got := complete(t, guard, post(issuer, tt.scopes, request("completion/complete", completionOf(tt.template, tt.argument, tt.known))), contentType, `{"values":`+string(values)+`,"hasMore":false}`)
			if !slices.Equal(got.Values, strings.Fields(tt.want)) {
				t.Errorf("%s, %s with %s and %q: %q, want %q", tt.template, tt.argument, tt.known, tt.scopes, got.Values, tt.want)
			}
		}
	}
}

// TestCompletionsExpandTemplates checks that a value leads to the URI that RFC 6570 says: with f "a", the value
// "b" for g leads to the protected resource, and "c" does not.
func TestCompletionsExpandTemplates(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for template, protected := range map[string]string{
		"notes://x/{f,g}": "notes://x/a,b", "notes://x/{+f,g}": "notes://x/a,b", "notes://x{#f,g}": "notes://x#a,b", "notes://x{.f,g}": "notes://x.a.b",
		"notes://x{/f,g}": "notes://x/a/b", "notes://x/y{;f,g}": "notes://x/y;f=a;g=b", "notes://x/y{?f,g*}": "notes://x/y?f=a&g=b", "notes://x/y?z=1{&f,g}": "notes://x/y?z=1&f=a&g=b",
		"notes://x/{h}/{g}": "notes://x/{h}/b", "notes://x/y{?h,g}": "notes://x/y?h={h}&g=b", "notes://x/{g}/{g}": "notes://x/b/b",
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) {
			c.Policy = middleware.Policy{Resources: map[string][]string{"*": nil, protected: {"notes:admin"}}, Listing: middleware.ListGranted}
		})
		r := post(issuer, "", request("completion/complete", completionOf(template, `{"name":"g","value":""}`, `{"f":"a"}`)))
		if got := complete(t, guard, r, jsonType, `{"values":["b","c"]}`); !slices.Equal(got.Values, []string{"c"}) {
			t.Errorf("%s: %q", template, got.Values)
		}
	}
}

// TestCompletionsFollowTheListing checks that completions show what lists show, and count no more.
func TestCompletionsFollowTheListing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, tt := range []struct {
		listing middleware.Listing
		method  string
		params  string
		answer  string
		want    string
	}{
		{middleware.ListAcquirable, "", "", `{"values":["private","shared","secret"],"total":3,"hasMore":false}`, `{"hasMore":false,"values":["private","shared"]}`},
		{middleware.ListGranted, "", "", `{"values":["private","shared"],"total":2,"hasMore":false}`, `{"hasMore":false,"values":["shared"]}`},
		{middleware.ListGranted, "", "", `{"values":["shared"],"total":1,"hasMore":false,"x":1.50}`, `{"hasMore":false,"total":1,"values":["shared"],"x":1.50}`},
		{middleware.ListGranted, "", "", `{"values":["shared"],"total":7,"hasMore":true}`, `{"hasMore":true,"values":["shared"]}`},
		{middleware.ListGranted, "", "", `{"values":["shared"],"total":7}`, `{"values":["shared"]}`},
		{middleware.ListAll, "", "", `{"values":["private","secret"],"total":7}`, `{"values":["private","secret"],"total":7}`},
		{middleware.ListGranted, "", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"box","value":""}}`, `{"values":["private"],"total":7}`, `{"values":["private"],"total":7}`},
		{middleware.ListGranted, http.MethodGet, "", `{"values":["shared"],"total":1,"hasMore":false}`, `{"hasMore":false,"values":[]}`},
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) {
			c.Policy = notesPolicy()
			c.Policy.Resources["notes://{box}/{id}"] = nil
			c.Policy.Listing = tt.listing
		})
		params := tt.params
		if params == "" {
			params = completionOf("notes://{box}/{id}", `{"name":"box","value":""}`, `{}`)
		}
		r := post(issuer, "", request("completion/complete", params))
		if tt.method == http.MethodGet { // a stream that repeats responses
			r = post(issuer, "", "", "Last-Event-Id", "")
			r.Method, r.Body = http.MethodGet, http.NoBody
			r.ContentLength = 0
			r.Header.Del("Last-Event-Id")
			r.Header.Set("Accept", streamType)
		}
		body := `{"jsonrpc":"2.0","id":7,"result":{"completion":` + tt.answer + `}}`
		w := listed(guard, r, streamType, "data: "+body+"\n\n")
		if want := `"completion":` + tt.want + `}}`; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d, %s: %d %s\nwant %s", tt.listing, tt.answer, w.Code, w.Body, want)
		}
	}
}

// TestUnclearCompletions checks that neither a question nor an answer is passed on about which readers
// could differ.
func TestUnclearCompletions(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Resources: map[string][]string{"*": nil, "notes://secret/*": {"notes:admin"}}}
	})
	const good = `{"ref":{"type":"ref/resource","uri":"notes://{box}"},"argument":{"name":"box","value":""}}`
	for _, params := range []string{
		strings.Replace(good, `"argument"`, `"Argument":{},"argument"`, 1), strings.Replace(good, `"name"`, `"Name":"x","name"`, 1),
		strings.TrimSuffix(good, "}") + `,"context":{"arguments":{},"Arguments":{"box":"secret"}}}`, strings.TrimSuffix(good, "}") + `,"Context":{}}`,
	} {
		if w := listed(guard, post(issuer, "", request("completion/complete", params)), jsonType, `{}`); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", params, w.Code, w.Body)
		}
	}
	for _, result := range []string{
		`"completion":[]`, `"completion":{}`, `"completion":{"values":["a",1]}`, `"completion":{"values":["a"],"Values":["secret"]}`, `"Completion":{"values":["secret"]}`,
	} {
		w := listed(guard, post(issuer, "", request("completion/complete", good)), jsonType, `{"jsonrpc":"2.0","id":7,"result":{`+result+`}}`)
		if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s", result, w.Code, w.Body)
		}
	}
}
