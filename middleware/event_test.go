package middleware_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// Observe is called once for each decision, and gets no token.
func TestEvents(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var events []middleware.Event
	var logged bytes.Buffer
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Observe = func(_ *http.Request, e middleware.Event) { events = append(events, e) }
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	secret := ""
	for _, tt := range []struct {
		name      string
		r         *http.Request
		status    int
		code      string
		operation middleware.Operation
		needed    string
		subject   string
	}{
		{"let through", post(issuer, "notes:write", callTool("list_notes")), 0, "", middleware.Operation{Method: "tools/call", Name: "list_notes"}, "notes:read", "reader"},
		{"too little", post(issuer, "notes:read", callTool("add_note")), 403, "insufficient_scope", middleware.Operation{Method: "tools/call", Name: "add_note"}, "notes:write", "reader"},
		{"not named", post(issuer, "notes:read", callTool("drop")), 403, "", middleware.Operation{Method: "tools/call", Name: "drop"}, "", "reader"},
		{"no message", post(issuer, "notes:read", "{"), 400, "", middleware.Operation{}, "", "reader"},
		{"no token", post(issuer, "anonymous", callTool("add_note")), 401, "", middleware.Operation{}, "", ""},
		{"bad token", withToken("x.y.z"), 401, "invalid_token", middleware.Operation{}, "", ""},
	} {
		events = nil
		logged.Reset()
		secret = strings.TrimPrefix(tt.r.Header.Get("Authorization"), "Bearer ")
		serve(guard.Protect(&inner{}), tt.r)
		if len(events) != 1 {
			t.Fatalf("%s: %d events", tt.name, len(events))
		}
		e := events[0]
		if e.Status != tt.status || e.Code != tt.code || e.Operation != tt.operation || strings.Join(e.Needed, " ") != tt.needed ||
			(e.Err == nil) != (tt.status == 0) || e.Remote != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%s: %+v", tt.name, e)
		}
		if (e.Token == nil) != (tt.subject == "") || (e.Token != nil && e.Token.Subject != tt.subject) {
			t.Errorf("%s: the token is %+v", tt.name, e.Token)
		}
		if secret != "" && strings.Contains(logged.String(), secret) || !strings.Contains(logged.String(), "decision.status=") {
			t.Errorf("%s: the log says %s", tt.name, &logged)
		}
	}
}

func TestRemoteAddresses(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var remote netip.Addr
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
		c.Observe = func(_ *http.Request, e middleware.Event) { remote = e.Remote }
	})
	for _, tt := range []struct {
		peer string
		hops []string
		want string
	}{
		{"192.0.2.7:4711", nil, "192.0.2.7"},
		{"192.0.2.7:4711", []string{"198.51.100.1"}, "192.0.2.7"},
		{"10.1.1.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.1.1.1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.1.1.1:1", []string{"203.0.113.9, 198.51.100.1 ,10.2.2.2"}, "198.51.100.1"},
		{"10.1.1.1:1", []string{"::ffff:198.51.100.1, ::ffff:10.2.2.2"}, "198.51.100.1"},
		{"10.1.1.1:1", []string{"203.0.113.9", "198.51.100.1, 2001:db8::1"}, "198.51.100.1"},
		{"10.1.1.1:1", []string{"198.51.100.1, garbage"}, "10.1.1.1"},
		{"10.1.1.1:1", nil, "10.1.1.1"},
		{"@", []string{"198.51.100.1"}, "invalid IP"},
	} {
		r := newRequest("GET", resource)
		r.RemoteAddr = tt.peer
		if tt.hops != nil {
			r.Header["X-Forwarded-For"] = tt.hops
		}
		serve(guard.Protect(&inner{}), r)
		if remote.String() != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.peer, tt.hops, remote, tt.want)
		}
	}
}

