package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

type spanKey struct{}

// spans records what hooks see, and which span the requests to the issuer are in.
type spans struct {
	mu     sync.Mutex
	begun  []string
	failed []bool
	within []string
}

// hook returns a hook that puts its name into the context.
func (s *spans) hook(name string) middleware.Hook {
	return func(ctx context.Context, issuer string) (context.Context, func(error)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		outer, _ := ctx.Value(spanKey{}).(string)
		s.begun = append(s.begun, outer+">"+name+" "+issuer)
		return context.WithValue(ctx, spanKey{}, outer+">"+name), func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = append(s.failed, err != nil)
		}
	}
}

// RoundTrip is the transport to the issuer.
func (s *spans) RoundTrip(r *http.Request) (*http.Response, error) {
	in, _ := r.Context().Value(spanKey{}).(string)
	s.mu.Lock()
	s.within = append(s.within, in)
	s.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

func (s *spans) watch(c *middleware.Config) {
	c.ObserveKeyFetch, c.ObserveIntrospection = s.hook("keys"), s.hook("introspection")
	c.Client = &http.Client{Transport: s}
}

// TestHooksSeeRequestsToIssuers: a hook is called for each fetch and each lookup, and none for what
// is cached; spans nest from the request to the connection.
func TestHooksSeeRequestsToIssuers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	seen := &spans{}
	clock := newClock()
	guard := newGuard(t, issuer, seen.watch, introspects(issuer), func(c *middleware.Config) { c.Now = clock.Now })
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), spanKey{}, "request"))
	defer cancel()
	token := issuer.Mint(claims{"aud": resource})
	for range 2 {
		if _, err := guard.Verify(ctx, token); err != nil {
			t.Fatal(err)
		}
	}
	name := " " + issuer.URL()
	if got, want := strings.Join(seen.begun, ", "), "request>keys"+name+", request>introspection"+name; got != want {
		t.Errorf("hooks: %s, want %s", got, want)
	}
	for _, in := range seen.within {
		if in != "request>keys" && in != "request>introspection" {
			t.Errorf("a request to the issuer in the span %q", in)
		}
	}
	revoked := issuer.Mint(claims{"aud": resource})
	issuer.Revoke(revoked)
	if _, err := guard.Verify(ctx, revoked); err == nil {
		t.Error("a revoked token is accepted")
	}
	issuer.SetDown(true)
	clock.Advance(time.Hour)
	if _, err := guard.Verify(ctx, issuer.Mint(claims{"aud": resource, "exp": clock.Now().Add(time.Hour).Unix(), "iat": clock.Now().Unix()})); err == nil {
		t.Error("a token is accepted without its issuer")
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.failed) != 5 && len(seen.failed) != 4 { // keys, introspection, revoked; then keys, and the lookup with old keys
		t.Fatalf("%v", seen.failed)
	}
	for i, failed := range seen.failed {
		if failed != (i > 2) {
			t.Errorf("work %d failed: %t of %v", i, failed, seen.failed)
		}
	}
}

