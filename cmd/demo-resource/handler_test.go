package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/message"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// A request without a token is refused before anything else is checked.
func TestNothingWithoutAToken(t *testing.T) {
	d := newDemo(t)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodHead} {
		for _, body := range []string{"", "no JSON", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`} {
			for _, version := range []string{"", "2026-07-28", "nonsense"} {
				r := (&caller{resource: d.resource}).request(t, method, body)
				r.Header.Set("Mcp-Protocol-Version", version)
				resp, _ := send(t, r)
				if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(got, `scope="notes:read notes:write"`) {
					t.Errorf("%s %q %s: %s %q", method, body, version, resp.Status, got)
				}
			}
		}
	}
	for _, broken := range d.issuer.Broken(d.resource) {
		c := caller{resource: d.resource, token: broken.Token}
		resp, _ := send(t, c.request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", broken.Name, resp.Status)
		}
	}
}

// Messages that two readers could interpret differently are refused, with a response of the
// protocol that has the id if it can be read.
func TestMessagesAreStrict(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`
	const parse, invalid = message.CodeParseError, message.CodeInvalidRequest
	with := func(old, new string) string { return strings.Replace(call, old, new, 1) }
	tests := map[string]struct {
		message string
		code    message.Code
		id      string
	}{
		"name twice":          {with(`"name":"whoami"`, `"name":"add_note","name":"whoami"`), invalid, "1"},
		"escaped name twice":  {with(`"name":"whoami"`, `"n\u0061me":"add_note","name":"whoami"`), invalid, "1"},
		"name in two cases":   {with(`"name":"whoami"`, `"name":"whoami","Name":"add_note"`), message.CodeInvalidParams, "1"},
		"method twice":        {with(`"method"`, `"method":"ping","method"`), invalid, "1"},
		"id twice":            {with(`"id":1`, `"id":1,"id":2`), invalid, ""},
		"argument twice":      {with(`"arguments":{}`, `"arguments":{"a":1,"a":2}`), invalid, "1"},
		"two messages":        {call + call, parse, ""},
		"two lines":           {call + "\n" + call, parse, ""},
		"something behind it": {call + "x", parse, ""},
		"not UTF-8":           {with("whoami", "who\xffami"), parse, ""},
		"lone surrogate":      {with("whoami", `\ud800`), invalid, "1"},
		"NUL in a key":        {with(`"name"`, `"name\u0000"`), invalid, "1"},
		"byte order mark":     {"\ufeff" + call, parse, ""},
		"too deep":            {with(`"arguments":{}`, `"arguments":`+strings.Repeat(`{"a":`, 64)+"1"+strings.Repeat("}", 64)), invalid, "1"},
		"fraction as id":      {with(`"id":1`, `"id":1.5`), invalid, ""},
		"exponent as id":      {with(`"id":1`, `"id":1e3`), invalid, ""},
		"null as id":          {with(`"id":1`, `"id":null`), invalid, ""},
		"id beyond 2^53":      {with(`"id":1`, `"id":9007199254740993`), invalid, "9007199254740993"},
		"id below -2^53":      {with(`"id":1`, `"id":-9007199254740993`), invalid, "-9007199254740993"},
		"id beyond 2^63":      {with(`"id":1`, `"id":9223372036854775808`), invalid, "9223372036854775808"},
		"id beyond all":       {with(`"id":1`, `"id":1`+strings.Repeat("0", 400)), invalid, ""},
		"batch":               {`[` + call + `]`, invalid, ""},
		"method is a number":  {with(`"tools/call"`, "7"), invalid, "1"},
		"text":                {`"tools/call"`, invalid, ""},
		"null in a batch":     {"[null", parse, ""},
		"a stranger":          {with(`"id":1`, `"id":1,"extra":2`), invalid, "1"},
		"request and result":  {with(`"id":1`, `"id":1,"result":{}`), invalid, "1"},
		"nothing":             {" ", parse, ""},
	}
	eachEra(t, func(t *testing.T, d demo, as func(string, string) *caller) {
		c := as("reader", "notes:read notes:write")
		for name, test := range tests {
			r := c.request(t, http.MethodPost, test.message)
			if c.modern {
				r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
				r.Header.Set("Mcp-Method", "tools/call")
				r.Header.Set("Mcp-Name", "whoami")
			}
			resp, text := send(t, r)
			checkRefused(t, name, resp, text, test.code, test.id)
		}
	})
}

// checkRefused checks that a response has status 400 and is a JSON-RPC error with a code and an
// id, or none.
func checkRefused(t *testing.T, name string, resp *http.Response, text string, code message.Code, id string) {
	t.Helper()
	m, err := message.Decode([]byte(text), message.Limits{})
	refused, ok := m.(message.ErrorResponse)
	if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != "application/json" || err != nil || !ok {
		t.Errorf("%s: %s %s, want 400 and a message", name, resp.Status, text)
		return
	}
	if got, _ := refused.ID.MarshalJSON(); refused.Error.Code != code || string(got) != id || refused.Unread != (id == "") {
		t.Errorf("%s: %s, want code %d and id %q", name, text, code, id)
	}
}

// A response repeats the id exactly.
func TestIDsComeBack(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		for _, id := range []string{"0", "-7", "9007199254740991", "-9007199254740991", "9007199254740992", "-9007199254740992", `"a"`, `""`, `"9007199254740993"`, `"<\u00e9>"`} {
			c := as("reader", "")
			c.nextID = id
			resp, text := c.post(t, "tools/call", `{"name":"whoami","arguments":{}}`)
			m, err := message.Decode([]byte(text), message.Limits{})
			answer, ok := m.(message.ResultResponse)
			var want message.ID
			if err := want.UnmarshalJSON([]byte(id)); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusOK || err != nil || !ok || answer.ID != want {
				t.Errorf("id %s: %s %s", id, resp.Status, text)
			}
		}
	})
}

