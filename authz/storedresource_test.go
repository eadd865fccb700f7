package authz_test

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
)

const (
	tenantPattern = "https://mcp.example.com/{tenant}/mcp"
	acme          = "https://mcp.example.com/acme/mcp"
	globex        = "https://mcp.example.com/globex/mcp"
	patternSecret = "the-secret-of-the-platform-of-many"
	wiki          = "https://wiki.example.com/mcp"
	wikiSecret    = "the-secret-of-the-wiki-server-here"
)

// seen is longer than a server takes to see a change of the store without Run.
const seen = 6 * time.Second

// tenants is the pattern of a platform, with two scopes.
func tenants() authz.Resource {
	return authz.Resource{
		URI: tenantPattern, Name: "Platform", DefaultScopes: []string{"tools:call"},
		Scopes:        []authz.Scope{{Name: "tools:call", Description: "Use tools"}, {Name: "tools:admin", Description: "Change tools"}},
		Introspection: &authz.IntrospectionClient{Secret: patternSecret},
	}
}

func wikiResource() authz.Resource {
	return authz.Resource{
		URI: wiki, Name: "Wiki", Scopes: []authz.Scope{{Name: "wiki:read", Description: "Read the wiki"}},
		Introspection: &authz.IntrospectionClient{ID: wiki, Secret: wikiSecret},
	}
}

// add stores a resource, as the verb does, without waiting until servers see it. What is returned,
// and printed, is what is stored, with its time.
func (h *harness) add(n authz.NewResource) {
	h.t.Helper()
	added, err := authz.AddResource(h.t.Context(), h.store, n)
	if err != nil {
		h.t.Fatal(err)
	}
	if stored, err := h.store.Resource(h.t.Context(), added.ID); err != nil || added.Created.IsZero() || !reflect.DeepEqual(added, stored) {
		h.t.Errorf("AddResource returned %+v, and stored %+v, %v", added, stored, err)
	}
}

// changed lets the servers see a change of a resource.
func (h *harness) changed(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	h.clock.advance(seen)
}

func (h *harness) disable(uri string) {
	h.t.Helper()
	h.changed(admin.DisableResource(h.t.Context(), h.store, uri))
}
func (h *harness) enable(uri string) {
	h.t.Helper()
	h.changed(admin.EnableResource(h.t.Context(), h.store, uri))
}
func (h *harness) remove(uri string) {
	h.t.Helper()
	h.changed(admin.RemoveResource(h.t.Context(), h.store, uri))
}

// activeAt reports what a resource server with a credential learns about a token.
func (h *harness) activeAt(id, secret, token string) bool {
	h.t.Helper()
	answer := h.introspectAs(id, secret, token)
	if answer.status != http.StatusOK {
		h.t.Fatalf("introspect as %s: %s", id, answer)
	}
	return answer.json(h.t)["active"] == true
}

// refused sends an authorization request and wants an error in the redirect.
func (h *harness) refusedTarget(c testClient, resource string) {
	h.t.Helper()
	got := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", asksFor(c, "", resource)))
	if got.status != http.StatusSeeOther && got.status != http.StatusFound || got.location(h.t).Query().Get("error") != "invalid_target" {
		h.t.Errorf("resource %q: %s", resource, got)
	}
}

// TestR1ResourcesComeAndGo: a running server issues tokens for a resource that was added to the
// store, none for one that is disabled or removed, and gives nothing back to grants from before a
// removal. A second server over the same store decides alike.
func TestR1ResourcesComeAndGo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	second := newHarness(t, setup{store: h.store})
	second.clock = h.clock
	second.cfg.Now = h.clock.Now
	second.restart()
	c := testClients()["native"]
	h.refusedTarget(c, wiki)
	second.refusedTarget(c, wiki)
	h.add(authz.NewResource{Resource: wikiResource()})
	h.clock.advance(seen)

	held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "wiki:read", wiki)), wiki)
	held.h = second
	access := held.token(wiki).member(t, "access_token")
	if !h.activeAt(wiki, wikiSecret, access) || !second.activeAt(wiki, wikiSecret, access) {
		t.Error("the token is not active at both servers")
	}
	if r := h.introspectAs(wiki, wikiSecret+"x", access); r.status != http.StatusUnauthorized {
		t.Errorf("with a wrong secret: %s", r)
	}

	h.disable(wiki)
	mustRefuse(t, held.token(wiki), http.StatusBadRequest, "invalid_target")
	second.refusedTarget(c, wiki)
	if r := second.introspectAs(wiki, wikiSecret, access); r.status != http.StatusUnauthorized {
		t.Errorf("a disabled resource introspects: %s", r)
	}
	h.enable(wiki)
	if !second.activeAt(wiki, wikiSecret, access) {
		t.Error("after it was enabled again, the token is not active")
	}
	held.token(wiki)

	h.remove(wiki)
	mustRefuse(t, held.token(wiki), http.StatusBadRequest, "invalid_target")
	h.add(authz.NewResource{Resource: wikiResource()})
	h.clock.advance(seen)
	if second.activeAt(wiki, wikiSecret, access) {
		t.Error("a token from before the removal is active at the resource that came later")
	}
	mustRefuse(t, held.token(wiki), http.StatusBadRequest, "invalid_target")
	again := second.redeemFor(c, second.newBrowser().consentAll(asksFor(c, "", wiki)), wiki)
	if r := again.token(wiki); r.status != http.StatusOK {
		t.Errorf("a grant from after it came back: %s", r)
	}
}