// TestHooksThatPanicOpenNothing: with hooks that panic at any point, or return nothing, good tokens
// pass, bad ones do not, and the log says so.
func TestHooksThatPanicOpenNothing(t *testing.T) {
	for name, hook := range map[string]middleware.Hook{
		"at the begin": func(context.Context, string) (context.Context, func(error)) { panic("hook") },
		"at the end": func(ctx context.Context, _ string) (context.Context, func(error)) {
			return ctx, func(error) { panic("hook") }
		},
		"nothing": func(context.Context, string) (context.Context, func(error)) { return nil, nil },
	} {
		issuer := middlewaretest.NewIssuer(t)
		var log lockedBuffer
		guard := newGuard(t, issuer, introspects(issuer, func(i *middleware.Introspection) { i.Opaque = true }), func(c *middleware.Config) {
			c.ObserveKeyFetch, c.ObserveIntrospection, c.Logger = hook, hook, slog.New(slog.NewTextHandler(&log, nil))
		})
		for _, broken := range issuer.Broken(resource) {
			if _, err := guard.Verify(t.Context(), broken.Token); err == nil {
				t.Errorf("%s: %s is accepted", name, broken.Name)
			}
		}
		for _, good := range []string{issuer.Mint(claims{"aud": resource}), issuer.MintOpaque(claims{"aud": resource})} {
			if _, err := guard.Verify(t.Context(), good); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if panicked := strings.Contains(log.String(), "a hook panicked"); panicked != (name != "nothing") {
			t.Errorf("%s: the log says %s", name, log.String())
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestObserveThatPanicsOpensNothing: the handler is not called, whatever the token.
func TestObserveThatPanicsOpensNothing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Observe = func(*http.Request, middleware.Event) { panic("observe") }
	})
	handler := &inner{}
	for _, token := range []string{issuer.Mint(claims{"aud": resource}), "x.y.z"} {
		func() {
			defer func() { _ = recover() }()
			serve(guard.Protect(handler), withToken(token))
		}()
	}
	if len(handler.requests) > 0 {
		t.Error("a request reached the handler")
	}
}

// TestHooksCostNothingForKnownTokens: with hooks or without, a token in the cache allocates nothing.
func TestHooksCostNothingForKnownTokens(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){"without": func(*middleware.Config) {}, "with": (&spans{}).watch} {
		issuer := middlewaretest.NewIssuer(t)
		guard := newGuard(t, issuer, change)
		token, ctx := issuer.Mint(claims{"aud": resource}), t.Context()
		verify := func() {
			if _, err := guard.Verify(ctx, token); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(100, verify); n != 0 {
			t.Errorf("%s hooks: %v allocations", name, n)
		}
	}
}

// partsSeen records the parts of requests with their outcome.
type partsSeen struct{ lines []string }

func (p *partsSeen) begin(ctx context.Context, part middleware.Part) (context.Context, func(middleware.Reason)) {
	return ctx, func(reason middleware.Reason) { p.lines = append(p.lines, string(part)+" "+string(reason)) }
}

// TestPartsOfDecisions: a request has the parts up to that which refuses it.
func TestPartsOfDecisions(t *testing.T) {
	issuer, seen := middlewaretest.NewIssuer(t), &partsSeen{}
	watch := func(c *middleware.Config) { c.ObservePart = seen.begin }
	guard := newGuard(t, issuer, watch, func(c *middleware.Config) { c.Policy = notesPolicy() })
	routes := newGuard(t, issuer, watch, apiRoutes)
	proofs := newGuard(t, issuer, watch, func(c *middleware.Config) { c.DPoP.Use = middleware.DPoPRequired })
	dark := middlewaretest.NewIssuer(t)
	dark.SetDown(true)
	plain := issuer.Mint(claims{"aud": resource})
	for _, one := range []struct {
		name    string
		guard   *middleware.Guard
		request *http.Request
		want    []string
	}{
		{"no token", guard, httptest.NewRequest(http.MethodPost, resource, nil), nil},
		{"a bad token", guard, withToken("x.y.z"), []string{"token bad_token"}},
		{"a down issuer", newGuard(t, dark, watch), withToken(dark.Mint(claims{"aud": resource})), []string{"token unavailable"}},
		{"allowed", guard, post(issuer, "notes:read", callTool("list_notes")), []string{"token allowed", "policy allowed"}},
		{"no scope", guard, post(issuer, "notes:read", callTool("add_note")), []string{"token allowed", "policy insufficient_scope"}},
		{"no route", routes, withToken(plain), []string{"token allowed", "policy not_named"}},
		{"no proof", proofs, withToken(plain), []string{"token allowed", "proof bad_token"}},
	} {
		seen.lines = nil
		serve(one.guard.Protect(&inner{}), one.request)
		if !slices.Equal(seen.lines, one.want) {
			t.Errorf("%s: %q, want %q", one.name, seen.lines, one.want)
		}
	}
}

// TestPartsCostNothing: parts themselves allocate nothing, so that a guard without the hook pays nothing.
func TestPartsCostNothing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	allocations := func(change func(*middleware.Config)) float64 {
		h := newGuard(t, issuer, change).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := withToken(issuer.Mint(claims{"aud": resource}))
		serve(h, r)
		w := httptest.NewRecorder()
		return testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) })
	}
	begin := func(ctx context.Context, _ middleware.Part) (context.Context, func(middleware.Reason)) {
		return nil, nil
	}
	off, on := allocations(func(*middleware.Config) {}), allocations(func(c *middleware.Config) { c.ObservePart = begin })
	if off != on {
		t.Errorf("%v allocations without, %v with a hook that does nothing", off, on)
	}
}

// TestReasonsOfDecisions: each decision has one of the reasons, and how long it took.
func TestReasonsOfDecisions(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var events []middleware.Event
	observe := func(c *middleware.Config) {
		c.Observe = func(_ *http.Request, e middleware.Event) { events = append(events, e) }
	}
	guard := newGuard(t, issuer, observe, func(c *middleware.Config) { c.Policy = notesPolicy() })
	local := newGuard(t, issuer, observe, func(c *middleware.Config) { c.Resource = "http://127.0.0.1:8081/mcp" })
	api := newGuard(t, issuer, observe, apiRoutes)
	dark := middlewaretest.NewIssuer(t)
	dark.SetDown(true)
	unreachable := newGuard(t, dark, observe)
	twice := withToken("x")
	twice.Header.Add("Authorization", "Bearer y")
	foreign := post(issuer, "notes:read", callTool("list_notes"))
	foreign.Header.Set("Mcp-Session-Id", "of.another")
	for _, tt := range []struct {
		guard  *middleware.Guard
		r      *http.Request
		reason middleware.Reason
		status int
	}{
		{guard, post(issuer, "notes:write", callTool("list_notes")), middleware.ReasonAllowed, 0},
		{guard, post(issuer, "anonymous", callTool("list_notes")), middleware.ReasonNoToken, 401},
		{guard, withToken("x.y.z"), middleware.ReasonBadToken, 401},
		{guard, twice, middleware.ReasonMalformed, 400},
		{guard, post(issuer, "notes:read", callTool("add_note")), middleware.ReasonScope, 403},
		{guard, post(issuer, "notes:read", callTool("drop")), middleware.ReasonNotNamed, 403},
		{guard, post(issuer, "notes:read", "{"), middleware.ReasonUnclear, 400},
		{guard, foreign, middleware.ReasonSession, 404},
		{local, newRequest("POST", "http://rebinder.example.org/mcp"), middleware.ReasonForeignPage, 403},
		{unreachable, withToken(dark.Mint(claims{"aud": resource})), middleware.ReasonUnavailable, 503},
		{api, sent(t, issuer, "GET", "/notes/7", "notes:read"), middleware.ReasonAllowed, 0},
		{api, sent(t, issuer, "GET", "/files//7", everything), middleware.ReasonUnclear, 400},
		{api, sent(t, issuer, "GET", "/other", everything), middleware.ReasonNotNamed, 403},
	} {
		events = nil
		began := time.Now()
		serve(tt.guard.Protect(&inner{}), tt.r)
		if len(events) != 1 || events[0].Reason != tt.reason || events[0].Status != tt.status {
			t.Errorf("%s: %+v, want status %d", tt.reason, events, tt.status)
			continue
		}
		if took := events[0].Took; took < 0 || took > time.Since(began) {
			t.Errorf("%s: it took %s of %s", tt.reason, took, time.Since(began))
		}
	}
}