// From 2026-07-28 on headers repeat parts of the message. A message with missing or different
// headers is refused.
func TestHeadersSayWhatTheMessageSays(t *testing.T) {
	d := newDemo(t)
	const all = "notes:read notes:write"
	c := d.as("reader", all)
	c.modern = true
	const add = `{"name":"add_note","arguments":{"text":"stolen"}}`
	for name, change := range map[string]func(http.Header){
		"another method":        func(h http.Header) { h.Set("Mcp-Method", "tools/list") },
		"another tool":          func(h http.Header) { h.Set("Mcp-Name", "whoami") },
		"another tool, encoded": func(h http.Header) { h.Set("Mcp-Name", "=?base64?d2hvYW1p?=") },
		"two tools":             func(h http.Header) { h["Mcp-Name"] = []string{"add_note", "whoami"} },
		"no method":             func(h http.Header) { h.Del("Mcp-Method") },
		"no tool":               func(h http.Header) { h.Del("Mcp-Name") },
		"another revision":      func(h http.Header) { h.Set("Mcp-Protocol-Version", "2026-07-29") },
	} {
		c.nextID = "2"
		r := c.message(t, "tools/call", add)
		change(r.Header)
		resp, text := send(t, r)
		checkRefused(t, name, resp, text, message.CodeHeaderMismatch, "2")
	}
	old := d.as("reader", all)
	old.initialize(t)
	r := old.message(t, "tools/call", add)
	r.Header.Set("Mcp-Name", "whoami")
	resp, text := send(t, r)
	checkRefused(t, "a session", resp, text, message.CodeHeaderMismatch, "2")
	if _, answer := c.call(t, "list_notes", `{}`); string(answer.Result.StructuredContent) != `{"notes":[]}` {
		t.Errorf("notes are now %s", answer.Result.StructuredContent)
	}
}

// A message is JSON in UTF-8, has the right media type, and is not compressed.
func TestContentTypes(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		c := as("reader", "")
		for contentType, want := range map[string]int{
			"application/json": http.StatusOK, "application/json; charset=UTF-8": http.StatusOK,
			"": http.StatusUnsupportedMediaType, "text/plain": http.StatusUnsupportedMediaType,
			"application/x-www-form-urlencoded": http.StatusUnsupportedMediaType, "application/json; charset=utf-16": http.StatusUnsupportedMediaType,
		} {
			r := c.message(t, "tools/list", `{}`)
			r.Header.Set("Content-Type", contentType)
			if resp, text := send(t, r); resp.StatusCode != want {
				t.Errorf("%q: %s %s, want %d", contentType, resp.Status, text, want)
			}
		}
		r := c.message(t, "tools/list", `{}`)
		r.Header.Set("Content-Encoding", "gzip")
		if resp, text := send(t, r); resp.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("compressed: %s %s, want 415", resp.Status, text)
		}
	})
}

// A body that does not arrive occupies a connection for a bounded time, with or without a token;
// a response may take longer.
func TestBodiesAreHurried(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	handler.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
	server := httptest.NewServer(withDeadline(handler, 20*time.Millisecond))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{"/refuse": "401", "/read": "408"} {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", path, length)
			answer, err := io.ReadAll(conn) // ends when the server closes the connection
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
				t.Errorf("%s with %s: %v\n%s", path, length, err, answer)
			}
		}
	}
}

