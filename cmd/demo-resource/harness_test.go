package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/message"
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

// newTestHandler returns the handler that run serves, with an adjusted guard.
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

// as returns a caller with a token for a person and scopes.
func (d demo) as(person, scopes string) *caller {
	return &caller{resource: d.resource, token: d.issuer.Mint(middlewaretest.Claims{"aud": d.resource, "sub": person, "scope": scopes})}
}

// caller is a client over plain HTTP: with a session once it has initialized one, and stateless
// if modern is set.
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

// send sends a request and returns the response and the message in it: the data of the last event
// of a stream, or the body.
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

// listedTool has the members of a listed tool that the tests check.
type listedTool struct {
	Name string       `json:"name"`
	Meta message.Meta `json:"_meta"`
}

// result has the members of a response that the tests check.
type result struct {
	Result struct {
		IsError           bool            `json:"isError"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		CacheScope        string          `json:"cacheScope"`
		Meta              message.Meta    `json:"_meta"`
		SupportedVersions []string        `json:"supportedVersions"`
		Tools             []listedTool    `json:"tools"`
	} `json:"result"`
	Error struct {
		Code int `json:"code"`
	} `json:"error"`
}

// message returns a request with a new id.
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

// plainDesk returns a desk without an archive.
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
