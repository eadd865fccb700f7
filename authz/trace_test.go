package authz_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
)

type partKey struct{}

// partsSeen records the parts of requests, each behind those that it is in, with its code.
type partsSeen struct {
	ended func() // waits for the handlers of what was answered
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
	p.ended()
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
	seen.ended = h.handling.wait
	c := testClients()["native"]
	held := h.tokens(c)
	seen.ended()
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

// declaredParts returns the parts that the package declares, from its source.
func declaredParts(t *testing.T) (parts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "trace.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Part" {
				parts = append(parts, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	return parts
}

// TestEveryTracePart: each part that is declared is reached by a request, and no other is.
func TestEveryTracePart(t *testing.T) {
	t.Parallel()
	seen, web := &partsSeen{}, webtest.New(t)
	p := newAtProvider(t, func(c *authz.Config) {
		c.Trace = authz.Trace{Request: seen.request, Part: seen.part}
		c.Fetcher, c.Documents = web.Fetcher(nil), dcr.Documents{Trust: dcr.TrustAsk}
	})
	h, native := p.harness, testClients()["native"]
	registersAt(h)
	h.registration(`{"redirect_uris":["http://evil.example.com/"]}`)
	held := h.tokens(native)
	held.refresh = h.refreshed(native, held.refresh).member(t, "refresh_token")
	h.introspect(held.access)
	h.revoke(native, held.refresh)
	h.revoke(testClients()["other"], held.access)
	h.newBrowser().open(h.issuer + "/authorize?" + asks(described(web.Publish("../dcr/testdata/documents/chatgpt.json"), "https://chatgpt.com/connector/oauth/notes-connector")).Encode())
	h.newBrowser().open(h.issuer + "/authorize?" + asks(described(web.URL(clientHost, "/none.json"), "https://client.example.org/callback")).Encode())
	p.company.SignIn(personOf("1", "ada@example.com"))
	h.newBrowser().arrive(p.company, "company", asks(native))
	p.sendLogout("company", form("logout_token", "x.y.z"))
	_, key := h.withPasskey()
	h.atSignIn().answer(key, nil)
	_, app, _ := h.withFactor()
	h.atCode().submit("code", app.code())
	seen.mu.Lock()
	defer seen.mu.Unlock()
	declared, codes := declaredParts(t), append(authz.Codes(), "", "canceled")
	missing := slices.Clone(declared)
	for _, line := range seen.lines {
		if !strings.HasPrefix(line, "request > ") {
			continue
		}
		path, code, _ := strings.Cut(strings.ReplaceAll(line, " > ", ">"), " ")
		part := path[strings.LastIndex(path, ">")+1:]
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == part })
		if !slices.Contains(declared, part) || !slices.Contains(codes, code) {
			t.Errorf("%s: neither part nor code may be any other word", line)
		}
	}
	if len(missing) > 0 || len(declared) < 15 {
		t.Errorf("of the %d parts no request has %v", len(declared), missing)
	}
	for _, want := range []string{
		"request > registration", "request > registration invalid_redirect_uri", "request > authorization > client > document",
		"request > authorization > client > document invalid_client", "request > revoke", "request > revoke invalid_grant", "request > account",
		"request > second_factor", "request > provider_logout invalid_request",
	} {
		if !slices.Contains(seen.lines, want) {
			t.Errorf("there is no %q in\n%s", want, strings.Join(seen.lines, "\n"))
		}
	}
}
