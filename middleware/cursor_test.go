package middleware_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// paging is a protected handler that returns one page of a list, and records the cursors of
// requests.
type paging struct {
	next  string // in JSON
	media string
	asked []string
}

func (p *paging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Method string
		Params map[string]json.RawMessage
	}
	h := &reading{}
	h.ServeHTTP(httptest.NewRecorder(), r)
	if len(h.bodies) == 1 && json.Unmarshal([]byte(h.bodies[0]), &message) == nil && r.ContentLength == int64(len(h.bodies[0])) {
		p.asked = append(p.asked, string(message.Params["cursor"]))
	}
	member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}[message.Method]
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"%s":[],"nextCursor":%s}}`, member, p.next)
	if p.media == streamType {
		body = "data: " + body + "\n\n"
	}
	answering(200, body, "Content-Type", p.media).ServeHTTP(w, r)
}

// nextIn returns the cursor in a response.
func nextIn(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Result struct {
			NextCursor *string `json:"nextCursor"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(body, "data: ")), &answer); err != nil || answer.Result.NextCursor == nil {
		t.Fatalf("no cursor: %v %s", err, body)
	}
	return *answer.Result.NextCursor
}

// as returns a request of a person for a list, with a cursor in JSON.
func as(issuer *middlewaretest.Issuer, subject, method, cursor string) *http.Request {
	params := `{}`
	if cursor != "" {
		params = `{"x":1.50,"cursor":` + cursor + `}`
	}
	r := cachedPost(issuer.Mint(claims{"aud": resource, "sub": subject}), request(method, params))
	r.Header.Set("Content-Length", "1")
	return r
}

// TestCursorsAreSealed checks that the cursor of a filtered list is unreadable, and opens only
// for the person and the list that it was issued for, in every process with the key.
func TestCursorsAreSealed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	config := func(fill byte) func(*middleware.Config) {
		return func(c *middleware.Config) { c.Policy, c.Sessions = notesPolicy(), newHandles(t, fill) }
	}
	guard, same, other := newGuard(t, issuer, config(1)), newGuard(t, issuer, config(1)), newGuard(t, issuer, config(2))
	methods := []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
	for i, method := range methods {
		for _, media := range []string{jsonType, streamType} {
			page := &paging{next: `"after:drop_notes \u00fc"`, media: media}
			send := func(guard *middleware.Guard, r *http.Request) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				guard.Protect(page).ServeHTTP(w, r)
				return w
			}
			sealed := nextIn(t, send(guard, as(issuer, "reader", method, "")).Body.String())
			again := nextIn(t, send(same, as(issuer, "reader", method, "")).Body.String())
			if strings.Contains(sealed, "drop_notes") || sealed != again || len(sealed) > 400 {
				t.Fatalf("%s: the cursors are %q and %q", method, sealed, again)
			}
			if theirs := nextIn(t, send(guard, as(issuer, "writer", method, "")).Body.String()); theirs == sealed {
				t.Errorf("%s: two people get the same cursor", method)
			}
			for name, next := range map[string]*middleware.Guard{"the same process": guard, "another process": same} {
				page.asked = nil
				if w := send(next, as(issuer, "reader", method, quoted(sealed))); w.Code != 200 || len(page.asked) != 1 || page.asked[0] != `"after:drop_notes ü"` {
					t.Errorf("%s, %s: %d %s, the handler was asked for %q", method, name, w.Code, w.Body, page.asked)
				}
			}
			page.asked = nil
			for name, r := range map[string]*http.Request{
				"another person":      as(issuer, "writer", method, quoted(sealed)),
				"another list":        as(issuer, "reader", methods[(i+1)%len(methods)], quoted(sealed)),
				"what the server has": as(issuer, "reader", method, page.next),
				"cut off":             as(issuer, "reader", method, quoted(sealed[:len(sealed)-1])),
				"longer":              as(issuer, "reader", method, quoted(sealed+"A")),
				"with padding":        as(issuer, "reader", method, quoted(sealed+"=")),
				"altered at first":    as(issuer, "reader", method, quoted(altered(sealed, 0))),
				"altered at last":     as(issuer, "reader", method, quoted(altered(sealed, len(sealed)-2))),
				"a line break":        as(issuer, "reader", method, quoted(sealed[:9]+"\n"+sealed[9:])),
				"a blank":             as(issuer, "reader", method, quoted(sealed+" ")),
				"short":               as(issuer, "reader", method, `"AAAA"`),
				"a number":            as(issuer, "reader", method, "1"),
				"a list":              as(issuer, "reader", method, `["`+sealed+`"]`),
				"in capitals":         as(issuer, "reader", method, quoted(sealed)+`,"Cursor":"after"`),
			} {
				if w := send(guard, r); w.Code != 400 || len(page.asked) > 0 {
					t.Errorf("%s, %s: %d %s, the handler was asked for %q", method, name, w.Code, w.Body, page.asked)
				} else {
					checkFault(t, w, -32602, "7")
				}
			}
			if w := send(other, as(issuer, "reader", method, quoted(sealed))); w.Code != 400 || len(page.asked) > 0 {
				t.Errorf("%s, another key: %d %s", method, w.Code, w.Body)
			}
		}
	}
}

