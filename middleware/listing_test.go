package middleware_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
)

// saying is a protected handler with a fixed response body.
func saying(contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	})
}

func listed(guard *middleware.Guard, r *http.Request, contentType, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	guard.Protect(saying(contentType, body)).ServeHTTP(w, r)
	return w
}

const toolList = `{"jsonrpc":"2.0","id":7,"result":{"tools":[` +
	`{"name":"whoami","inputSchema":{"type":"object"}},` +
	`{"name":"list_notes","inputSchema":{"type":"object","properties":{"limit":{"default":12345678901234567890}}}},` +
	`{"name":"add_note","_meta":{"example.com/x":1.50},"inputSchema":{"type":"object"}},` +
	`{"name":"copy_all_day","inputSchema":{"type":"object"}},` +
	`{"name":"drop_notes","inputSchema":{"type":"object"}}` +
	`],"nextCursor":"abc","ttlMs":1000,"cacheScope":"public","_meta":{"a":[1, 2]}}}`

// shown returns the tools of an answer as they are written, and the missing scopes.
func shown(t *testing.T, data string) (names, tools []string, missing string) {
	t.Helper()
	var answer struct {
		ID     int `json:"id"`
		Result struct {
			Tools      []json.RawMessage          `json:"tools"`
			NextCursor string                     `json:"nextCursor"`
			CacheScope string                     `json:"cacheScope"`
			Meta       map[string]json.RawMessage `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(data), &answer); err != nil || answer.ID != 7 || len(answer.Result.NextCursor) < 300 || answer.Result.CacheScope != "private" {
		t.Fatalf("%v: %s", err, data)
	}
	for _, tool := range answer.Result.Tools {
		var named struct{ Name string }
		if err := json.Unmarshal(tool, &named); err != nil {
			t.Fatal(err)
		}
		names, tools = append(names, named.Name), append(tools, string(tool))
	}
	return names, tools, string(answer.Result.Meta[middleware.MissingScopesKey])
}

// A list shows the items that the token covers or could cover, and the missing scopes beside them.
// It hides tools that the policy refuses, and those whose scopes cannot be acquired. The items are
// the same for every token: GitHub Copilot CLI refuses a call whose tool changed with a step-up.
func TestListing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, tt := range []struct {
		listing middleware.Listing
		scopes  string
		want    string
		missing string
	}{
		{middleware.ListAcquirable, "", "whoami list_notes add_note", `{"add_note":["notes:write"],"list_notes":["notes:read"]}`},
		{middleware.ListAcquirable, "notes:read", "whoami list_notes add_note", `{"add_note":["notes:write"]}`},
		{middleware.ListAcquirable, "notes:write", "whoami list_notes add_note", ""},
		{middleware.ListAcquirable, "notes:admin", "whoami list_notes add_note copy_all_day", ""},
		{middleware.ListGranted, "", "whoami", ""},
		{middleware.ListGranted, "notes:read", "whoami list_notes", ""},
		{middleware.ListGranted, "notes:admin", "whoami list_notes add_note copy_all_day", ""},
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) {
			c.Policy = notesPolicy()
			c.Policy.Listing = tt.listing
		})
		for contentType, wrap := range map[string]string{jsonType: "%s", jsonType + "; charset=utf-8": "%s\n", streamType: "event: message\nid: 1\ndata: %s\n\n"} {
			r := post(issuer, tt.scopes, request("tools/list", `{}`), "Accept-Encoding", "gzip")
			w := listed(guard, r, contentType, fmt.Sprintf(wrap, toolList))
			body := strings.TrimSpace(w.Body.String())
			if contentType == streamType {
				before, data, _ := strings.Cut(body, "\ndata: ")
				if !strings.HasPrefix(before, "event: message\nid: 1.") || w.Header().Get("Content-Length") != "" {
					t.Fatalf("%v: %s", w.Header(), body)
				}
				body = data
			} else if w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
				t.Errorf("Content-Length %s of %d bytes", w.Header().Get("Content-Length"), w.Body.Len())
			}
			names, tools, missing := shown(t, body)
			if got := strings.Join(names, " "); got != tt.want || w.Code != 200 || missing != tt.missing {
				t.Errorf("%d, %q, %s: %d shows %s, want %s; it misses %s, want %s", tt.listing, tt.scopes, contentType, w.Code, got, tt.want, missing, tt.missing)
			}
			for _, tool := range tools {
				if !strings.Contains(toolList, tool) {
					t.Errorf("%d, %q: a tool depends on the token: %s", tt.listing, tt.scopes, tool)
				}
			}
			if !strings.Contains(body, `"a":[1,2]`) || strings.Contains(tt.want, "list_notes") != strings.Contains(body, "12345678901234567890") {
				t.Errorf("the rest of the list was changed: %s", body)
			}
		}
	}
}

// Lists of prompts and resources follow the same rules.
func TestListingOfOthers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Policy.Listing = middleware.ListGranted
	})
	for method, lists := range map[string][2]string{
		"prompts/list":             {`"prompts":[{"name":"summary"},{"name":"hello"}]`, `"prompts":[{"name":"hello"}]`},
		"resources/list":           {`"resources":[{"name":"a","uri":"notes://shared/1"},{"name":"b","uri":"notes://private/1"},{"name":"c","uri":"notes://secret/1"}]`, `"resources":[{"name":"a","uri":"notes://shared/1"}]`},
		"resources/templates/list": {`"resourceTemplates":[{"uriTemplate":"notes://private/{id}"},{"uriTemplate":"notes://shared/{id}"}]`, `"resourceTemplates":[{"uriTemplate":"notes://shared/{id}"}]`},
	} {
		w := listed(guard, post(issuer, "", request(method, `{}`)), jsonType, `{"jsonrpc":"2.0","id":7,"result":{`+lists[0]+`}}`)
		if !strings.Contains(w.Body.String(), lists[1]) || w.Code != 200 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

// Responses without a list are forwarded byte for byte.
func TestNoListing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	all := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Policy.Listing = middleware.ListAll
	})
	nameless := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = middleware.Policy{Methods: map[string][]string{"ping": nil}}
	})
	list := request("tools/list", `{}`)
	for _, tt := range []struct {
		name              string
		guard             *middleware.Guard
		r                 *http.Request
		contentType, body string
	}{
		{"an error", guard, post(issuer, "", list), jsonType, `{"jsonrpc": "2.0", "id":7, "error":{"code":-32603, "message":"x"}}`},
		{"no list in it", guard, post(issuer, "", list), jsonType, `{"jsonrpc": "2.0", "id":7, "result":{ }}`},
		{"another method", guard, post(issuer, "", callTool("whoami")), jsonType, toolList},
		{"every tool", all, post(issuer, "", list), jsonType, toolList},
		{"a policy without tools", nameless, post(issuer, "", list), jsonType, toolList},
		{"comments and notifications", guard, post(issuer, "", list), streamType, ": hello\n\nretry: 5\n\nevent: message\ndata: {\"jsonrpc\": \"2.0\",\ndata: \"method\":\"notifications/progress\"}\n\nid:\ndata:\n\n"},
	} {
		w := listed(tt.guard, tt.r, tt.contentType, tt.body)
		if w.Body.String() != tt.body || w.Code != 200 {
			t.Errorf("%s: %d %q, want %q", tt.name, w.Code, w.Body, tt.body)
		}
	}
}

// A response that the guard reads must not be compressed; all others may be.
func TestListsAreNotCompressed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	for body, want := range map[string]string{request("tools/list", `{}`): "", callTool("whoami"): "gzip"} {
		var h inner
		serve(guard.Protect(&h), post(issuer, "", body, "Accept-Encoding", "gzip", "Accept", "application/json"))
		if got := h.requests[0].Header.Get("Accept-Encoding"); got != want {
			t.Errorf("%s: Accept-Encoding %q, want %q", body, got, want)
		}
	}
}

// A list that cannot be read is withheld.
func TestUnreadableLists(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	const secret = "drop_notes"
	good := `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"whoami"}]}}`
	for name, body := range map[string]string{
		"cut off":              toolList[:len(toolList)-3],
		"two lists":            `{"jsonrpc":"2.0","id":7,"result":{"tools":[],"tools":[{"name":"drop_notes"}]}}`,
		"a tool without name":  `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"title":"drop_notes"}]}}`,
		"Name instead of name": `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"Name":"drop_notes"}]}}`,
		"tools is an object":   `{"jsonrpc":"2.0","id":7,"result":{"tools":{"drop_notes":{}}}}`,
		"a tool is a string":   `{"jsonrpc":"2.0","id":7,"result":{"tools":["drop_notes"]}}`,
		"_meta is a string":    `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add_note"}],"_meta":"drop_notes"}}`,
		"two messages":         toolList + toolList,
		"a batch":              "[" + toolList + "]",
	} {
		w := listed(guard, post(issuer, "", request("tools/list", `{}`)), jsonType, body)
		if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		checkFault(t, w, -32603, "7")
		w = listed(guard, post(issuer, "", request("tools/list", `{}`)), streamType, "data: "+body+"\n\ndata: "+good+"\n\n")
		checkLost(t, name, w.Body.String(), "7")
	}
	for name, stream := range map[string]string{
		"a byte order mark":       "\ufeffdata: " + toolList + "\n\n",
		"lines that end with CR":  "x: \rdata: " + toolList + "\r\r\n\n",
		"an event without an end": "data: " + toolList + "\n",
		"in two lines of data":    "data:" + strings.Replace(toolList, `[{"name":"whoami"`, "[\ndata:"+`{"name":"whoami"`, 1) + "\n\n",
	} {
		w := listed(guard, post(issuer, "", request("tools/list", `{}`)), streamType, stream)
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %q", name, w.Body)
		}
	}
	for _, stream := range []string{
		"\ufeff\ufeffdata: " + toolList + "\n\n",
		"\ufeff\ufeff\ufeffdata: " + toolList + "\n\n",
		"event: x\ndata: {\"tools\":[\n\n\ufeffdata: " + toolList + "\n\n",
	} { // readers of text, and of events after them, leave out a mark each
		w := listed(guard, post(issuer, "", request("tools/list", `{}`)), streamType, stream)
		if got := messagesOf(strings.TrimLeft(w.Body.String(), "\ufeff")); strings.Contains(strings.Join(got, ""), secret) {
			t.Errorf("%q becomes %q", stream, w.Body)
		}
	}
}

