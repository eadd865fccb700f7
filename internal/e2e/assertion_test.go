//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// assertionDriver runs the cases in its standard input with the example and prints what it says of
// each.
const assertionDriver = `
import { Keys, assertion, boundTo } from %EXAMPLE%;
const { jwks, cases } = JSON.parse(await new Promise((done) => { let text = ''; process.stdin.on('data', (d) => text += d).on('end', () => done(text)); }));
const keys = new Keys(jwks);
for (const c of cases) {
  try {
    const claims = await assertion(c.jwt, c.audience, keys);
    boundTo(claims, c.method, c.target, c.body);
    console.log('good ' + claims.sub);
  } catch (error) { console.log(error.message); }
}`

// The example for Node accepts the assertion of a request, and refuses it with every other request.
func TestAssertionExampleForNode(t *testing.T) {
	t.Parallel()
	node := os.Getenv("CONFORMANCE_NODE")
	if node == "" {
		t.Fatal("CONFORMANCE_NODE must name node 22; scripts/test sets it")
	}
	var seen, target string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, target = r.Header.Get(gateway.HeaderAssertion), r.RequestURI
	}))
	t.Cleanup(up.Close)
	issuer := middlewaretest.NewIssuer(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const resource, body = "https://notes.example.com/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	g, err := gateway.New(gateway.Config{
		Guard:    middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}},
		Upstream: up.URL + "/server", Identity: gateway.IdentityAssertion, AssertionKey: key, AssertionBinding: gateway.BoundToRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/mcp/a%20b?c=%64", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": resource}))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || target != "/server/a%20b?c=%64" {
		t.Fatalf("%s at %s", res.Status, target)
	}

	type request struct{ JWT, Audience, Method, Target, Body string }
	audience := up.URL + "/server"
	last := len(seen) - 1
	forged := seen[:last-1] + map[bool]string{true: "A", false: "B"}[seen[last-1] != 'A'] + seen[last:]
	header, rest, _ := strings.Cut(seen, ".")
	cases := []struct {
		request
		says string
	}{
		{request{seen, audience, "POST", target, body}, "good reader"},
		{request{seen, audience, "PUT", target, body}, "another method"},
		{request{seen, audience, "POST", "/server/a b?c=%64", body}, "another path or query"},
		{request{seen, audience, "POST", "/server/a%20b", body}, "another path or query"},
		{request{seen, audience, "POST", target, body + " "}, "another body"},
		{request{seen, audience, "POST", target, ""}, "another body"},
		{request{seen, up.URL, "POST", target, body}, "for another server"},
		{request{forged, audience, "POST", target, body}, "wrong signature"},
		{request{header + "." + rest[1:], audience, "POST", target, body}, "wrong signature"},
		{request{"", audience, "POST", target, body}, "no JWS"},
	}
	var requests []map[string]string
	var want []string
	for _, c := range cases {
		requests = append(requests, map[string]string{"jwt": c.JWT, "audience": c.Audience, "method": c.Method, "target": c.Target, "body": c.Body})
		want = append(want, c.says)
	}
	input, err := json.Marshal(map[string]any{"jwks": front.URL + gateway.PathKeys, "cases": requests})
	if err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs(filepath.Join("..", "..", "docs", "examples", "node", "assertion.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(example) // cannot fail for a string
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", strings.Replace(assertionDriver, "%EXAMPLE%", string(quoted), 1))
	cmd.Env, cmd.Stdin = cleanEnvironment(), strings.NewReader(string(input))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