// altered returns a text with one letter changed.
func altered(s string, at int) string {
	letter := byte('A')
	if s[at] == letter {
		letter = 'B'
	}
	return s[:at] + string(letter) + s[at+1:]
}

// TestCursorsThatSayNothing checks that a missing, null or empty cursor does not change, in
// requests and responses, and that one that is not a string is not forwarded.
func TestCursorsThatSayNothing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for _, nothing := range []string{"null", `""`} {
		page := &paging{next: nothing, media: jsonType}
		w := httptest.NewRecorder()
		guard.Protect(page).ServeHTTP(w, as(issuer, "reader", "tools/list", nothing))
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"nextCursor":`+nothing) || len(page.asked) != 1 || page.asked[0] != nothing {
			t.Errorf("%s: %d %s, the handler was asked for %q", nothing, w.Code, w.Body, page.asked)
		}
	}
	for _, next := range []string{"1", `["hidden"]`, `{"a":"hidden"}`, `"x","NextCursor":"hidden"`} {
		w := httptest.NewRecorder()
		guard.Protect(&paging{next: next, media: jsonType}).ServeHTTP(w, as(issuer, "reader", "tools/list", ""))
		if w.Code != 502 || strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s: %d %s", next, w.Code, w.Body)
		}
	}
}

// TestCursorsAreNotQuoted checks that an error response of the server about a cursor does not
// reveal the cursor.
func TestCursorsAreNotQuoted(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	w := httptest.NewRecorder()
	guard.Protect(&paging{next: `"after:drop_notes/1"`, media: jsonType}).ServeHTTP(w, as(issuer, "reader", "tools/list", ""))
	sealed := quoted(nextIn(t, w.Body.String()))
	for _, tt := range []struct {
		status      int
		media, body string
		kept        string // of it
	}{
		{400, "text/plain", "invalid cursor after:drop_notes/1", ""},
		{400, jsonType, `{"error":"invalid cursor after:drop_notes/1"}`, ""},
		{200, jsonType, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"invalid cursor \"after:drop_notes/1\""}}`, "-32602"},
		{400, jsonType, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"invalid","data":{"cursor":"after:dr\u006fp_notes\/1"}}}`, "-32602"},
		{200, streamType, "data: " + `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"after:drop_notes/1"}}` + "\n\n", "-32602"},
		{429, jsonType, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"slow down","data":{"seconds":5}}}`, "slow down"},
	} {
		w := httptest.NewRecorder()
		guard.Protect(answering(tt.status, tt.body, "Content-Type", tt.media)).ServeHTTP(w, as(issuer, "reader", "tools/list", sealed))
		if w.Code != tt.status || strings.Contains(w.Body.String(), "notes") || !strings.Contains(w.Body.String(), tt.kept) {
			t.Errorf("%s: %d %s", tt.body, w.Code, w.Body)
		}
	}
}

// TestCursorsHaveOneLength checks that sealed cursors of short and long names have the same
// length.
func TestCursorsHaveOneLength(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	sizes := map[int]int{}
	for _, length := range []int{1, 10, 100, 255, 256, 300, 511, 600, 70000} {
		page := &paging{next: quoted(strings.Repeat("x", length)), media: jsonType}
		w := httptest.NewRecorder()
		guard.Protect(page).ServeHTTP(w, as(issuer, "reader", "tools/list", ""))
		sealed := nextIn(t, w.Body.String())
		sizes[len(sealed)]++
		guard.Protect(page).ServeHTTP(httptest.NewRecorder(), as(issuer, "reader", "tools/list", quoted(sealed)))
		if len(page.asked) != 2 || page.asked[1] != page.next {
			t.Errorf("%d: the handler was asked for %.40q", length, page.asked)
		}
	}
	if len(sizes) != 4 || sizes[363] != 4 {
		t.Errorf("the lengths are %v", sizes)
	}
}

