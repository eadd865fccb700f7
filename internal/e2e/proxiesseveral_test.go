//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

const severalRecipe = "nginx-verify-several.conf"

// settingsIn returns the file of the gateway in the comment of a recipe, for an issuer.
func settingsIn(t *testing.T, name, issuer string) string {
	t.Helper()
	text, err := os.ReadFile(recipe(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if setting, ok := strings.CutPrefix(line, "#   "); ok && !strings.HasPrefix(setting, "upstream ") {
			out.WriteString(strings.ReplaceAll(setting, "https://auth.example.com", issuer))
		}
	}
	return out.String()
}

// runSeveral runs nginx with the recipe for two resources, and the gateway with the file that the
// recipe shows. It returns the proxy in front of the server at /mcp, and the server at /reports.
func runSeveral(t *testing.T) (*proxied, *behind) {
	t.Helper()
	p, reports := &proxied{t: t, issuer: middlewaretest.NewIssuer(t), server: newBehind(t), verify: true}, newBehind(t)
	listens := redistest.FreeAddress(t)
	start(t, build(t, "authz"), listens, nil, []string{"gateway", "--listen", listens, "--config", written(t, settingsIn(t, severalRecipe, p.issuer.URL()))})
	p.address = redistest.FreeAddress(t)
	dir, host := t.TempDir(), func(b *behind) string { return strings.TrimPrefix(b.URL, "http://") }
	conf := written(t, fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	upstream gatehouse { server %[2]s; }
	upstream mcp { server %[3]s; }
	upstream reports { server %[4]s; }
	server { listen %[5]s; server_name %[6]s; include %[7]s; }
}
`, dir, listens, host(p.server), host(reports), p.address, publicHost, recipe(t, severalRecipe)))
	startForeign(t, "http://"+p.address, exec.Command(installed(t, "nginx"), "-p", dir, "-c", conf))
	return p, reports
}

// Behind the real nginx, the gateway judges each request for the resource that was dialled: tokens,
// proofs and nonces of one are of no use at the other, whatever a client writes about its URL.
func TestRecipeForSeveralResources(t *testing.T) {
	t.Parallel()
	p, reports := runSeveral(t)
	const reportsResource = "https://" + publicHost + "/reports"
	key := middlewaretest.NewProofKey(t, jose.ES256)
	notes := p.issuer.Mint(middlewaretest.Claims{"aud": publicResource, "scope": "notes:read"})
	token := p.issuer.Mint(middlewaretest.Claims{"aud": []string{publicResource, reportsResource}, "cnf": key.Confirmation()})
	send := func(method, target, proof string, lines ...string) *http.Response {
		t.Helper()
		lines = append(lines, "Authorization: DPoP "+token, "DPoP: "+proof)
		res, _ := p.send(p.call(method, target, "", lines...))
		if res == nil {
			t.Fatalf("%s: no answer", target)
		}
		return res
	}
	first := send("POST", "/reports", key.Prove("POST", reportsResource, token, nil))
	nonce := first.Header.Get("DPoP-Nonce")
	if first.StatusCode != 401 || nonce == "" || !strings.Contains(first.Header.Get("WWW-Authenticate"), "use_dpop_nonce") {
		t.Fatalf("without a nonce: %s %v", first.Status, first.Header)
	}
	prove := func(method, url string) string {
		return key.Prove(method, url, token, middlewaretest.Claims{"nonce": nonce})
	}
	used := prove("POST", reportsResource)
	for _, tt := range []struct {
		what, method, target, proof string
		want                        int
	}{
		{"a proof", "POST", "/reports?a=b", used, 200},
		{"the same again", "POST", "/reports", used, 401},
		{"a proof for the other resource", "POST", "/reports", prove("POST", publicResource), 401},
		{"a proof for another method", "POST", "/reports", prove("GET", reportsResource), 401},
		{"a proof where none is accepted", "POST", "/mcp", prove("POST", publicResource), 401},
		{"another spelling", "POST", "/Reports", prove("POST", reportsResource), 404},
		{"a path below", "POST", "/reports/x", prove("POST", reportsResource+"/x"), 404},
		{"an escape", "POST", "/report%73", prove("POST", reportsResource), 400},
	} {
		if res := send(tt.method, tt.target, tt.proof, "X-Original-URL: "+reportsResource, "X-Original-Uri: /reports", "X-Original-Method: POST"); res.StatusCode != tt.want {
			t.Errorf("%s: %s %v, want %d", tt.what, res.Status, res.Header, tt.want)
		}
	}
	if got, _ := reports.taken(); len(got) != 1 || got[0].RequestURI != "/reports?a=b" || got[0].Header.Get("Gatehouse-Subject") != "reader" ||
		got[0].Header.Get("Authorization") != "" || got[0].Header.Get("DPoP") != "" || got[0].Header.Get("X-Original-Url") != "" {
		t.Errorf("the server at /reports gets %+v", got)
	}
	if got, _ := p.server.taken(); len(got) != 0 {
		t.Errorf("the server at /mcp gets %+v", got)
	}
	for target, want := range map[string]int{"/mcp": 200, "/reports": 401} {
		if res, _ := p.send(p.call("POST", target, notes, "X-Original-URL: "+publicResource, "X-Forwarded-Host: "+publicHost, "X-Forwarded-Uri: /mcp")); res == nil || res.StatusCode != want {
			t.Errorf("a token for /mcp at %s: %v, want %d", target, res, want)
		}
	}
	if n := p.clean("a token for /mcp", notes, "POST"); n != 1 {
		t.Errorf("the server at /mcp gets %d requests", n)
	}
	p.describes(map[string]string{publicMetadata: publicResource, "/.well-known/oauth-protected-resource/reports": reportsResource})
}

// describes expects the metadata of each resource at its path, in the challenge, and nowhere else.
func (p *proxied) describes(resources map[string]string) {
	p.t.Helper()
	for path, resource := range resources {
		res, body := p.send(p.head("GET", path, "") + "\r\n")
		if res == nil || res.StatusCode != 200 || !strings.Contains(body, `"resource":"`+resource+`"`) {
			p.t.Errorf("%s: %v %s", path, res, body)
		}
		target := strings.TrimPrefix(resource, "https://"+publicHost)
		if res, _ := p.send(p.call("POST", target, "")); res == nil || res.StatusCode != 401 || !strings.Contains(res.Header.Get("WWW-Authenticate"), "https://"+publicHost+path) {
			p.t.Errorf("%s without a token: %v", target, res)
		}
		if res, _ := p.send(p.head("OPTIONS", target, "", "Origin: https://app.example.org", "Access-Control-Request-Method: POST") + "\r\n"); res == nil || res.StatusCode != 204 {
			p.t.Errorf("a preflight for %s: %v", target, res)
		}
	}
	if res, _ := p.send(p.head("GET", "/.well-known/oauth-protected-resource", "") + "\r\n"); res == nil || res.StatusCode != 404 {
		p.t.Errorf("the metadata of none: %v", res)
	}
}

// Behind the real Caddy, whose recipe names the URL in headers of its own, the same holds.
func TestCaddyAsksAboutSeveralResources(t *testing.T) {
	t.Parallel()
	p := &proxied{t: t, issuer: middlewaretest.NewIssuer(t), server: newBehind(t), verify: true}
	listens, entry := redistest.FreeAddress(t), "\n    dpop: accepted\n    issuers: ["+p.issuer.URL()+"]\n"
	start(t, build(t, "authz"), listens, nil, []string{"gateway", "--listen", listens, "--config", written(t, "verify-only: true\ntrusted-proxies: 127.0.0.1\nallowed-origins: \"*\"\n"+
		"verify-method-header: X-Forwarded-Method\nverify-uri-header: X-Forwarded-Uri\nresources:\n  - resource: "+publicResource+entry+"  - resource: https://"+publicHost+"/reports"+entry)})
	p.address = runCaddy("Caddyfile-verify")(t, listens, strings.TrimPrefix(p.server.URL, "http://"))
	key := middlewaretest.NewProofKey(t, jose.ES256)
	mint := func(audience string) string {
		return p.issuer.Mint(middlewaretest.Claims{"aud": audience, "scope": "notes:read", "cnf": key.Confirmation()})
	}
	const reports = "https://" + publicHost + "/reports"
	notes, other := mint(publicResource), mint(reports)
	used := key.Prove("POST", publicResource, notes, nil)
	for _, tt := range []struct {
		what, token, proof string
		want               int
	}{
		{"a proof", notes, used, 200},
		{"the same again", notes, used, 401},
		{"a proof for the other resource", notes, key.Prove("POST", reports, notes, nil), 401},
		{"a token for the other resource", other, key.Prove("POST", publicResource, other, nil), 401},
		{"both for the other resource", other, key.Prove("POST", reports, other, nil), 401},
	} {
		res, _ := p.send(p.call("POST", "/mcp", "", "Authorization: DPoP "+tt.token, "DPoP: "+tt.proof, "X-Original-URL: "+reports, "X-Forwarded-Uri: /reports", "X-Forwarded-Method: GET"))
		if res == nil || res.StatusCode != tt.want {
			t.Errorf("%s: %v, want %d", tt.what, res, tt.want)
		}
	}
	got, _ := p.server.taken()
	if len(got) != 1 || got[0].Header.Get("Gatehouse-Subject") != "reader" || got[0].Header.Get("DPoP") != "" || got[0].Header.Get("Authorization") != "" {
		t.Errorf("the server gets %+v", got)
	}
}