// On loopback, X-Forwarded-Host counts from a trusted proxy only.
func TestForwardedHost(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Resource = "http://127.0.0.1:8081/mcp"
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	for _, tt := range []struct {
		peer, host string
		forwarded  []string
		status     int
	}{
		{"10.1.1.1:1", "inside.example", []string{"127.0.0.1:8081"}, 401},
		{"10.1.1.1:1", "127.0.0.1:8081", []string{"attacker.example.org"}, 403},
		{"192.0.2.1:1", "attacker.example.org", []string{"127.0.0.1:8081"}, 403},
		{"192.0.2.1:1", "127.0.0.1:8081", []string{"attacker.example.org"}, 401},
		{"10.1.1.1:1", "attacker.example.org", []string{"127.0.0.1:8081", "127.0.0.1:8081"}, 403},
	} {
		r := newRequest("POST", "http://127.0.0.1:8081/mcp")
		r.RemoteAddr, r.Host, r.Header["X-Forwarded-Host"] = tt.peer, tt.host, tt.forwarded
		if res := serve(guard.Protect(&inner{}), r); res.StatusCode != tt.status {
			t.Errorf("%s %s %q: %s, want %d", tt.peer, tt.host, tt.forwarded, res.Status, tt.status)
		}
	}
}

// With EndStreams, a stream ends when its token is not accepted any more, and not before.
func TestStreamsEndWithTheToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "exp": time.Now().Add(time.Minute).Unix()})
	expiry := passes(t, newGuard(t, issuer), withToken(token)).Expiry
	for _, ends := range []bool{true, false} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams = ends })
		passes(t, guard, withToken(token)) // the keys are known
		var until time.Time
		var bounded bool
		serve(guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			until, bounded = r.Context().Deadline()
		})), withToken(token))
		if end := expiry.Add(10 * time.Second); bounded != ends || (ends && until.Sub(end).Abs() > time.Second) {
			t.Errorf("%v: the context ends at %v, %v; the token at %v", ends, until, bounded, expiry)
		}
	}
}

// A stream that ends with its token begins with an event that has an id, so that clients resume
// it. The handler never gets that id, and gets every other one.
func TestStreamsBeginWithAnEvent(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource})
	const event = "id: 7\ndata: {}\n\n"
	seen := ""
	handler := func(contentType string, status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Get("Last-Event-ID")
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, event)
		})
	}
	begins := func(body string) (id string, ok bool) {
		rest, primed := strings.CutPrefix(body, "id: ")
		id, rest, cut := strings.Cut(rest, "\ndata:\n\n")
		return id, primed && cut && rest == event
	}
	ends := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams, c.InsecureUnboundSessions = true, true })
	lists := newGuard(t, issuer, func(c *middleware.Config) {
		c.EndStreams, c.InsecureUnboundSessions, c.Policy = true, true, middleware.Policy{Tools: map[string][]string{"*": nil}}
	})
	last := ""
	for _, guard := range []*middleware.Guard{ends, ends, lists} {
		r := newRequest("GET", resource, "Authorization", "Bearer "+token, "Last-Event-ID", last)
		w := httptest.NewRecorder()
		guard.Protect(handler("text/event-stream; charset=utf-8", 200)).ServeHTTP(w, r)
		id, ok := begins(w.Body.String())
		if !ok && guard == ends || id == last || seen != "" {
			t.Errorf("the stream is %q after %q, the handler saw the id %q", w.Body, last, seen)
		}
		last = id
	}
	for name, tt := range map[string]struct {
		guard   *middleware.Guard
		handler http.Handler
		method  string
	}{
		"streams do not end": {newGuard(t, issuer, func(c *middleware.Config) { c.InsecureUnboundSessions = true }), handler("text/event-stream", 200), "GET"},
		"no stream":          {ends, handler("application/json", 200), "GET"},
		"an error":           {ends, handler("text/event-stream", 404), "GET"},
		"the answer to POST": {ends, handler("text/event-stream", 200), "POST"},
	} {
		w := httptest.NewRecorder()
		tt.guard.Protect(tt.handler).ServeHTTP(w, newRequest(tt.method, resource, "Authorization", "Bearer "+token, "Last-Event-ID", "7"))
		if w.Body.String() != event || seen != "7" {
			t.Errorf("%s: %q, the handler saw the id %q", name, w.Body, seen)
		}
	}
}

// Within the leeway for clocks, the context of a request does not end before it begins.
func TestStreamOfALateToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams = true })
	late := issuer.Mint(claims{"aud": resource, "exp": time.Now().Add(-4 * time.Second).Unix()})
	serve(guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.Context().Err(); err != nil {
			t.Errorf("the context has ended: %v", err)
		}
	})), withToken(late))
}

