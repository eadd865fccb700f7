package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/message"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// demo is the handler behind a listener, and the issuer that it trusts.
type demo struct {
	issuer   *middlewaretest.Issuer
	resource string
}

func newDemo(t *testing.T) demo {
	t.Helper()
	return newDemoWith(t, plainDesk(), nil)
}

func newDemoWith(t *testing.T, d desk, adjust func(*middleware.Config)) demo {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	server := httptest.NewUnstartedServer(nil)
	resource := "http://" + server.Listener.Addr().String() + "/mcp"
	server.Config.Handler = newTestHandler(t, settings{Resource: resource, Issuer: issuer.URL()}, d, adjust)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return demo{issuer: issuer, resource: resource}
}

// newTestHandler is what run serves, with a guard that is adjusted if need be.
func newTestHandler(t *testing.T, s settings, d desk, adjust func(*middleware.Config)) http.Handler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	handler, err := s.handler(d, log)
	if adjust != nil {
		config := s.guardConfig(d.needs(), log)
		adjust(&config)
		var guard *middleware.Guard
		if guard, err = middleware.New(config); err == nil {
			server := newServer(d)
			handler, err = newHandler(guard, s.Resource, newEndpoint(server, newSessions(server, log), log))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// as returns a caller with a token of its own.
func (d demo) as(person, scopes string) *caller {
	return &caller{resource: d.resource, token: d.issuer.Mint(middlewaretest.Claims{"aud": d.resource, "sub": person, "scope": scopes})}
}

// caller speaks the protocol over plain HTTP: with a session once it has initialized one,
// and statelessly when modern says so.
type caller struct {
	resource, token, session string
	modern                   bool
	revision                 string // of the session, unless it is 2025-11-25
	nextID                   string // instead of the next number
	ids                      int
}

func (c *caller) request(t *testing.T, method, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.resource, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", cmp.Or(c.revision, "2025-11-25"))
	}
	return r
}

// send sends a message and returns the status, the header and what came back: the last
// event of a stream, or the body.
func send(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	client := http.Client{Timeout: patience} // a stream that should not have been opened never ends
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(raw))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(text) {
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				text = data
			}
		}
	}
	return resp, strings.TrimSpace(text)
}

func (c *caller) initialize(t *testing.T) {
	t.Helper()
	version := fmt.Sprintf(`"protocolVersion":%q`, cmp.Or(c.revision, "2025-11-25"))
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + version + `,"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	resp, text := send(t, c.request(t, http.MethodPost, hello))
	if resp.StatusCode != http.StatusOK || !strings.Contains(text, version) {
		t.Fatalf("initialize: %s %s", resp.Status, text)
	}
	if c.session = resp.Header.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatal("initialize: no session")
	}
	if resp, text := send(t, c.request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: %s %s", resp.Status, text)
	}
}

// listedTool is the part of a tool in the list that the tests look at.
type listedTool struct {
	Name string       `json:"name"`
	Meta message.Meta `json:"_meta"`
}

// result is the part of an answer that the tests look at.
type result struct {
	Result struct {
		IsError           bool            `json:"isError"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		CacheScope        string          `json:"cacheScope"`
		SupportedVersions []string        `json:"supportedVersions"`
		Tools             []listedTool    `json:"tools"`
	} `json:"result"`
	Error struct {
		Code int `json:"code"`
	} `json:"error"`
}