// consentAll answers the consent page of a request with everything ticked.
func (b *browser) consentAll(request url.Values) reply {
	b.h.t.Helper()
	page := b.consentTo(request)
	var boxes []string
	for _, some := range page.boxes() {
		boxes = append(boxes, some...)
	}
	return b.tick(boxes...)
}

// TestR2TenantsAreApart: each URI of a pattern is an audience of its own: the page names it, a
// token is for it alone, and the credential of one tenant says nothing about tokens of another.
func TestR2TenantsAreApart(t *testing.T) {
	t.Parallel()
	for place, config := range map[string]func(*harness){
		"file": func(h *harness) {
			h.cfg.Resources = append(bothResources(), tenants())
			h.restart()
		},
		"store": func(h *harness) {
			h.add(authz.NewResource{Resource: tenants()})
			h.clock.advance(seen)
		},
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			config(h)
			c := testClients()["native"]
			b := h.newBrowser()
			if page := b.consentTo(asksFor(c, "", acme)); !strings.Contains(page.body, acme) || strings.Contains(page.body, "{tenant}") {
				t.Errorf("the page does not name %s: %s", acme, page.body)
			}
			both := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", acme, globex)), acme)
			ofAcme, ofGlobex := both.token(acme).member(t, "access_token"), both.token(globex).member(t, "access_token")
			if aud := claims(t, ofAcme)["aud"]; aud != acme {
				t.Errorf("the token is for %v", aud)
			}
			for _, tt := range []struct {
				id, secret string
				acme       int // the status, with 1 for an active token
				globex     int
			}{
				{acme, authz.DeriveSecret(patternSecret, acme), 1, 200},
				{globex, authz.DeriveSecret(patternSecret, globex), 200, 1},
				{acme, authz.DeriveSecret(patternSecret, globex), 401, 401},
				{globex, authz.DeriveSecret(patternSecret, acme), 401, 401},
				{acme, patternSecret, 401, 401},
				{tenantPattern, patternSecret, 401, 401},
				{tenantPattern, authz.DeriveSecret(patternSecret, tenantPattern), 401, 401},
				{"https://mcp.example.com/{}/mcp", patternSecret, 401, 401},
				{strings.ToUpper(acme), authz.DeriveSecret(patternSecret, acme), 401, 401},
				{acme + "/", authz.DeriveSecret(patternSecret, acme), 401, 401},
				{"https://mcp.example.com/a%63me/mcp", authz.DeriveSecret(patternSecret, acme), 401, 401},
			} {
				for token, want := range map[string]int{ofAcme: tt.acme, ofGlobex: tt.globex} {
					h.clock.advance(time.Minute) // wrong secrets are slowed down
					got := h.introspectAs(tt.id, tt.secret, token)
					status := got.status
					if status == http.StatusOK && got.json(t)["active"] == true {
						status = 1
					}
					if status != want {
						t.Errorf("as %s with %s, a token for %v: %s; want %d", tt.id, tt.secret, claims(t, token)["aud"], got, want)
					}
				}
			}
			mustRefuse(t, both.token("https://mcp.example.com/initech/mcp"), http.StatusBadRequest, "invalid_target")
		})
	}
}