// checkLost checks that a stream ends with an error response about a lost response.
func checkLost(t *testing.T, name, stream, id string) {
	t.Helper()
	want := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"`
	if id == "" {
		want = strings.Replace(want, `"id":,`, "", 1)
	}
	if last := stream[strings.LastIndex(stream, "data: ")+1:]; !strings.HasPrefix(last, "ata: "+want) || !strings.HasSuffix(last, "}}\n\n") {
		t.Errorf("%s: the stream ends with %q, want %s", name, stream, want)
	}
}

// A resumed stream repeats responses, also lists.
func TestListingInAnOpenedStream(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy, c.InsecureUnboundSessions = notesPolicy(), true })
	r := newRequest(http.MethodGet, resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}), "Last-Event-Id", "3")
	w := listed(guard, r, streamType, "id: 4\ndata: "+toolList+"\n\n")
	names, _, _ := shown(t, strings.TrimPrefix(w.Body.String(), "id: 4\ndata: "))
	if got := strings.Join(names, " "); got != "whoami list_notes add_note" {
		t.Errorf("the stream shows %s", got)
	}
}

// Events are forwarded as soon as they are complete, in whatever pieces the handler writes them.
func TestFilteredStreamIsNotHeldBack(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() })
	next := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", streamType)
		for i := range 3 {
			event := fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/%d\"}\n\n", i)
			for _, b := range []byte(event) {
				if _, err := w.Write([]byte{b}); err != nil {
					t.Errorf("write: %v", err)
				}
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			<-next
		}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "notes.example.com"
		guard.Protect(handler).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	out := post(issuer, "", request("tools/list", `{}`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, out.Body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = out.Header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") {
		}
		if want := fmt.Sprintf("notifications/%d", i); !strings.Contains(lines.Text(), want) {
			t.Fatalf("got %q, want %s: %v", lines.Text(), want, lines.Err())
		}
		next <- struct{}{} // the handler writes the next event only now
	}
}
