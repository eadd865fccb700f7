package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// reload puts a changed copy of the configuration in force.
func (h *harness) reload(change func(*authz.Config)) error {
	cfg := h.cfg
	cfg.Resources = bothResources()
	change(&cfg)
	return h.handler.Load().Reload(h.t.Context(), cfg)
}

func (h *harness) mustReload(change func(*authz.Config)) {
	h.t.Helper()
	if err := h.reload(change); err != nil {
		h.t.Fatal(err)
	}
}

func unchanged(*authz.Config) {}

// TestReloadTakesEffect: each kind of setting holds for the next request, and a grant goes on.
func TestReloadTakesEffect(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	held := h.tokens(testClients()["native"])
	more := authz.Resource{URI: "https://more.example.com/mcp", Name: "More", Scopes: []authz.Scope{{Name: "more:read", Description: "Read more"}}}
	h.mustReload(func(c *authz.Config) {
		c.Resources = append(c.Resources, more)
		c.AccessTokenTTL, c.Registration, c.NoPasswords = 7*time.Minute, authz.RegistrationClosed, false
		c.Pages.Name = "Example Access"
		c.Clients = []storage.Client{{ID: "configured", Metadata: metadata.Client{RedirectURIs: []string{"https://client.example.org/callback"}}}}
	})
	document := h.get("/.well-known/oauth-authorization-server")
	if !strings.Contains(document.body, more.URI) || !strings.Contains(document.body, "more:read") || strings.Contains(document.body, "registration_endpoint") {
		t.Errorf("the metadata are those from before: %s", document.body)
	}
	if got := h.post("/register").status; got != http.StatusNotFound {
		t.Errorf("/register: %d, want 404", got)
	}
	page := h.newBrowser().open(h.issuer + "/authorize?" + replaced(asks(testClients()["web"]), "client_id", "configured", "resource", more.URI).Encode())
	if page.status != http.StatusSeeOther {
		t.Errorf("the new client at the new resource: %s", page)
	}
	b := h.newBrowser()
	b.open(h.issuer + "/account")
	if page := b.follow(); !strings.Contains(page.body, "Example Access") {
		t.Errorf("the page has the look from before: %s", page.body)
	}
	answer := h.refreshed(testClients()["native"], held.refresh)
	if answer.status != http.StatusOK || answer.json(t)["expires_in"] != 7*60.0 || !h.active(held.access) {
		t.Errorf("the grant does not go on under the new settings: %s", answer)
	}
	h.mustReload(unchanged)
	if strings.Contains(h.get("/.well-known/oauth-authorization-server").body, more.URI) {
		t.Error("the resource is there after it was taken out")
	}
}

// TestReloadRefused: a configuration with a mistake, or one that cannot be read whole, changes
// nothing.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	before := h.get("/.well-known/oauth-authorization-server").body
	for _, one := range []struct {
		name   string
		change func(*authz.Config)
		says   string
	}{
		{"a mistake", func(c *authz.Config) { c.AccessTokenTTL = 2 * time.Hour }, "access-token-ttl"},
		{"a resource", func(c *authz.Config) { c.Resources[0].URI = "notes" }, "notes"},
		{"a client", func(c *authz.Config) { c.Clients = []storage.Client{{ID: "no redirect"}} }, "no redirect"},
		{"the issuer", func(c *authz.Config) { c.Issuer = "https://other.example.com" }, "ssuer"},
		{"the algorithm", func(c *authz.Config) { c.SigningAlgorithm = "RS256" }, "SigningAlgorithm cannot change"},
		{"the rotation", func(c *authz.Config) { c.KeyRotation = time.Hour }, "KeyRotation cannot change"},
		{"the cache", func(c *authz.Config) { c.KeyCache = time.Minute }, "KeyCache cannot change"},
	} {
		err := h.reload(func(c *authz.Config) {
			c.Resources = append(c.Resources, authz.Resource{URI: "https://more.example.com/mcp"})
			one.change(c)
		})
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, want an error that says %q", one.name, err, one.says)
		}
	}
	h.faults.SetDown(true)
	if err := h.reload(func(c *authz.Config) { c.Resources = c.Resources[:1] }); err == nil {
		t.Error("a configuration is in force although the store cannot be read")
	}
	h.faults.SetDown(false)
	if after := h.get("/.well-known/oauth-authorization-server").body; after != before {
		t.Errorf("the metadata have changed: %s", after)
	}
}

