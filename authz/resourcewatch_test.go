package authz_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// TestR6RunSeesChanges: a server that runs sees a change within seconds without a request, and
// while nothing changes it reads one record every two seconds.
func TestR6RunSeesChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		end := s.run()
		defer end()
		time.Sleep(time.Second)
		listed := func() bool {
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/.well-known/oauth-authorization-server", nil))
			return strings.Contains(w.Body.String(), wiki)
		}
		before := s.roundTrips.Load()
		time.Sleep(4 * time.Second)
		if n := s.roundTrips.Load() - before; n != 2 {
			t.Errorf("in four quiet seconds there were %d round trips; want 2", n)
		}
		if _, err := authz.AddResource(t.Context(), s.store, authz.NewResource{Resource: wikiResource()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if !listed() {
			t.Error("three seconds later a new resource is not listed")
		}
		if err := admin.RemoveResource(t.Context(), s.store, wiki); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if listed() {
			t.Error("three seconds later a removed resource is listed")
		}
		synctest.Wait()
	})
}

// TestR7StoreDown: while the store does not answer, the resources that were read last stay, and
// the log says so once.
func TestR7StoreDown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.add(authz.NewResource{Resource: wikiResource()})
	h.clock.advance(seen)
	document := func() string { return h.get("/.well-known/oauth-authorization-server").body }
	if !strings.Contains(document(), wiki) {
		t.Fatal("the resource is not listed")
	}
	h.faults.SetDown(true)
	for range 3 {
		h.clock.advance(time.Hour)
		if !strings.Contains(document(), wiki) {
			t.Error("the resource is gone while the store does not answer")
		}
	}
	if n := strings.Count(h.log.String(), "those that were read last stay"); n != 1 {
		t.Errorf("the log says %d times that the store does not answer", n)
	}
	h.faults.SetDown(false)
	h.remove(wiki)
	if strings.Contains(document(), wiki) {
		t.Error("the resource is still listed")
	}
}

// TestR8WhatDoesNotCount: of resources that contradict each other those of the file count, and
// then the older one; a record that cannot be read closes its URI, and so does one that is no resource
// identifier; the log names each once, and servers start.
func TestR8WhatDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	add := func(r storage.Resource) {
		t.Helper()
		if err := h.store.PutResource(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		h.clock.advance(time.Second)
	}
	const first, second = "https://mcp.example.com/{}/mcp", "https://mcp.example.com/acme/{}"
	add(storage.Resource{ID: notes, URI: notes, Name: "Not these notes"})
	add(storage.Resource{ID: first, URI: tenantPattern})
	add(storage.Resource{ID: second, URI: "https://mcp.example.com/acme/{service}"})
	add(storage.Resource{ID: wiki, URI: wiki, Scopes: []storage.ResourceScope{{Name: "notes:read", Description: "Something else"}}})
	add(storage.Resource{ID: "tasks", URI: "tasks"})
	const plain = "http://plain.example.com/mcp" // RFC 9728 section 1.2: a resource is https
	add(storage.Resource{ID: plain, URI: plain})
	add(storage.Resource{ID: globex, URI: globex, IntrospectionKey: storage.Sealed("not sealed")})
	h.clock.advance(seen)
	c := testClients()["native"]
	for uri, accepted := range map[string]bool{notes: true, acme: true, "https://mcp.example.com/acme/sse": false, wiki: false, globex: false, plain: false} {
		got := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", asksFor(c, "", uri)))
		if got.location(t).Query().Get("error") == "invalid_target" == accepted {
			t.Errorf("%s: %s", uri, got)
		}
	}
	if page := h.newBrowser().consentTo(asksFor(c, "", notes)); strings.Contains(page.body, "Not these") {
		t.Error("the resource of the store counts before that of the file")
	}
	h.clock.advance(time.Hour)
	h.get("/.well-known/oauth-authorization-server")
	for _, part := range []string{
		"the configuration lists the same URI", "neither is more specific; remove one of them", "already defined with another meaning",
		"its record cannot be read, so nobody can use it", `resource=tasks`, "it must be https unless the host is loopback; remove it with authz resource rm",
	} {
		if n := strings.Count(h.log.String(), part); n != 1 {
			t.Errorf("the log says %d times %q:\n%s", n, part, h.log)
		}
	}
	if _, err := authz.New(t.Context(), h.cfg); err != nil {
		t.Errorf("a resource that does not count keeps the next server from starting: %v", err)
	}
}