// The deadline ends when the body has arrived: the response may take longer.
func TestAnswersTakeTheirTime(t *testing.T) {
	const within = 500 * time.Millisecond
	slow := withoutDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusRequestTimeout)
		case <-time.After(2 * within):
		}
	}))
	server := httptest.NewServer(withDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		slow.ServeHTTP(w, r)
	}), within))
	defer server.Close()
	resp, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the request was ended: %s", resp.Status)
	}
}

// Clients probe for documents that do not exist. The response is JSON that a page may read.
func TestOtherDocumentsAreNotHere(t *testing.T) {
	d := newDemo(t)
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/mcp",
		"/.well-known/openid-configuration", "/.well-known/oauth-protected-resource/other", "/.well-known/oauth-protected-resource/mcp/", "/.well-known/"} {
		resp, err := http.Get(strings.TrimSuffix(d.resource, "/mcp") + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	d := newDemo(t)
	c := d.as("reader", "notes:write")
	c.modern = true
	resp, _ := c.call(t, "add_note", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", maxBody)))
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a message of more than 1 MiB: %s, want 413", resp.Status)
	}
	for _, text := range []string{"", strings.Repeat("x", maxNoteSize+1)} {
		if _, answer := c.call(t, "add_note", fmt.Sprintf(`{"text":%q}`, text)); !answer.Result.IsError {
			t.Errorf("a note of %d bytes is kept", len(text))
		}
	}
	for n := range maxNotes + 1 {
		if _, answer := c.call(t, "add_note", `{"text":"x"}`); answer.Result.IsError != (n == maxNotes) {
			t.Fatalf("note %d of at most %d: refused is %t", n+1, maxNotes, answer.Result.IsError)
		}
	}
}

// The number of people is bounded as well; those with notes are not affected.
func TestPeopleAreBounded(t *testing.T) {
	book := newNotebook()
	for n := range maxPeople {
		if _, err := book.add(fmt.Sprint(n), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := book.add("one more", "x"); !errors.Is(err, errNoteFull) {
		t.Errorf("one more: %v, want %v", err, errNoteFull)
	}
	if _, err := book.add("0", "y"); err != nil {
		t.Errorf("a known person: %v", err)
	}
}

// server/discover and tools/list return three tools with the missing scopes, the revisions of the
// client's era, and results that are private to the caller.
func TestDiscovery(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		c := as("reader", "")
		_, list := c.do(t, "tools/list", `{}`)
		var names []string
		for _, tool := range list.Result.Tools {
			names = append(names, tool.Name)
			if tool.Meta != nil {
				t.Errorf("%s depends on the token: %v", tool.Name, tool.Meta)
			}
		}
		if got, want := string(list.Result.Meta[middleware.MissingScopesKey]), `{"add_note":["notes:write"],"list_notes":["notes:read"]}`; got != want {
			t.Errorf("the token lacks %s, want %s", got, want)
		}
		if want := []string{"add_note", "list_notes", "whoami"}; !slices.Equal(names, want) {
			t.Errorf("tools are %q, want %q", names, want)
		}
		if !c.modern {
			return
		}
		if list.Result.CacheScope != "private" {
			t.Errorf("the list may be cached by %q, want private", list.Result.CacheScope)
		}
		resp, about := c.do(t, "server/discover", `{}`)
		for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
			if !slices.Contains(about.Result.SupportedVersions, version) {
				t.Errorf("discover: %s, %v lacks %s", resp.Status, about.Result.SupportedVersions, version)
			}
		}
	})
}

// A later revision is refused with the list of the supported ones.
func TestUnknownRevision(t *testing.T) {
	d := newDemo(t)
	r := d.as("reader", "").request(t, http.MethodPost,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	r.Header.Set("Mcp-Protocol-Version", "2027-01-01")
	r.Header.Set("Mcp-Method", "tools/list")
	resp, text := send(t, r)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "-32022") || !strings.Contains(text, "2026-07-28") {
		t.Errorf("%s %s, want 400, code -32022 and the revisions", resp.Status, text)
	}
}

// Behind a proxy, the Host is that of the resource although the connection is on loopback.
func TestHostOfTheResource(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const resource = "https://notes.example.com/mcp"
	server := httptest.NewServer(newTestHandler(t, settings{Resource: resource, Issuer: issuer.URL()}, plainDesk(), nil))
	defer server.Close()
	for host, want := range map[string]int{"notes.example.com": http.StatusOK, "rebound.example.org": http.StatusForbidden} {
		c := caller{resource: server.URL + "/mcp", token: issuer.Mint(middlewaretest.Claims{"aud": resource})}
		r := c.request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		r.Host = host
		if resp, text := send(t, r); resp.StatusCode != want {
			t.Errorf("Host %s: %s %s, want %d", host, resp.Status, text, want)
		}
	}
}
