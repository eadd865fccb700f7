package authz_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// effect is what one field of the configuration does.
type effect struct {
	always func(*authz.Config) // may be nil
	change func(*authz.Config)
	see    func(h *harness) string // differs by the field
}

const day = 24 * time.Hour

// effects are the fields of which this file shows that a reload changes what the server does.
var effects = map[string]effect{
	"Resources":    {nil, func(c *authz.Config) { c.Resources = c.Resources[:1] }, (*harness).metadataText},
	"Registration": {nil, func(c *authz.Config) { c.Registration = authz.RegistrationClosed }, (*harness).metadataText},
	"Groups": {
		func(c *authz.Config) { c.Resources[0].Allow.Groups = []string{"staff"} },
		func(c *authz.Config) { c.Groups = map[string][]string{"staff": {personName}} },
		func(h *harness) string { return pageFor(h, "web", `value="allow"`) },
	},
	"RegistrationPolicy": {nil, func(c *authz.Config) { c.RegistrationPolicy.RedirectHosts = []string{"example.com"} }, registersAt},
	"Limits": {nil, func(c *authz.Config) { c.Limits.Documents = 3 }, func(h *harness) string {
		return fmt.Sprint(documentsUntilRefused(h, "192.0.2.1", 50) < 50)
	}},
	"TrustedProxies": {
		func(c *authz.Config) { c.Limits.Documents = 3 },
		func(c *authz.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} },
		func(h *harness) string {
			documentsUntilRefused(h, "192.0.2.1", 50)
			return fmt.Sprint(documentsUntilRefused(h, fmt.Sprintf("198.51.%d.1", serials.Add(1)), 1)) // from another network
		},
	},
	"ClientUnused": {nil, func(c *authz.Config) { c.ClientUnused = 2 * day }, func(h *harness) string {
		answer := h.registration(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none"}`)
		h.clock.advance(3 * day)
		h.handler.Load().DoChores(h.t.Context())
		c := testClients()["web"]
		c.ID = answer.member(h.t, "client_id")
		return fmt.Sprint(h.newBrowser().open(h.issuer + "/authorize?" + asks(c).Encode()).status)
	}},
	"ClientIdle": {nil, func(c *authz.Config) { c.ClientIdle = 20 * day }, func(h *harness) string {
		c, chores := testClients()["web"], h.handler.Load().DoChores
		c.ID = h.registration(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`).member(h.t, "client_id")
		h.revoke(c, h.tokens(c).refresh)
		chores(h.t.Context())
		h.clock.advance(25 * day)
		h.must(h.handler.Load().ReapClients(h.t.Context()))
		return fmt.Sprint(h.newBrowser().open(h.issuer + "/authorize?" + asks(c).Encode()).status)
	}},
	"Clients": {nil, func(c *authz.Config) {
		configured := testClients()["web"].Client
		configured.ID = "configured"
		c.Clients = []storage.Client{{ID: configured.ID, Metadata: configured.Metadata}}
	}, func(h *harness) string {
		return fmt.Sprint(h.newBrowser().open(h.issuer + "/authorize?" + replaced(asks(testClients()["web"]), "client_id", "configured").Encode()).status)
	}},
	"AssertionAudience": {nil, func(c *authz.Config) { c.AssertionAudience = authz.AudienceIssuerOrEndpoint }, func(h *harness) string {
		h.clock.advance(time.Minute) // wrong ones are slowed down
		c := testClient{Client: storage.Client{ID: "signing-client"}}
		if _, err := h.store.Client(h.t.Context(), c.ID); err != nil {
			c = signing(h)
		}
		return h.post("/token", "grant_type", "refresh_token", "refresh_token", "none", "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
			"client_assertion", h.assertion(clientKey(), c.ID, h.issuer+"/token", nil)).member(h.t, "error")
	}},
	"AccessTokenTTL": {nil, func(c *authz.Config) { c.AccessTokenTTL = 7 * time.Minute }, func(h *harness) string {
		native := testClients()["native"]
		return fmt.Sprint(h.refreshed(native, h.tokens(native).refresh).json(h.t)["expires_in"])
	}},
	"CodeTTL": {nil, func(c *authz.Config) { c.CodeTTL = 40 * time.Second }, func(h *harness) string {
		native := testClients()["native"]
		code := h.newBrowser().code(asks(native))
		h.clock.advance(50 * time.Second)
		return fmt.Sprint(h.toToken(native, redemption(native, code)).status)
	}},
	"RefreshWindow": {nil, func(c *authz.Config) { c.RefreshWindow = 10 * time.Second }, refreshesAfter(20*time.Second, true)},
	"RefreshIdle":   {nil, func(c *authz.Config) { c.RefreshIdle = 20 * day }, refreshesAfter(25*day, false)},
	"RefreshMax": {
		func(c *authz.Config) { c.RefreshIdle = 30 * day },
		func(c *authz.Config) { c.RefreshIdle, c.RefreshMax = 30*day, 30*day },
		func(h *harness) string {
			native := testClients()["native"]
			held := h.tokens(native)
			h.clock.advance(20 * day)
			held.refresh = h.refreshed(native, held.refresh).member(h.t, "refresh_token")
			h.clock.advance(20 * day)
			return fmt.Sprint(h.toToken(native, refreshing(native, held.refresh)).status)
		},
	},
	"SessionIdle": {nil, func(c *authz.Config) { c.SessionIdle = time.Hour }, signedInAfter(90 * time.Minute)},
	"SessionMax":  {func(c *authz.Config) { c.SessionIdle = 12 * time.Hour }, func(c *authz.Config) { c.SessionIdle, c.SessionMax = time.Hour, time.Hour }, signedInAfter(90 * time.Minute)},
	"ConsentRemember": {nil, func(c *authz.Config) { c.ConsentRemember = []time.Duration{} }, func(h *harness) string {
		return pageFor(h, "web", `name="remember"`)
	}},
	"InsecureRememberUnvouched": {nil, func(c *authz.Config) { c.InsecureRememberUnvouched = true }, func(h *harness) string {
		return pageFor(h, "native", `name="remember"`)
	}},
	"PreApproved": {nil, func(c *authz.Config) {
		c.PreApproved = []authz.PreApproval{{ClientID: "basic-client", Resource: notes, Scopes: []string{"notes:read", "notes:write"}}}
	}, func(h *harness) string { return pageFor(h, "basic", `name="scope"`) }},
	"Catalogue": {nil, func(c *authz.Config) { c.Catalogue = "https://servers.example.com/" }, func(h *harness) string {
		return fmt.Sprint(strings.Contains(signedInAt(h).open(h.issuer+"/account").body, "https://servers.example.com/"))
	}},
	"Pages": {nil, func(c *authz.Config) { c.Pages.Name = "Example Access" }, func(h *harness) string { return signInShows(h, "Example Access") }},
	"NoPasswords": {nil, func(c *authz.Config) { c.NoPasswords = true }, func(h *harness) string {
		return signInShows(h, `name="password"`)
	}},
}

// shownElsewhere are the tests of the other fields that a reload takes.
var shownElsewhere = map[string]func(*testing.T){
	"RegistrationQuota": TestReloadResetsNoLimit,
	"Documents":         TestReloadDocuments,
	"Providers":         TestReloadDuringSignInAtProvider,
	"StatementIssuers":  TestReloadOfStatementIssuers,
	"RecheckGrace":      TestReloadOfRecheckGrace,
	// No setting of authz serve changes these three in a process that runs.
	"ProviderProxy": nil, "ProviderRoots": nil, "InsecureProviders": nil,
}

// keptFields stay as they are, and fixedFields cannot change: [TestReloadRefused].
var (
	keptFields  = []string{"Store", "Fetcher", "Egress", "CheckPassword", "Observe", "Audit", "Trace", "Logger", "Now", "Rand"}
	fixedFields = []string{"Issuer", "SigningAlgorithm", "KeyRotation", "KeyCache"}
)

// TestReloadTakesEachField: a field of the configuration does after a reload what it does at a start,
// and what it did before when its old value is back. A field that nobody tries is a fault.
func TestReloadTakesEachField(t *testing.T) {
	t.Parallel()
	lists := map[string]int{}
	for _, name := range append(keptFields, fixedFields...) {
		lists[name]++
	}
	for name := range shownElsewhere {
		lists[name]++
	}
	for name := range effects {
		lists[name]++
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[authz.Config]()) {
		if lists[field.Name] != 1 {
			t.Errorf("%s is in %d lists of this file: say what a reload does with it, and show it", field.Name, lists[field.Name])
		}
	}
	for name, one := range effects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			always := one.always
			if always == nil {
				always = unchanged
			}
			h := newHarness(t, setup{config: always})
			with := func(change func(*authz.Config)) string {
				h.mustReload(func(c *authz.Config) { always(c); change(c) })
				return one.see(h)
			}
			before, after, back := one.see(h), with(one.change), with(unchanged)
			if before == after || back != before {
				t.Errorf("before %q, after %q, back %q", before, after, back)
			}
		})
	}
}

func (h *harness) metadataText() string { return h.get("/.well-known/oauth-authorization-server").body }

func registersAt(h *harness) string {
	return fmt.Sprint(h.registration(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none"}`).status)
}

// documentsUntilRefused asks for a document until that is refused, and returns how often it was not.
func documentsUntilRefused(h *harness, from string, most int) (n int) {
	for n < most && h.asked(from, http.MethodGet, h.issuer+"/jwks.json").status != http.StatusTooManyRequests {
		n++
	}
	return n
}

// pageFor tells whether the page after the sign-in for a client has a text.
func pageFor(h *harness, client, text string) string {
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(testClients()[client]).Encode())
	b.follow()
	b.submit("username", personName, "password", personPassword)
	return fmt.Sprint(strings.Contains(b.follow().body, text))
}