// TestR3HostileTenants: nothing that a server could read as another segment is an audience, and
// never the pattern itself.
func TestR3HostileTenants(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Resources = append(c.Resources, tenants()) }})
	c := testClients()["native"]
	for _, resource := range []string{
		tenantPattern, "https://mcp.example.com/%7Btenant%7D/mcp", "https://mcp.example.com/{}/mcp",
		"https://mcp.example.com/a%2Fb/mcp", "https://mcp.example.com/%2e%2e/mcp", "https://mcp.example.com/../mcp", "https://mcp.example.com/./mcp",
		"https://mcp.example.com//mcp", "https://mcp.example.com/mcp", "https://mcp.example.com/acme/mcp/", "https://mcp.example.com/acme//mcp",
		"https://mcp.example.com/acme/mcp?x", "https://mcp.example.com/acme/mcp#x", "https://mcp.example.com/acmé/mcp", "https://mcp.example.com/ac%00me/mcp",
		"https://mcp.example.com/" + strings.Repeat("a", 129) + "/mcp", "http://mcp.example.com/acme/mcp", "https://mcp.example.com:8443/acme/mcp",
		"https://mcp.example.com.evil.example.org/acme/mcp", "https://user@mcp.example.com/acme/mcp",
	} {
		h.refusedTarget(c, resource)
	}
	held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", "HTTPS://MCP.Example.com:443/acme/mcp")), acme)
	if aud := claims(t, held.token(acme).member(t, "access_token"))["aud"]; aud != acme {
		t.Errorf("the token is for %v", aud)
	}
	document := h.get("/.well-known/oauth-authorization-server").json(t)
	if text := fmt.Sprint(document["protected_resources"]); strings.Contains(text, "mcp.example.com") {
		t.Errorf("the metadata lists %s", text)
	}
	if !slices.Contains(document["scopes_supported"].([]any), any("tools:call")) {
		t.Errorf("the metadata lists no scope of the pattern: %v", document["scopes_supported"])
	}
}

// TestR4OneTenantIsTakenOut: an entry for one URI counts before the pattern, also while it is
// disabled; and what was allowed before its removal does not go on under the pattern.
func TestR4OneTenantIsTakenOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Resources = append(c.Resources, tenants()) }})
	c := testClients()["native"]
	held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", acme)), acme)
	other := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", globex)), globex)
	access := held.token(acme).member(t, "access_token")
	h.add(authz.NewResource{Resource: authz.Resource{URI: acme}, Disabled: true})
	h.clock.advance(seen)
	mustRefuse(t, held.token(acme), http.StatusBadRequest, "invalid_target")
	h.refusedTarget(c, acme)
	if r := h.introspectAs(acme, authz.DeriveSecret(patternSecret, acme), access); r.status != http.StatusUnauthorized {
		t.Errorf("a tenant that was taken out introspects: %s", r)
	}
	if r := other.token(globex); r.status != http.StatusOK {
		t.Errorf("another tenant: %s", r)
	}
	h.remove(acme)
	if h.activeAt(acme, authz.DeriveSecret(patternSecret, acme), access) {
		t.Error("the token from before is active again")
	}
	mustRefuse(t, held.token(acme), http.StatusBadRequest, "invalid_target")
	if r := other.token(globex); r.status != http.StatusOK {
		t.Errorf("another tenant: %s", r)
	}
	again := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", acme)), acme)
	if r := again.token(acme); r.status != http.StatusOK {
		t.Errorf("a grant from after the removal: %s", r)
	}
}

// TestR5RemovedPattern: a pattern that comes back under another name for its placeholder gives
// nothing back to grants from before.
func TestR5RemovedPattern(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.add(authz.NewResource{Resource: tenants()})
	h.clock.advance(seen)
	c := testClients()["native"]
	held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", acme)), acme)
	id, err := authz.ResourceID(tenantPattern)
	if err != nil {
		t.Fatal(err)
	}
	h.remove(id)
	renamed := tenants()
	renamed.URI = "https://mcp.example.com/{customer}/mcp"
	h.add(authz.NewResource{Resource: renamed})
	h.clock.advance(seen)
	mustRefuse(t, held.token(acme), http.StatusBadRequest, "invalid_target")
	single := tenants()
	single.URI, single.Introspection = acme, nil
	h.add(authz.NewResource{Resource: single})
	h.clock.advance(seen)
	mustRefuse(t, held.token(acme), http.StatusBadRequest, "invalid_target")
}