// message makes a request with an id of its own.
func (c *caller) message(t *testing.T, method, params string) *http.Request {
	t.Helper()
	if c.modern {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}`
		params = strings.TrimSuffix(params, "}") + map[bool]string{true: "", false: ","}[params == "{}"] + meta + "}"
	}
	c.ids++
	id := fmt.Sprint(c.ids + 1) // 1 is that of initialize
	if c.nextID != "" {
		id = c.nextID
	}
	r := c.request(t, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	if c.modern {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", method)
		var named struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(params), &named); err != nil {
			t.Fatal(err)
		}
		if named.Name != "" {
			r.Header.Set("Mcp-Name", named.Name)
		}
	}
	return r
}

// post sends a request and returns its HTTP response and the message in it.
func (c *caller) post(t *testing.T, method, params string) (*http.Response, string) {
	t.Helper()
	return send(t, c.message(t, method, params))
}

// do sends a request and returns its HTTP response and its result.
func (c *caller) do(t *testing.T, method, params string) (*http.Response, result) {
	t.Helper()
	resp, text := c.post(t, method, params)
	var out result
	_ = json.Unmarshal([]byte(text), &out) // some refusals are not JSON-RPC
	return resp, out
}

func (c *caller) call(t *testing.T, tool, arguments string) (*http.Response, result) {
	t.Helper()
	return c.do(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// plainDesk is a desk of a demo without an archive.
func plainDesk() desk { return desk{notes: newNotebook(), caller: callerOf} }

// eachEra runs a test for clients of both eras.
func eachEra(t *testing.T, test func(t *testing.T, d demo, as func(person, scopes string) *caller)) {
	t.Helper()
	eachEraAt(t, plainDesk, test)
}

// eachEraAt runs a test for clients of both eras, with a desk each.
func eachEraAt(t *testing.T, at func() desk, test func(t *testing.T, d demo, as func(person, scopes string) *caller)) {
	t.Helper()
	for _, modern := range []bool{true, false} {
		t.Run(map[bool]string{true: "stateless", false: "sessions"}[modern], func(t *testing.T) {
			d := newDemoWith(t, at(), nil)
			test(t, d, func(person, scopes string) *caller {
				c := d.as(person, scopes)
				c.modern = modern
				if !modern {
					c.initialize(t)
				}
				return c
			})
		})
	}
}

// A tool answers when the token covers it. Otherwise the refusal is one of HTTP, with a
// challenge that says what the tool needs, so that clients step up.
func TestToolsNeedTheirScopes(t *testing.T) {
	tests := []struct {
		scopes, tool, arguments string
		missing                 string
	}{
		{"", "whoami", `{}`, ""},
		{"notes:read notes:write", "whoami", `{}`, ""},
		{"notes:read", "list_notes", `{}`, ""},
		{"notes:write", "add_note", `{"text":"milk"}`, ""},
		{"", "list_notes", `{}`, "notes:read"},
		{"notes:write", "list_notes", `{}`, "notes:read"},
		{"notes:reader notes", "list_notes", `{}`, "notes:read"},
		{"", "add_note", `{"text":"milk"}`, "notes:write"},
		{"notes:read", "add_note", `{"text":"milk"}`, "notes:write"},
		{"NOTES:WRITE", "add_note", `{"text":"milk"}`, "notes:write"},
		{"notes:read", "add_note", `{}`, "notes:write"},
	}
	eachEra(t, func(t *testing.T, d demo, as func(string, string) *caller) {
		for _, test := range tests {
			resp, answer := as("reader", test.scopes).call(t, test.tool, test.arguments)
			if test.missing == "" {
				if resp.StatusCode != http.StatusOK || answer.Result.IsError || answer.Result.StructuredContent == nil {
					t.Errorf("%s with %q: %s %+v", test.tool, test.scopes, resp.Status, answer)
				}
				continue
			}
			checkInsufficient(t, d, resp, test.tool, test.missing)
		}
	})
}

// What the policy does not name is there for nobody, whatever the token covers. No token
// would help, so there is no challenge.
func TestOtherToolsAreForNobody(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		for _, tool := range []string{"archive_notes", "WHOAMI", "whoami2", "who", "*"} {
			resp, _ := as("reader", "notes:read notes:write").call(t, tool, `{}`)
			if resp.StatusCode != http.StatusForbidden || resp.Header["Www-Authenticate"] != nil {
				t.Errorf("%q: %s %q, want 403 without a challenge", tool, resp.Status, resp.Header["Www-Authenticate"])
			}
		}
	})
}

// The tools do not rely on the guard: where its policy lets everything through, they still
// run only for a token that covers them.
func TestToolsCheckThemselves(t *testing.T) {
	d := newDemoWith(t, plainDesk(), func(c *middleware.Config) { c.Policy = middleware.Policy{} })
	for scopes, tool := range map[string]string{"": "list_notes", "notes:write": "list_notes", "notes:read": "add_note"} {
		c := d.as("reader", scopes)
		c.modern = true
		if resp, answer := c.call(t, tool, `{"text":"milk"}`); resp.StatusCode != http.StatusOK || !answer.Result.IsError {
			t.Errorf("%s with %q: %s %+v, want an error of the tool", tool, scopes, resp.Status, answer)
		}
	}
	nobody := desk{notes: newNotebook(), caller: func(*mcp.CallToolRequest) *middleware.Token { return nil }}
	c := newDemoWith(t, nobody, nil).as("reader", "notes:read notes:write")
	c.modern = true
	for _, tool := range []string{"whoami", "list_notes", "add_note"} {
		if resp, answer := c.call(t, tool, `{}`); resp.StatusCode != http.StatusOK || !answer.Result.IsError {
			t.Errorf("%s for nobody: %s %+v, want an error of the tool", tool, resp.Status, answer)
		}
	}
}

func checkInsufficient(t *testing.T, d demo, resp *http.Response, tool, missing string) {
	t.Helper()
	challenges, err := metadata.ParseChallenges(resp.Header["Www-Authenticate"])
	if resp.StatusCode != http.StatusForbidden || err != nil || len(challenges) != 1 {
		t.Errorf("%s: %s %q %v, want 403 and one challenge", tool, resp.Status, resp.Header["Www-Authenticate"], err)
		return
	}
	meta, err := metadata.ResourceMetadataURL(d.resource)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"error": "insufficient_scope", "scope": missing, "resource_metadata": meta} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%s: the challenge has %s=%q, want %q", tool, name, got, want)
		}
	}
}

// Whatever a message looks like, a tool that the token does not cover does not run: what
// the look at the message does not recognise, the tool refuses itself.
func TestScopesCannotBeEvaded(t *testing.T) {
	const inner = `"arguments":{"text":"stolen"}`
	messages := map[string]string{
		"another case first":  `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"Name":"whoami","name":"add_note",` + inner + `}}`,
		"another case last":   `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","NAME":"whoami",` + inner + `}}`,
		"name twice":          `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","name":"add_note",` + inner + `}}`,
		"name twice, swapped": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","name":"whoami",` + inner + `}}`,
		"method twice":        `{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"params twice":        `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami"},"params":{"name":"add_note",` + inner + `}}`,
		"escaped name":        `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"n\u0061me":"add\u005fnote",` + inner + `}}`,
		"escaped method":      `{"jsonrpc":"2.0","id":2,"method":"tools\/call","params":{"name":"add_note",` + inner + `}}`,
		"batch":               `[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}]`,
		"notification":        `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"deep arguments":      `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,` + inner + `}}`,
		"two messages":        `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"white space":         "\n\t" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}` + "\n",
	}
	for name, message := range messages {
		t.Run(name, func(t *testing.T) {
			d := newDemo(t)
			session := d.as("reader", "notes:read")
			session.initialize(t)
			for _, version := range []string{"", "2025-06-18", "2026-07-28", "2027-01-01"} {
				r := session.request(t, http.MethodPost, message)
				r.Header.Del("Mcp-Protocol-Version")
				if version != "" {
					r.Header.Set("Mcp-Protocol-Version", version)
				}
				send(t, r)
			}
			_, answer := session.call(t, "list_notes", `{}`)
			if got := string(answer.Result.StructuredContent); got != `{"notes":[]}` {
				t.Errorf("notes are now %s", got)
			}
		})
	}
}

func TestEachPersonHasTheirOwnNotes(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		const all = "notes:read notes:write"
		for _, text := range []string{"milk", "bread"} {
			if _, answer := as("reader", all).call(t, "add_note", fmt.Sprintf(`{"text":%q}`, text)); answer.Result.IsError {
				t.Errorf("add_note %s: %+v", text, answer)
			}
		}
		for person, want := range map[string]string{"reader": `{"notes":["milk","bread"]}`, "writer": `{"notes":[]}`} {
			if _, answer := as(person, all).call(t, "list_notes", `{}`); string(answer.Result.StructuredContent) != want {
				t.Errorf("notes of %s are %s, want %s", person, answer.Result.StructuredContent, want)
			}
		}
	})
}

func TestWhoami(t *testing.T) {
	eachEra(t, func(t *testing.T, d demo, as func(string, string) *caller) {
		_, answer := as("reader", "notes:write profile").call(t, "whoami", `{}`)
		want := fmt.Sprintf(`{"client_id":"client","issuer":%q,"scopes":["notes:write","profile"],"subject":"reader"}`, d.issuer.URL())
		if got := string(answer.Result.StructuredContent); got != want {
			t.Errorf("whoami = %s, want %s", got, want)
		}
	})
}

// Each request in a session speaks for its own token: another person may not enter, and
// the same person with a lesser token can do less.
func TestSessionsBelongToAPerson(t *testing.T) {
	d := newDemo(t)
	reader := d.as("reader", "notes:read notes:write")
	reader.initialize(t)
	other := func(claims middlewaretest.Claims) *caller {
		claims["aud"] = d.resource
		return &caller{resource: d.resource, session: reader.session, token: d.issuer.Mint(claims)}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		intruder := other(middlewaretest.Claims{"sub": "writer", "scope": "notes:read"})
		resp, _ := send(t, intruder.request(t, method, `{"jsonrpc":"2.0","id":2,"method":"ping"}`))
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s by another person: %s, want 403", method, resp.Status)
		}
	}
	lesser := other(middlewaretest.Claims{"sub": "reader", "scope": "notes:read", "client_id": "reader"})
	resp, _ := lesser.call(t, "add_note", `{"text":"milk"}`)
	checkInsufficient(t, d, resp, "add_note", "notes:write")
	if _, answer := lesser.call(t, "whoami", `{}`); !strings.Contains(string(answer.Result.StructuredContent), `"client_id":"reader"`) {
		t.Errorf("whoami = %s, want the client of this request", answer.Result.StructuredContent)
	}
	if resp, _ := reader.call(t, "add_note", `{"text":"milk"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("the owner of the session: %s", resp.Status)
	}
}