// TestCursorsOfOtherListsStay checks that cursors do not change where the policy filters no
// list.
func TestCursorsOfOtherListsStay(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, policy := range map[string]middleware.Policy{
		"other names": {Prompts: map[string][]string{"*": nil}}, "every tool": {Tools: map[string][]string{"*": nil}, Listing: middleware.ListAll}, "nothing": {},
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = policy })
		page := &paging{next: `"after"`, media: jsonType}
		w := httptest.NewRecorder()
		guard.Protect(page).ServeHTTP(w, as(issuer, "reader", "tools/list", `"before"`))
		if nextIn(t, w.Body.String()) != "after" || len(page.asked) != 1 || page.asked[0] != `"before"` {
			t.Errorf("%s: %s, the handler was asked for %q", name, w.Body, page.asked)
		}
	}
}

// TestCursorsInResumedStreams checks that a resumed stream repeats a response with the same
// sealed cursor, for each kind of list.
func TestCursorsInResumedStreams(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for method, member := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"} {
		body := `{"jsonrpc":"2.0","id":7,"result":{"` + member + `":[],"nextCursor":"after"}}`
		event := answering(200, "data: "+body+"\n\n", "Content-Type", streamType)
		r := newRequest("GET", resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))
		w := httptest.NewRecorder()
		guard.Protect(event).ServeHTTP(w, r)
		sealed := nextIn(t, w.Body.String())
		page := &paging{next: `"x"`, media: jsonType}
		guard.Protect(page).ServeHTTP(httptest.NewRecorder(), as(issuer, "reader", method, quoted(sealed)))
		if len(page.asked) != 1 || page.asked[0] != `"after"` {
			t.Errorf("%s: %q, the handler was asked for %q", method, sealed, page.asked)
		}
	}
}

// TestCursorsOfNobody checks that cursors of requests without a token are sealed too, and are
// refused with a token.
func TestCursorsOfNobody(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy, c.Optional, c.InsecureUnboundSessions = middleware.Policy{Tools: map[string][]string{"whoami": nil}}, true, true
	})
	page := &paging{next: `"after"`, media: jsonType}
	ask := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		guard.Protect(page).ServeHTTP(w, r)
		return w
	}
	sealed := nextIn(t, ask(post(issuer, "anonymous", request("tools/list", `{}`))).Body.String())
	if w := ask(post(issuer, "anonymous", request("tools/list", `{"cursor":"`+sealed+`"}`))); w.Code != 200 || page.asked[1] != `"after"` {
		t.Errorf("without a token: %d %q", w.Code, page.asked)
	}
	if w := ask(as(issuer, "reader", "tools/list", quoted(sealed))); w.Code != 400 {
		t.Errorf("with a token: %d", w.Code)
	}
}

// FuzzCursor checks that the handler gets no cursor except the one that it issued.
func FuzzCursor(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	guard := newGuard(f, issuer, func(c *middleware.Config) { c.Policy, c.Sessions = notesPolicy(), newHandles(f, 1) })
	token := issuer.Mint(claims{"aud": resource})
	ask := func(page *paging, params string) string {
		w := httptest.NewRecorder()
		guard.Protect(page).ServeHTTP(w, cachedPost(token, request("tools/list", params)))
		return w.Body.String()
	}
	f.Add("after", "AAAA")
	f.Add("", "after")
	f.Add("\x80\x00", strings.Repeat("A", 363))
	f.Fuzz(func(t *testing.T, next, forged string) {
		page := &paging{next: quoted(next), media: jsonType}
		_ = json.Unmarshal([]byte(page.next), &next) // as JSON has it
		sealed := nextIn(t, ask(page, `{}`))
		ask(page, `{"cursor":`+quoted(sealed)+`}`)
		if next != "" && (len(page.asked) != 2 || page.asked[1] != quoted(next)) {
			t.Fatalf("%q comes back as %q", next, page.asked)
		}
		page.asked = nil
		if ask(page, `{"cursor":`+quoted(forged)+`}`); len(page.asked) > 0 && forged != "" && forged != sealed {
			t.Fatalf("%q gets through as %q", forged, page.asked)
		}
	})
}

// TestNoDigestOfAnotherBody checks that a request with a replaced cursor has no digest of the
// original body, which a server would compare.
func TestNoDigestOfAnotherBody(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	p := &paging{next: `"b"`, media: jsonType}
	first := httptest.NewRecorder()
	guard.Protect(p).ServeHTTP(first, as(issuer, "ann", "tools/list", ""))
	for cursor, want := range map[string]int{`"` + nextIn(t, first.Body.String()) + `"`: 0, "": 4} {
		r := as(issuer, "ann", "tools/list", cursor)
		for _, name := range []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
			r.Header.Set(name, "sha-256=:AAAA:")
		}
		got := 0
		serve(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, values := range r.Header {
				got += strings.Count(strings.Join(values, " "), ":AAAA:")
			}
			p.ServeHTTP(w, r)
		})), r)
		if got != want || len(p.asked) == 0 {
			t.Errorf("with the cursor %.20q: %d digests, want %d", cursor, got, want)
		}
	}
}