// TestR9ThousandsOfResources: metadata and errors stay small with thousands of resources, each of
// which counts.
func TestR9ThousandsOfResources(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	uri := func(i int) string { return fmt.Sprintf("https://r%04d.example.com/mcp", i) }
	for i := range 2000 {
		r := storage.Resource{ID: uri(i), URI: uri(i), Scopes: []storage.ResourceScope{{Name: fmt.Sprintf("scope-%d", i), Description: "Use it"}}}
		if err := h.store.PutResource(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h.clock.advance(seen)
	answer := h.get("/.well-known/oauth-authorization-server")
	document := answer.json(t)
	resources, scopes := document["protected_resources"].([]any), document["scopes_supported"].([]any)
	if len(answer.body) > 20<<10 || len(resources) != 100 || resources[0] != notes || len(scopes) != 100 || scopes[99] != "offline_access" {
		t.Errorf("a document of %d bytes lists %d resources and %d scopes", len(answer.body), len(resources), len(scopes))
	}
	c := testClients()["native"]
	held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", uri(1999))), uri(1999))
	if scope := held.token(uri(1999)).member(t, "scope"); scope != "scope-1999" {
		t.Errorf("the token has the scope %q", scope)
	}
	refused := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", asksFor(c, "", wiki))).location(t).String()
	if len(refused) > 2000 {
		t.Errorf("an error has %d characters", len(refused))
	}
}

// TestR10ScopesOfNewResources: a client can register a scope of a resource that was added after
// the start.
func TestR10ScopesOfNewResources(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	register := func() string {
		body := `{"redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none","scope":"wiki:read notes:read nothing"}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.issuer+"/register", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return h.send(r).member(t, "scope")
	}
	if got := register(); got != "notes:read" {
		t.Errorf("before: %q", got)
	}
	h.add(authz.NewResource{Resource: wikiResource()})
	h.clock.advance(seen)
	if got := register(); got != "wiki:read notes:read" {
		t.Errorf("after: %q", got)
	}
}

// TestR14NoResources: a server needs no resource in its configuration, or only a pattern, and its
// metadata leaves the list out until there is one (RFC 8414 section 3.2).
func TestR14NoResources(t *testing.T) {
	t.Parallel()
	pattern := authz.Resource{URI: "https://mcp.example.com/{tenant}/mcp", Scopes: []authz.Scope{{Name: "use", Description: "Use it"}}}
	for name, configured := range map[string][]authz.Resource{"none": nil, "a pattern": {pattern}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: func(c *authz.Config) { c.Resources = configured }})
			listed := func() any {
				return h.get("/.well-known/oauth-authorization-server").json(t)["protected_resources"]
			}
			if got := listed(); got != nil {
				t.Errorf("listed are %v", got)
			}
			c := testClients()["native"]
			refused := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", asksFor(c, "", wiki))).location(t)
			if got := refused.Query().Get("error"); got != "invalid_target" {
				t.Errorf("a resource that is not there: %s", refused)
			}
			h.add(authz.NewResource{Resource: wikiResource()})
			h.clock.advance(seen)
			if got := fmt.Sprint(listed()); got != "["+wiki+"]" {
				t.Errorf("after the first was added, listed are %s", got)
			}
			held := h.redeemFor(c, h.newBrowser().consentAll(asksFor(c, "", wiki)), wiki)
			if scope := held.token(wiki).member(t, "scope"); scope != "wiki:read" {
				t.Errorf("the token has the scope %q", scope)
			}
		})
	}
}

// TestR11AddResourceRefuses: what contradicts another resource, or is too large, is not stored.
func TestR11AddResourceRefuses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.add(authz.NewResource{Resource: tenants()})
	for why, n := range map[string]authz.NewResource{
		"storage: conflict":                                   {Resource: tenants()},
		"storage: not found":                                  {Resource: wikiResource(), Replace: true},
		"neither is more specific":                            {Resource: authz.Resource{URI: "https://mcp.example.com/acme/{service}"}},
		"the configuration lists":                             {Resource: authz.Resource{URI: notes}, Configured: bothResources()},
		"defined with another meaning":                        {Resource: authz.Resource{URI: wiki, Scopes: []authz.Scope{{Name: "tools:call", Description: "Else"}}}},
		"more than 100 scopes":                                {Resource: authz.Resource{URI: wiki, Scopes: make([]authz.Scope, 101)}},
		"more than 200 characters":                            {Resource: authz.Resource{URI: wiki, Name: strings.Repeat("n", 201)}},
		"more than 500 characters":                            {Resource: authz.Resource{URI: wiki, Scopes: []authz.Scope{{Name: "a", Description: strings.Repeat("n", 501)}}}},
		"canonical form":                                      {Resource: authz.Resource{URI: "https://WIKI.example.com/mcp"}},
		"dot segments":                                        {Resource: authz.Resource{URI: "https://wiki.example.com/a/../mcp"}},
		`mcp": metadata: resource: it must be https`:          {Resource: authz.Resource{URI: "http://wiki.example.com/mcp"}},
		`{tenant}/sse": metadata: resource: it must be https`: {Resource: authz.Resource{URI: "http://mcp.example.com/{tenant}/sse"}},
		"not a usable scope name":                             {Resource: authz.Resource{URI: wiki, Scopes: []authz.Scope{{Name: "offline_access"}}}},
	} {
		if _, err := authz.AddResource(t.Context(), h.store, n); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "--replace") {
			t.Errorf("%v; want %q, and no word of replacing what is not there", err, why)
		}
	}
	if _, err := h.store.Resource(t.Context(), wiki); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a resource that was refused is stored: %v", err)
	}
	replaced := tenants()
	replaced.Name, replaced.Introspection = "Renamed", nil
	h.add(authz.NewResource{Resource: replaced, Replace: true})
	list, err := authz.ReadResources(context.Background(), h.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok, err := list.Lookup(acme); err != nil || !ok || m.Resource.Name != "Renamed" || m.DerivedSecret != authz.DeriveSecret(patternSecret, acme) {
		t.Errorf("after a replacement: %+v, %t, %v", m, ok, err)
	}
}

// TestR12OneSetPerRequest: only handlers take a resource set, each once, and hand it on: no request
// is judged by two sets.
func TestR12OneSetPerRequest(t *testing.T) {
	t.Parallel()
	handlers := map[string]int{
		"readAuthorization": 1, "loginPage": 1, "showConsent": 1, "consent": 1, "token": 1, "introspect": 1, // each decides one request
		"knownScopes": 1, "serverMetadata": 1, "showApplications": 1, "decisionPage": 1,
		"needsGroups": 1, // what a provider is asked for
	}
	found := map[string]int{}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && takesSet(call) {
					found[f.Name.Name]++
				}
				return true
			})
		}
	}
	for name, n := range found {
		if n != handlers[name] {
			t.Errorf("%s takes a resource set %d times; want %d: pass the set on from the handler", name, n, handlers[name])
		}
	}
	if len(found) < 6 {
		t.Errorf("only %v take a resource set", found)
	}
}

