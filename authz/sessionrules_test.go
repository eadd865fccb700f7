package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// put gives a cookie to a browser of secureIssuer.
func (b *browser) put(base, value string) {
	b.jar.SetCookies(mustURL(secureIssuer), []*http.Cookie{{Name: "__Host-" + cookieName(secureIssuer, base), Value: value, Path: "/", Secure: true}})
}

// TestPlantedCookies: a cookie that this server would not have made is replaced, signs nobody in, and
// costs no access to the store if it is too long; nor does what cannot be the id of a transaction.
func TestPlantedCookies(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for _, planted := range []string{"gate_br_", "gate_br_x", "gate_br_" + strings.Repeat("x", 42), "gate_br_" + strings.Repeat("x", 44), "x" + strings.Repeat("x", 50), "gate_br_" + strings.Repeat("x", 400)} {
		b := h.newBrowser()
		b.put("authz_browser", planted)
		set := cookiesOf(t, b.open(h.issuer+"/authorize?"+asks(c).Encode()))[hostBrowser]
		if set == nil || len(set.Value) != len("gate_br_")+43 || set.Value == planted {
			t.Errorf("%q is kept: %+v", planted, set)
		}
	}
	b := h.newBrowser()
	b.put("authz_session", "gate_se_"+strings.Repeat("x", 400))
	trips := h.roundTrips.Load()
	if r := b.open(h.issuer + "/account"); r.status != http.StatusSeeOther || h.roundTrips.Load() != trips {
		t.Errorf("a long cookie: %s, %d round trips", r, h.roundTrips.Load()-trips)
	}
	for id, most := range map[string]int64{strings.Repeat("A", 22): 1, strings.Repeat("A", 21): 0, strings.Repeat("A", 21) + ":": 0, strings.Repeat("%00", 22): 0} {
		trips := h.roundTrips.Load()
		mustShow(t, b.open(h.issuer+"/login?transaction="+id), http.StatusBadRequest, "invalid_request")
		if n := h.roundTrips.Load() - trips; n != most {
			t.Errorf("a transaction %q: %d round trips, want %d", id, n, most)
		}
	}
}

// TestSessionOfNobody: a session that names no subject signs nobody in, whoever has its name.
func TestSessionOfNobody(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	now := h.clock.Now()
	for _, name := range []string{"nobody", personName} {
		secret := "gate_se_of_" + name
		h.must(h.store.CreateSession(t.Context(), secret, storage.Session{UserName: name, AuthTime: now, Begun: now, Seen: now, IdleExpires: now.Add(time.Hour), Expires: now.Add(time.Hour)}))
		b := h.newBrowser()
		b.put("authz_session", secret)
		if r := b.open(h.issuer + "/account"); r.status != http.StatusSeeOther {
			t.Errorf("%s: %s", name, r)
		}
		if got := b.unasked(asks(c)); got != "login_required" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestSignInInTheFuture: a session counts from now if the clock of the provider is ahead.
func TestSignInInTheFuture(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	now := p.clock.Now()
	p.company.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(m map[string]any) { m["auth_time"] = now.Add(30 * time.Second).Unix() }
	})
	p.newBrowser().arrive(p.company, "company", asks(testClients()["native"]))
	for session, err := range p.store.Sessions(t.Context(), p.user(t, adaName).Subject) {
		if err != nil || !session.AuthTime.Equal(now) {
			t.Errorf("the session counts from %s, %v; want %s", session.AuthTime, err, now)
		}
	}
}