func signInShows(h *harness, text string) string {
	b := h.newBrowser()
	b.open(h.issuer + "/account")
	return fmt.Sprint(strings.Contains(b.follow().body, text))
}

func signedInAt(h *harness) *browser {
	b := h.newBrowser()
	b.open(h.issuer + "/account")
	b.follow()
	b.submit("username", personName, "password", personPassword)
	b.follow()
	return b
}

func signedInAfter(d time.Duration) func(*harness) string {
	return func(h *harness) string {
		b := signedInAt(h)
		h.clock.advance(d)
		return fmt.Sprint(b.open(h.issuer + "/account").status)
	}
}

// refreshesAfter returns the answer to a refresh token of some age, which was used before or not.
func refreshesAfter(d time.Duration, used bool) func(*harness) string {
	return func(h *harness) string {
		native := testClients()["native"]
		held := h.tokens(native)
		if used {
			h.refreshed(native, held.refresh)
		}
		h.clock.advance(d)
		return fmt.Sprint(h.toToken(native, refreshing(native, held.refresh)).status)
	}
}

// TestReloadOfStatementIssuers: the statement of an issuer that was not known is one after a reload that
// names it, and is judged.
func TestReloadOfStatementIssuers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	see := func() string {
		const statement = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL3B1Ymxpc2hlci5leGFtcGxlLmNvbSJ9.AAAA" // from https://publisher.example.com, with a wrong signature
		return h.registration(`{"software_statement":"`+statement+`","redirect_uris":["https://client.example.org/callback"]}`).member(t, "error")
	}
	known := func(c *authz.Config) {
		c.StatementIssuers = []dcr.StatementIssuer{{Issuer: "https://publisher.example.com"}}
		if err := json.Unmarshal([]byte(clientKey().set()), &c.StatementIssuers[0].Keys); err != nil {
			t.Error(err)
		}
	}
	if got := see(); got != "unapproved_software_statement" {
		t.Errorf("before: %s", got)
	}
	h.mustReload(known)
	if got := see(); got != "invalid_software_statement" {
		t.Errorf("after: %s", got)
	}
	h.mustReload(unchanged)
	if got := see(); got != "unapproved_software_statement" {
		t.Errorf("back: %s", got)
	}
}

// TestReloadOfRecheckGrace: the grace of now counts, also for somebody whose provider has not answered
// since before.
func TestReloadOfRecheckGrace(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody) // a grace of four hours
	p.company.Change(func(a *upstreamtest.Answers) { *a = upstreamtest.Answers{First: down("/token"), Rotates: true} })
	p.after(t, time.Hour)
	p.after(t, time.Hour)
	p.wantEnded(t, "in the grace", b, &held, false)
	p.mustReload(func(c *authz.Config) { c.RecheckGrace = 2 * time.Hour })
	p.after(t, time.Hour)
	p.wantEnded(t, "after the grace of now", b, &held, true)
}