// Without a token nothing is looked at, whatever the request is.
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

// What two readers could understand differently goes no further, and the answer is one of
// the protocol that has the id if it can be read.
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

// checkRefused wants a message of the protocol with status 400, a code, and an id or none.
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

// An id comes back as it was sent.
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

// From 2026-07-28 on headers repeat the message. Where they say something else, or
// nothing, nobody acts on either.
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

// A message is JSON in UTF-8, said so, and not compressed.
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

// A body that does not arrive holds a connection for a bounded time, with a token or
// without one; an answer may take longer than that.
func TestBodiesAreHurried(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	handler.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
	server := httptest.NewServer(hurried(handler, 20*time.Millisecond))
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

// What has arrived is not hurried any more: the answer may take its time.
func TestAnswersTakeTheirTime(t *testing.T) {
	const within = 500 * time.Millisecond
	slow := arrived(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusRequestTimeout)
		case <-time.After(2 * within):
		}
	}))
	server := httptest.NewServer(hurried(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// Clients probe for documents that are not here. The answer is JSON that a page may read.
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

// The number of people is bounded as well; those who are known go on.
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

// What the server says about itself: three tools, with what a token lacks for them, the
// revisions of its era, and answers that are for nobody else.
func TestDiscovery(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		c := as("reader", "")
		_, list := c.do(t, "tools/list", `{}`)
		var names []string
		for _, tool := range list.Result.Tools {
			names = append(names, tool.Name)
			want := map[string]string{"list_notes": `["notes:read"]`, "add_note": `["notes:write"]`}[tool.Name]
			if got := string(tool.Meta[middleware.MissingScopesKey]); got != want {
				t.Errorf("%s says that the token lacks %s, want %s", tool.Name, got, want)
			}
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

// A revision after ours is refused with the list of those that are spoken.
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

// Behind a proxy the Host is that of the resource, though the connection is on loopback.
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
