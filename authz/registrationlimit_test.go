package authz_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// registerFrom sends a registration of a software, as if from an address behind a proxy.
func (h *harness) registerFrom(from, software string) reply {
	h.t.Helper()
	body := fmt.Sprintf(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none","client_name":%q}`, software)
	r := h.newRequest(http.MethodPost, "/register", nil)
	registration, err := http.NewRequest(http.MethodPost, r.URL.String(), strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	registration.Header.Set("Content-Type", "application/json")
	registration.Header.Set("X-Forwarded-For", from)
	return h.send(registration)
}

// registerUntilRefused sends at most most registrations until one is refused, and returns how
// many were not.
func (h *harness) registerUntilRefused(from, software string, most int) (n int, last reply) {
	h.t.Helper()
	for n = range most {
		if last = h.registerFrom(from, software); last.status != http.StatusCreated {
			return n, last
		}
	}
	return most, last
}

func limited(perHour int) setup {
	return setup{config: func(c *authz.Config) {
		c.RegistrationQuota = perHour
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}}
}

// TestRegistrationQuota: there is a limit for one software from one network, and a higher one
// for the network. A request beyond it gets the time to wait, and nothing is stored.
func TestRegistrationQuota(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(6))
	n, refused := h.registerUntilRefused("192.0.2.1", "one", 20)
	if n != 6 {
		t.Fatalf("%d registrations, want 6", n)
	}
	wait, err := strconv.Atoi(refused.header.Get("Retry-After"))
	if refused.status != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 600 {
		t.Errorf("want 429 and Retry-After in ten minutes: %s", refused)
	}
	if refused.member(t, "error") == "" || refused.member(t, "error_description") == "" || refused.header.Get("Cache-Control") != "no-store" {
		t.Errorf("not an answer of OAuth: %s", refused)
	}
	writes := h.meter.writes.Load()
	h.registerFrom("192.0.2.1", "one")
	if h.meter.writes.Load() != writes {
		t.Error("a registration that was turned away was stored")
	}
	for _, other := range []struct{ from, software string }{{"192.0.2.1", "two"}, {"192.0.2.2", "one"}, {"2001:db8::1", "one"}} {
		if n, _ := h.registerUntilRefused(other.from, other.software, 6); n != 6 {
			t.Errorf("%v has %d registrations, want 6 of its own", other, n)
		}
	}
	if n, _ := h.registerUntilRefused("2001:db8::ffff", "one", 1); n != 0 {
		t.Error("another address of the same IPv6 network has a limit of its own")
	}
	h.clock.advance(time.Duration(wait) * time.Second)
	if n, _ := h.registerUntilRefused("192.0.2.1", "one", 5); n != 1 {
		t.Errorf("after Retry-After there are %d registrations, want 1", n)
	}
	all := 0
	for i := range 30 {
		n, _ := h.registerUntilRefused("198.51.100.7", fmt.Sprint("software ", i), 6)
		all += n
	}
	full := h.registerFrom("198.51.100.7", "one more")
	mustWait(t, "a registration beyond the limit of its network", full)
	if full.header.Get("Cache-Control") != "no-store" || full.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a registration beyond the limit of its network: %v", full.header)
	}
	if all != 60 {
		t.Errorf("of any number of softwares one network registered %d clients, want 60", all)
	}
}

// TestScopesOfThePolicy: a client that the operator does not vouch for gets no scope that the
// policy withholds from registered clients, whether it asks for it or not.
func TestScopesOfThePolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.RegistrationPolicy.Scopes = []string{"notes:read", "tasks:write"} }})
	c := h.illustrated("stranger", "", "")
	granted := h.newBrowser().tokens(c, replaced(asks(c), "scope", ""))
	if got := claims(t, granted.access)["scope"]; got != "notes:read" {
		t.Errorf("without a scope parameter the token has %v, want notes:read", got)
	}
	granted = h.newBrowser().tokens(c, replaced(asks(c), "scope", "notes:read offline_access"))
	if got := claims(t, granted.access)["scope"]; got != "notes:read" {
		t.Errorf("the token has %v, want notes:read", got)
	}
	for _, request := range []map[string]string{{"scope": "notes:read notes:write"}, {"scope": "notes:write"}, {"scope": "", "resource": tasks}} {
		values := asks(c)
		for name, value := range request {
			values.Set(name, value)
		}
		b := h.newBrowser()
		if got := b.open("/authorize?" + values.Encode()); !strings.Contains(got.header.Get("Location"), "error=invalid_scope") {
			t.Errorf("%v: %s", request, got)
		}
	}
	known := testClients()["native"]
	known.ID, known.Source = "known", storage.ClientConfigured
	h.addClient(known.Client)
	granted = h.newBrowser().tokens(known, replaced(asks(known), "scope", "notes:write"))
	if got := claims(t, granted.access)["scope"]; got != "notes:write" {
		t.Errorf("a client that the operator knows gets %v", got)
	}
}

// TestRegistrationQuotaOff: a negative setting means no limit.
func TestRegistrationQuotaOff(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(-1))
	if n, last := h.registerUntilRefused("192.0.2.1", "one", 700); n != 700 {
		t.Errorf("registration %d: %s", n, last)
	}
}