func TestStreamsReallyEnd(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	now := time.Now()
	token := issuer.Mint(claims{"aud": resource, "exp": now.Add(time.Minute).Unix()})
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams, c.Now = true, func() time.Time { return now } })
	passes(t, guard, withToken(token)) // the keys are fetched outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if err := context.Cause(r.Context()); err != context.DeadlineExceeded {
				t.Errorf("the stream ended because of %v", err)
			}
		})).ServeHTTP(httptest.NewRecorder(), withToken(token))
		if lasted := time.Since(began); lasted < 68*time.Second || lasted > 71*time.Second {
			t.Errorf("the stream lasted %s of 70 s", lasted)
		}
	})
}

// TestEventsOfAGuardBehindAnother: a stream through two guards is resumed where it ended, by the id of
// an event of the handler and of either guard's own, whatever the ids look like.
func TestEventsOfAGuardBehindAnother(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	outer, inner := issuer.Mint(claims{"aud": resource}), issuer.Mint(claims{"aud": resource, "sub": "the one in front"})
	for name, change := range map[string]func(*middleware.Config){
		"bound":     func(c *middleware.Config) { c.EndStreams = true },
		"unbound":   func(c *middleware.Config) { c.EndStreams, c.InsecureUnboundSessions = true, true },
		"not ended": func(*middleware.Config) {},
	} {
		seen, events := "", ""
		behind := newGuard(t, issuer, func(c *middleware.Config) { c.EndStreams = true }).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Get("Last-Event-ID")
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events)
		}))
		front := newGuard(t, issuer, change).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+inner)
			behind.ServeHTTP(w, r)
		}))
		last := ""
		for i, want := range []string{"", "", "7", "7", "7", "gatehouse-8-9", "gatehouse-8-9"} {
			events = map[int]string{1: "id: 7\ndata: {}\n\n", 4: "id: gatehouse-8-9\ndata: {}\n\n"}[i]
			w := httptest.NewRecorder()
			front.ServeHTTP(w, newRequest("GET", resource, "Authorization", "Bearer "+outer, "MCP-Protocol-Version", "2025-11-25", "Last-Event-ID", last))
			if w.Code != http.StatusOK || seen != want {
				t.Errorf("%s: stream %d after %q: %d %s, the handler saw the id %q, want %q", name, i, last, w.Code, w.Body, seen, want)
			}
			for line := range strings.Lines(w.Body.String()) {
				if id, ok := strings.CutPrefix(line, "id: "); ok {
					last = strings.TrimSpace(id)
				}
			}
		}
	}
}

// TestEventsOfAnyStream: an event that the handler sends in any answer is the one that it gets back,
// also if its id looks like that of the guard's own, whether ids are bound and streams end or not.
func TestEventsOfAnyStream(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "scope": "notes:read"})
	for name, change := range map[string]func(*middleware.Config){
		"bound":              func(*middleware.Config) {},
		"bound and ended":    func(c *middleware.Config) { c.EndStreams = true },
		"unbound":            func(c *middleware.Config) { c.InsecureUnboundSessions = true },
		"unbound and ended":  func(c *middleware.Config) { c.InsecureUnboundSessions, c.EndStreams = true, true },
		"unbound with lists": func(c *middleware.Config) { c.InsecureUnboundSessions, c.Policy = true, notesPolicy() },
	} {
		const id = "gatehouse-8-9"
		seen := ""
		guard := newGuard(t, issuer, change).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Get("Last-Event-ID")
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: "+id+"\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		}))
		for _, first := range []*http.Request{
			withToken(token),
			post(issuer, "notes:read", `{"jsonrpc":"2.0","id":1,"method":"ping"}`),
			post(issuer, "notes:read", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
		} {
			w := httptest.NewRecorder()
			guard.ServeHTTP(w, first)
			last := ""
			for line := range strings.Lines(w.Body.String()) {
				if id, ok := strings.CutPrefix(line, "id: "); ok {
					last = strings.TrimSpace(id)
				}
			}
			guard.ServeHTTP(httptest.NewRecorder(), newRequest("GET", resource, "Authorization", "Bearer "+token, "MCP-Protocol-Version", "2025-11-25", "Last-Event-ID", last))
			if seen != id {
				t.Errorf("%s: after %s the event %q was %q for the handler", name, first.Method, last, seen)
			}
		}
	}
}
