package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/message"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// newWatchedDemo returns a demo and its memory of ids.
func newWatchedDemo(t *testing.T) (demo, *sessions) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	issuer := middlewaretest.NewIssuer(t)
	listening := httptest.NewUnstartedServer(nil)
	s := settings{Resource: "http://" + listening.Listener.Addr().String() + "/mcp", Issuer: issuer.URL()}
	d := plainDesk()
	guard, err := middleware.New(s.guardConfig(d.needs(), log))
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(d)
	ids := newSessions(server, log)
	if listening.Config.Handler, err = newHandler(guard, s.Resource, newEndpoint(server, ids, log)); err != nil {
		t.Fatal(err)
	}
	listening.Start()
	t.Cleanup(func() {
		listening.CloseClientConnections()
		listening.Close()
	})
	return demo{issuer: issuer, resource: s.Resource}, ids
}

// ask sends a request with an id and returns the status of the response.
func (c *caller) ask(t *testing.T, id string) (*http.Response, string) {
	t.Helper()
	c.nextID = id
	defer func() { c.nextID = "" }()
	return c.post(t, "tools/call", `{"name":"whoami","arguments":{}}`)
}

// A requester may use an id once in a session, including the id of initialize. Other sessions
// have ids of their own.
func TestIDsAreUsedOnceInASession(t *testing.T) {
	d := newDemo(t)
	c, other := d.as("reader", ""), d.as("reader", "")
	c.initialize(t)
	other.initialize(t)
	for _, id := range []string{"2", "3", "0", "-1", "77", `"2"`, `"a"`, `""`} {
		for _, c := range []*caller{c, other} {
			if resp, text := c.ask(t, id); resp.StatusCode != http.StatusOK {
				t.Errorf("id %s: %s %s", id, resp.Status, text)
			}
		}
	}
	for _, id := range []string{"1", "2", "77", `"2"`, `"a"`, `""`, `"\u0061"`} {
		resp, text := c.ask(t, id)
		checkRefused(t, "again "+id, resp, text, message.CodeInvalidRequest, strings.ReplaceAll(id, `\u0061`, "a"))
		if !strings.Contains(text, "used before in this session") {
			t.Errorf("again %s: %s does not say why", id, text)
		}
	}
	for range 2 { // no ids: they are never the same
		resp, text := send(t, c.request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("a notification: %s %s", resp.Status, text)
		}
	}
	if resp, text := c.ask(t, "78"); resp.StatusCode != http.StatusOK {
		t.Errorf("a new id: %s %s", resp.Status, text)
	}
}

// From 2026-07-28 on, an id may be used again after the response.
func TestIDsComeAgainWithoutSessions(t *testing.T) {
	c := newDemo(t).as("reader", "")
	c.modern = true
	for range 3 {
		if resp, text := c.ask(t, "7"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s", resp.Status, text)
		}
	}
}

// The id of a request that the guard refused is not recorded: a client may repeat the request
// with a token that covers it.
func TestRefusedRequestsUseNoIDs(t *testing.T) {
	d := newDemo(t)
	c := d.as("reader", "notes:read")
	c.initialize(t)
	c.nextID = "5"
	resp, _ := c.call(t, "add_note", `{"text":"milk"}`)
	checkInsufficient(t, d, resp, "add_note", "notes:write")
	c.token = "nonsense"
	if resp, _ := c.call(t, "add_note", `{"text":"milk"}`); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a token that is none: %s", resp.Status)
	}
	c.token = d.as("reader", "notes:read notes:write").token
	if resp, answer := c.call(t, "add_note", `{"text":"milk"}`); resp.StatusCode != http.StatusOK || answer.Result.IsError {
		t.Errorf("the same request with a better token: %s %+v", resp.Status, answer)
	}
}

// Another caller with the id of a session can neither use up its request ids nor find out which
// were used.
func TestOthersUseNoIDs(t *testing.T) {
	d := newDemo(t)
	owner, intruder := d.as("reader", ""), d.as("writer", "")
	owner.initialize(t)
	intruder.session = owner.session
	for _, id := range []string{"1", "9"} {
		if resp, text := intruder.ask(t, id); resp.StatusCode != http.StatusForbidden {
			t.Errorf("id %s of another caller: %s %s, want 403", id, resp.Status, text)
		}
	}
	if resp, text := owner.ask(t, "9"); resp.StatusCode != http.StatusOK {
		t.Errorf("the owner: %s %s", resp.Status, text)
	}
	owner.session = "NOSUCHSESSION"
	for range 2 {
		if resp, text := owner.ask(t, "10"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a session that is not there: %s %s, want 404", resp.Status, text)
		}
	}
}

// The record of a session is deleted with the session, and requests that begin none leave no
// record.
func TestEndedSessionsAreForgotten(t *testing.T) {
	d, ids := newWatchedDemo(t)
	known := func() int {
		ids.mu.Lock()
		defer ids.mu.Unlock()
		return len(ids.ids)
	}
	first, second := d.as("reader", ""), d.as("writer", "")
	first.initialize(t)
	second.initialize(t)
	lost := d.as("reader", "")
	for _, method := range []string{"ping", "tools/list", "nonsense"} {
		lost.post(t, method, `{}`)
	}
	if n := known(); n != 2 {
		t.Errorf("%d sessions are known, want 2", n)
	}
	if resp, text := send(t, first.request(t, http.MethodDelete, "")); resp.StatusCode != http.StatusNoContent {
		t.Errorf("ending a session: %s %s", resp.Status, text)
	}
	for deadline := time.Now().Add(patience); known() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are known, want 1", known())
		}
	}
	if resp, text := second.ask(t, "2"); resp.StatusCode != http.StatusOK {
		t.Errorf("the other session: %s %s", resp.Status, text)
	}
}

// The memory is bounded, in a session and in the number of sessions. Existing sessions and
// clients without sessions are not affected.
func TestRememberedIDsAreBounded(t *testing.T) {
	d, ids := newWatchedDemo(t)
	c, modern := d.as("reader", ""), d.as("reader", "")
	c.initialize(t)
	modern.modern = true
	key := session{d.issuer.URL() + "|reader", c.session}
	if found := ids.find(key); found == nil || found.Max != maxIDs {
		t.Fatalf("the session remembers %+v", found)
	}
	for n := range maxSessions {
		ids.set(session{"somebody", fmt.Sprint(n)}, &message.SessionIDs{})
	}
	r := d.as("writer", "").request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if resp, text := send(t, r); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, `"id":1`) {
		t.Errorf("one session more: %s %s, want 503", resp.Status, text)
	}
	for name, c := range map[string]*caller{"a session that is there": c, "without sessions": modern} {
		if resp, text := c.ask(t, "2"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
	}
	ids.set(key, &message.SessionIDs{Max: 1})
	c.ask(t, "10")
	resp, text := c.ask(t, "12")
	checkRefused(t, "one id more", resp, text, message.CodeInvalidRequest, "12")
}