// TestRegistrationQuotaRefused: a registration that is refused for another reason, or fails,
// does not count.
func TestRegistrationQuotaRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(2))
	for range 10 {
		if r := h.post("/register", "not", "JSON"); r.status != http.StatusBadRequest {
			t.Fatalf("%s", r)
		}
	}
	h.faults.SetDown(true)
	for range 10 {
		if r := h.registerFrom("127.0.0.1", "one"); r.status != http.StatusServiceUnavailable {
			t.Fatalf("%s", r)
		}
	}
	h.faults.SetDown(false)
	if n, _ := h.registerUntilRefused("127.0.0.1", "one", 5); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
}

// heavyClient returns a registration of about 60 KiB.
func heavyClient(name string) string {
	var members strings.Builder
	for i := range 30 {
		fmt.Fprintf(&members, `,"tos_uri#x-%d":"https://client.example.org/%s"`, i, strings.Repeat("a", 2000))
	}
	return fmt.Sprintf(`{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none","client_name":%q%s}`, name, &members)
}

// sendJSONFrom sends JSON as if from an address behind a proxy.
func (h *harness) sendJSONFrom(from, method, target, bearer, body string) reply {
	h.t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", from)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	return h.send(r)
}

// TestRegistrationsAreWeighed: large registrations reach the limit on bytes, of their
// network and of all networks, before the limit on their number.
func TestRegistrationsAreWeighed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(40)) // 800 KiB an hour for one address, 6.25 MiB for all
	through := func(from string, most int) (n int) {
		t.Helper()
		for n = range most {
			answer := h.sendJSONFrom(from, http.MethodPost, h.issuer+"/register", "", heavyClient(fmt.Sprint(from, n)))
			if answer.status == http.StatusTooManyRequests {
				if answer.header.Get("Retry-After") == "" || answer.member(t, "error") == "" {
					t.Errorf("%s", answer)
				}
				return n
			}
			if answer.status != http.StatusCreated {
				t.Fatalf("%s", answer)
			}
		}
		return most
	}
	if n := through("192.0.2.1", 39); n < 10 || n > 14 {
		t.Errorf("one address registered %d large clients, want about 13", n)
	}
	if n := through("192.0.2.2", 39) + through("192.0.2.3", 39); n < 10 || n > 14 {
		t.Errorf("the rest of its /24 registered %d more, want about 13", n)
	}
	if n, last := h.registerUntilRefused("198.51.100.1", "small", 40); n != 40 {
		t.Errorf("small ones of somebody else: %d, then %s", n, last)
	}
	all := 0
	for i := range 20 {
		all += through(fmt.Sprintf("203.0.%d.1", i), 39)
	}
	if all < 65 || all > 85 {
		t.Errorf("many networks registered %d more, want about 75 for 6.25 MiB in all", all)
	}
	h.clock.advance(time.Hour)
	if n := through("192.0.2.1", 5); n != 5 {
		t.Errorf("an hour later %d of 5", n)
	}
}

// TestPutCountsLikePost: replacing a registration counts like a new one, in number and
// bytes, under the same limits.
func TestPutCountsLikePost(t *testing.T) {
	t.Parallel()
	h := newHarness(t, limited(6))
	client := h.registerFrom("192.0.2.1", "one")
	token, target := client.member(t, "registration_access_token"), client.member(t, "registration_client_uri")
	put := func(from, body string) reply {
		t.Helper()
		answer := h.sendJSONFrom(from, http.MethodPut, target, token, strings.Replace(body, "{", `{"client_id":"`+client.member(t, "client_id")+`",`, 1))
		if answer.status == http.StatusOK {
			token = answer.member(t, "registration_access_token")
		}
		return answer
	}
	small := `{"redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none","client_name":"one"}`
	for i := range 5 {
		if answer := put("192.0.2.1", small); answer.status != http.StatusOK {
			t.Fatalf("replacement %d: %s", i, answer)
		}
	}
	writes := h.meter.writes.Load()
	for _, answer := range []reply{put("192.0.2.1", small), h.registerFrom("192.0.2.1", "one")} {
		if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") == "" {
			t.Errorf("after six: %s", answer)
		}
	}
	if h.meter.writes.Load() != writes {
		t.Error("what was turned away was stored")
	}
	n := 0
	for n < 6 && put("198.51.100.1", heavyClient("one")).status == http.StatusOK {
		n++
	}
	if n < 3 || n > 5 { // 256 KiB
		t.Errorf("an address replaced a client %d times by 60 KiB, want about 4", n)
	}
	for range 3 {
		if answer := put("203.0.113.1", "{"); answer.status != http.StatusBadRequest {
			t.Errorf("%s", answer)
		}
	}
	h.faults.SetDown(true)
	for range 10 {
		put("203.0.113.1", small)
	}
	h.faults.SetDown(false)
	if answer := put("203.0.113.1", small); answer.status != http.StatusOK {
		t.Errorf("what was refused or failed was counted: %s", answer)
	}
}
