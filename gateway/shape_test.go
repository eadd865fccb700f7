package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// reached sends headers and returns those that the gateway forwards.
func reached(t *testing.T, g *gate, up *upstream, names []string) []string {
	t.Helper()
	r := g.request(t, "POST", "/mcp", "{}")
	for _, name := range names {
		r.Header[name] = []string{"hunter22"}
	}
	if a := do(t, r); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var out []string
	for _, got := range up.taken() {
		for field, values := range got.header {
			if strings.Contains(strings.Join(values, " "), "hunter22") {
				out = append(out, field)
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestNamesThatLookLikeWhoCalls checks that headers are dropped by the shape of their names,
// also unknown ones.
func TestNamesThatLookLikeWhoCalls(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.Guard.InsecureUnboundSessions = true })
	for _, name := range []string{
		"X-Acme-User", "Acme-Userid", "X-Team-Role", "Role", "Service-Roles", "X-Acme-Groups", "Api-Key", "X-Api-Key", "X-Acme-Api-Key", "X-Apikey", "Acme-Apikey", "X-Auth-Anything", "Remote-User",
		"X-Amzn-Oidc-New", "Cf-Access-New", "X-Goog-New", "Tailscale-User-New", "X-Forwarded-User", "X-Forwarded-New", "X-Acme-Account-Id", "Tenant", "X-Tenant-Id", "X-Org-Id", "X-Organization",
		"X-Current-User-Id", "Acme-Principal", "X-Subject", "X-Acme-Jwt", "X-Session-Token", "X-Acme-Email", "From", "X-Is-Admin", "X-Admin", "X-Acme-Scope", "X-Permissions", "X-Acme-Uid",
		"X-Superuser", "X-Loginname", "X-Customer", "X-Secret", "X-Password", "Identity", "X-Acting-Member", "X-Impersonate", "X-Claims", "X-Oidc", "Mcp-User", "Mcp-Role",
		"X-On-Behalf-Of", "On-Behalf-Of", "Sudo", "X-Sudo", "X-Acting-As", "X-Run-As",
	} {
		if got := reached(t, g, up, spellings(name)); len(got) > 0 {
			t.Errorf("%s reaches the upstream as %q", name, got)
		}
	}
	pass := []string{
		"User-Agent", "Sec-Fetch-User", "Mcp-Param-User", "Mcp-Param-Api-Key", "Mcp-Session-Id", "Mcp-Name", "Idempotency-Key", "X-Correlation-Id", "X-Api-Version", "X-Keyboard", "X-Mcp-Toolsets", "Priority",
		"Accept-Language", "X-Stainless-Os", "Sentry-Trace", "Prefer",
	}
	slices.Sort(pass)
	want := slices.DeleteFunc(slices.Clone(pass), func(name string) bool { return name == "Mcp-Name" })
	if got := reached(t, g, up, want); !slices.Equal(got, want) {
		t.Errorf("%q arrive of %q", got, want)
	}
}

// TestHeadersThatTheOperatorNames checks that headers in PassHeaders are forwarded in their
// canonical spelling, and in no other.
func TestHeadersThatTheOperatorNames(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.PassHeaders = []string{"x-api-key", "X-Forwarded-User", "Acme-Role"} })
	for name, want := range map[string][]string{"X-Api-Key": {"X-Api-Key"}, "X-Forwarded-User": {"X-Forwarded-User"}, "Acme-Role": {"Acme-Role"}, "X-Api-Key-2": nil, "Acme-Roles": nil} {
		others := slices.DeleteFunc(spellings(name), func(s string) bool { return http.CanonicalHeaderKey(s) == name })
		if got := reached(t, g, up, others); len(got) > 0 {
			t.Errorf("%s: %q arrive", name, got)
		}
		if got := reached(t, g, up, append(others, name)); !slices.Equal(got, want) {
			t.Errorf("%s: %q arrive, want %q", name, got, want)
		}
	}
	for _, name := range []string{"", "*", "X-*", "X_Api_Key", "X-Api-Key ", "Authorization", "cookie", "Gatehouse-Subject", "X-Forwarded-For", "x-original-url", "X-Http-Method-Override", "Connection", "Host", "Transfer-Encoding", "Proxy", "-"} {
		config := gateway.Config{Guard: middleware.Config{Resource: resource, AuthorizationServers: []string{g.issuer.URL()}}, Upstream: up.URL, PassHeaders: []string{name}}
		if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), "cannot be passed on") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := gateway.TellingHeaders([]string{"X-Api-Key", "X-Correlation-Id", "Acme-Role"}); !slices.Equal(got, []string{"X-Api-Key", "Acme-Role"}) {
		t.Errorf("%q", got)
	}
}