// takesSet reports whether a call is s.resources.take(…).
func takesSet(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "take" {
		return false
	}
	field, ok := method.X.(*ast.SelectorExpr)
	return ok && field.Sel.Name == "resources"
}

// TestR13MistakesOfPatterns: mistakes of patterns in the configuration are named at the start.
func TestR13MistakesOfPatterns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for why, change := range map[string]func(r *authz.Resource) []authz.Resource{
		"as a whole segment":                    func(r *authz.Resource) []authz.Resource { r.URI = "https://mcp.example.com/x{a}"; return nil },
		"a pattern cannot be the default":       func(r *authz.Resource) []authz.Resource { r.Default = true; return nil },
		"leave out the introspection client_id": func(r *authz.Resource) []authz.Resource { r.Introspection.ID = "x"; return nil },
		"introspection needs":                   func(r *authz.Resource) []authz.Resource { r.Introspection.Secret = ""; return nil },
		"neither is more specific": func(r *authz.Resource) []authz.Resource {
			return []authz.Resource{{URI: "https://mcp.example.com/a/{b}"}}
		},
		"belongs to the pattern": func(r *authz.Resource) []authz.Resource {
			return []authz.Resource{{URI: wiki, Introspection: &authz.IntrospectionClient{ID: acme, Secret: wikiSecret}}}
		},
	} {
		r := tenants()
		cfg := h.cfg
		cfg.Resources = slices.Concat(change(&r), []authz.Resource{r})
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
}

// TestIntrospectionIsListed: the metadata has the introspection endpoint exactly while a resource that
// can be used has a credential there, of its own or for the URIs of a pattern; and the log warns of
// no resource of the store that is as it should be, nor of one that was removed.
func TestIntrospectionIsListed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Resources = c.Resources[:1]
		c.Resources[0].Introspection = nil
	}})
	want := func(what string, listed bool) {
		t.Helper()
		h.clock.advance(seen)
		if got := strings.Contains(h.get("/.well-known/oauth-authorization-server").body, "introspection_endpoint"); got != listed {
			t.Errorf("%s: listed %t", what, got)
		}
	}
	want("without a credential", false)
	bare, pattern := wikiResource(), tenants()
	bare.Introspection = nil
	h.add(authz.NewResource{Resource: bare})
	want("with a resource without one", false)
	h.add(authz.NewResource{Resource: pattern})
	want("with a pattern", true)
	const shape = "https://mcp.example.com/{}/mcp"
	h.disable(shape)
	want("with a pattern that is disabled", false)
	h.enable(shape)
	want("with one that is enabled", true)
	h.remove(shape)
	want("without it", false)
	pattern.Introspection = nil
	h.add(authz.NewResource{Resource: pattern})
	want("with a pattern without a credential", false)
	h.add(authz.NewResource{Resource: wikiResource(), Replace: true})
	want("with a credential of its own", true)
	h.add(authz.NewResource{Resource: bare, Replace: true, Disabled: true})
	want("of one that is disabled", false)
	if strings.Contains(h.log.String(), "a resource in the store: ") {
		t.Errorf("the log warns of something:\n%s", h.log)
	}
}

// TestPatternIsNoDefault: a pattern that is the only resource is not what a request without a resource
// is for, as the only URI is.
func TestPatternIsNoDefault(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for name, pattern := range map[string]bool{"URI": false, "pattern": true} {
		h := newHarness(t, setup{config: func(c *authz.Config) {
			only := bothResources()[1]
			if pattern {
				only = tenants()
			}
			c.Resources = []authz.Resource{only}
		}})
		request := asks(c)
		request.Del("resource")
		request.Del("scope")
		got := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", request)).location(t).Query().Get("error")
		if (got == "invalid_target") != pattern {
			t.Errorf("only a %s: %q", name, got)
		}
	}
}