// TestReloadResetsNoLimit: what was spent stays spent, whatever else has changed.
func TestReloadResetsNoLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(6))
	h.registerUntilRefused("192.0.2.1", "one", 20)
	guess := func() int {
		b := h.newBrowser()
		b.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
		b.follow()
		return b.submit("username", personName, "password", "wrong").status
	}
	guesses := 0
	for ; guess() != http.StatusTooManyRequests; guesses++ {
		if guesses > 100 {
			t.Fatal("passwords can be guessed without a limit")
		}
	}
	for _, one := range []struct {
		change func(*authz.Config)
		free   bool // registrations have no limit
	}{
		{unchanged, false},
		{func(c *authz.Config) { c.Pages.Name, c.Resources = "Other", c.Resources[:1] }, false},
		{func(c *authz.Config) { c.RegistrationQuota = -1 }, true},
		{func(c *authz.Config) { c.RegistrationQuota = 5 }, false},
	} {
		h.mustReload(one.change)
		if n, last := h.registerUntilRefused("192.0.2.1", "one", 1); n == 1 != one.free {
			t.Errorf("a client that registers again: %s", last)
		}
		if got := guess(); got != http.StatusTooManyRequests {
			t.Errorf("a password can be guessed again: %d", got)
		}
	}
}

// TestReloadResetsNoLimitOfThisProcess: the same for what each process counts by itself: requests, and
// what was sent to a provider and came to nothing.
func TestReloadResetsNoLimitOfThisProcess(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Limits.Introspection = 3 })
	ask := map[string]func() int{
		"introspection":   func() int { return p.introspect("none").status },
		"logout tokens":   func() int { return p.sendLogout("company", form("logout_token", "x.y.z")).status },
		"another's limit": func() int { return p.sendLogout("other", form("logout_token", "x.y.z")).status },
	}
	for name, send := range ask {
		for n := 0; send() != http.StatusTooManyRequests; n++ {
			if n > 1000 {
				t.Fatalf("%s have no limit", name)
			}
		}
	}
	for _, change := range []func(*authz.Config){
		unchanged,
		func(c *authz.Config) { c.Limits.Introspection = 4 },
		func(c *authz.Config) {
			c.Providers = slices.Clone(c.Providers)
			c.Providers[0].Name = "Another name"
		},
	} {
		p.mustReload(change)
		for name, send := range ask {
			if got := send(); got != http.StatusTooManyRequests {
				t.Errorf("%s count from nothing after a reload: %d", name, got)
			}
		}
	}
}

// TestReloadIsRecordedByItsCaller: who asked for it and what has changed is not known here.
func TestReloadIsRecordedByItsCaller(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	h.mustReload(func(c *authz.Config) { c.AccessTokenTTL = time.Hour })
	trail.want(t, "a reload")
}

// TestReloadKeepsWork: what requests left to be done later is done by the server that goes on.
func TestReloadKeepsWork(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	native := testClients()["native"]
	h.tokens(native)
	h.mustReload(unchanged)
	h.handler.Load().DoChores(t.Context())
	client, err := h.store.Client(t.Context(), native.ID)
	if err != nil || client.LastUsed.IsZero() {
		t.Errorf("the last use is not recorded: %v, %v", client.LastUsed, err)
	}
}

// TestReloadDocuments: a host that is denied now is refused although its document was read before,
// and one whose rules are the same is not read again.
func TestReloadDocuments(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	id := web.Publish("../dcr/testdata/documents/chatgpt.json")
	const redirect = "https://chatgpt.com/connector/oauth/notes-connector"
	ask := func() int {
		return h.newBrowser().open(h.issuer + "/authorize?" + asks(described(id, redirect)).Encode()).status
	}
	if got := ask(); got != http.StatusSeeOther {
		t.Fatalf("the client is not accepted: %d", got)
	}
	h.mustReload(func(c *authz.Config) { c.Pages.Name = "Other" })
	if got := ask(); got != http.StatusSeeOther || web.Hits(id) != 1 {
		t.Errorf("%d, the document was read %d times, want once", got, web.Hits(id))
	}
	h.mustReload(func(c *authz.Config) { c.Documents = dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"chatgpt.com"}} })
	if got := ask(); got != http.StatusBadRequest {
		t.Errorf("the client of a host that is denied: %d, want 400", got)
	}
}

// TestReloadUnderRequests: twenty reloads, two at a time, while people's tokens are refreshed and
// introspected: no request fails.
func TestReloadUnderRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	native := testClients()["native"]
	held := h.tokens(native)
	done := make(chan struct{})
	var work, reloads sync.WaitGroup
	for range 2 {
		work.Go(func() {
			for {
				if answer := h.introspect(held.access); answer.status != http.StatusOK || !strings.Contains(answer.body, `"active":true`) {
					t.Errorf("introspection: %s", answer)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	work.Go(func() {
		token := held.refresh
		for {
			answer := h.refreshed(native, token)
			if answer.status != http.StatusOK {
				t.Errorf("refresh: %s", answer)
				return
			}
			token = answer.member(t, "refresh_token")
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 2 {
		reloads.Go(func() {
			for range 10 {
				if err := h.reload(unchanged); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reloads.Wait()
	close(done)
	work.Wait()
}
