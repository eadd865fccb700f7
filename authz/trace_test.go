package authz_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/authz"
)

type partKey struct{}

// partsSeen records the parts of requests, each behind those that it is in, with its code.
type partsSeen struct {
	mu    sync.Mutex
	lines []string
}

func (p *partsSeen) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
}

func (p *partsSeen) part(ctx context.Context, part authz.Part) (context.Context, func(string)) {
	in, _ := ctx.Value(partKey{}).(string)
	path := in + " > " + string(part)
	return context.WithValue(ctx, partKey{}, path), func(code string) { p.add(strings.TrimSpace(path + " " + code)) }
}

func (p *partsSeen) request(_ http.ResponseWriter, r *http.Request) (context.Context, func(authz.Observation)) {
	return context.WithValue(r.Context(), partKey{}, "request"), func(o authz.Observation) {
		p.add(strings.TrimSpace("request " + string(o.Endpoint) + " " + string(o.Grant) + " " + o.Code))
	}
}

// want compares what was seen since the last call, in the order in which it ended.
func (p *partsSeen) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.lines, lines) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(p.lines, "\n"), strings.Join(lines, "\n"))
	}
	p.lines = nil
}

// TestTraceParts: a request has the parts that it has, one in the other, each with its code; and
// requests are traced without [authz.Config.Observe].
func TestTraceParts(t *testing.T) {
	t.Parallel()
	seen := &partsSeen{}
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Trace = authz.Trace{Request: seen.request, Part: seen.part} }})
	c := testClients()["native"]
	held := h.tokens(c)
	seen.mu.Lock()
	for _, want := range []string{"request > authorization > client", "request > authorization", "request /authorize", "request > password", "request > grant", "request > redeem > sign"} {
		if !slices.Contains(seen.lines, want) {
			t.Errorf("a code flow has no %s:\n%s", want, strings.Join(seen.lines, "\n"))
		}
	}
	seen.lines = nil
	seen.mu.Unlock()
	h.toToken(c, refreshing(c, held.refresh))
	seen.want(t, "a refresh", "request > client", "request > refresh > sign", "request > refresh", "request /token refresh_token")
	h.toToken(c, refreshing(c, "made-up"))
	seen.want(t, "a token that is made up", "request > client", "request > refresh invalid_grant", "request /token refresh_token invalid_grant")
	h.toToken(c, form("grant_type", "refresh_token", "client_id", "nobody"))
	seen.want(t, "a client that is not there", "request > client invalid_client", "request /token refresh_token invalid_client")
	h.send(h.newRequest(http.MethodGet, "/authorize?client_id=nobody", nil))
	seen.want(t, "a page", "request > authorization > client invalid_client", "request > authorization invalid_client", "request /authorize  invalid_client")
	h.faults.SetDown(true)
	h.toToken(c, refreshing(c, held.refresh))
	seen.want(t, "no store", "request > client", "request > refresh temporarily_unavailable", "request /token refresh_token temporarily_unavailable")
}
