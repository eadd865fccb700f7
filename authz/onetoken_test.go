package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
)

func audience(t *testing.T, r reply) string {
	t.Helper()
	if r.status != http.StatusOK {
		t.Errorf("no token: %s", r)
		return ""
	}
	return fmt.Sprint(claims(t, r.member(t, "access_token"))["aud"])
}

// TestOneTokenOneServer: a token of a grant for several resources is for the resource that
// the request names. A request that names none is refused with an explanation and does not
// use up the code. A request may name several. A refresh that names none is for those that
// the redemption named.
func TestOneTokenOneServer(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for name, tt := range map[string]struct {
		redeem []string
		first  string
	}{
		"the first":    {[]string{notes}, notes},
		"the second":   {[]string{tasks}, tasks},
		"one of none":  {[]string{files}, files},
		"two of three": {[]string{tasks, notes}, "[" + tasks + " " + notes + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: sharing})
			code := h.newBrowser().code(asksFor(c, "", notes, tasks, files))
			before := h.meter.writes.Load()
			for _, values := range [][]string{nil, {""}, {"", ""}} {
				r := h.toToken(c, naming(redemption(c, code), values...))
				mustRefuse(t, r, http.StatusBadRequest, "invalid_target")
				if d := r.member(t, "error_description"); !strings.Contains(d, "with the parameter resource") {
					t.Errorf("the sentence does not name the parameter: %q", d)
				}
			}
			if n := h.meter.writes.Load() - before; n != 0 {
				t.Errorf("%d writes", n)
			}
			trips := h.roundTrips.Load()
			answer := h.toToken(c, naming(redemption(c, code), tt.redeem...))
			if got := audience(t, answer); got != tt.first {
				t.Fatalf("a token for %s, want %s", got, tt.first)
			}
			held := heldGrant{h: h, c: c, refresh: answer.member(t, "refresh_token")}
			previous := held.refresh
			if got := audience(t, held.token()); got != tt.first {
				t.Errorf("refreshed for %s, want %s", got, tt.first)
			}
			if n := h.roundTrips.Load() - trips; n > 4 {
				t.Errorf("redeeming and refreshing took %d round trips", n)
			}
			again := heldGrant{h: h, c: c, refresh: previous} // inside the window
			if got := audience(t, again.token()); got != tt.first || again.refresh != held.refresh {
				t.Errorf("repeated for %s, want %s", got, tt.first)
			}
			again.refresh = previous
			if got := audience(t, again.token(files)); got != files || again.refresh != held.refresh {
				t.Errorf("repeated for another resource, by name: %s", got)
			}
			if got := audience(t, held.token(notes, files)); got != "["+notes+" "+files+"]" {
				t.Errorf("several by name: %s", got)
			}
			if got := audience(t, held.token()); got != tt.first {
				t.Errorf("naming another one changed the one that is not named: %s", got)
			}
		})
	}
}

// TestSoleResource: with one resource the request need not name it, whether the others were
// not requested or not allowed.
func TestSoleResource(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	b := h.newBrowser()
	if got := audience(t, h.toToken(c, redemption(c, b.code(asksFor(c, "", tasks))))); got != tasks {
		t.Errorf("asked for alone: %s", got)
	}
	b.consentTo(asksFor(c, "", notes, tasks, files))
	code := b.tick(files).location(t).Query().Get("code")
	if got := audience(t, h.toToken(c, redemption(c, code))); got != files {
		t.Errorf("allowed alone: %s", got)
	}
}

// TestNeverAnotherOne: a client that names no resource, and whose resource has ended or is
// no longer configured, gets no token for another one: it would send it to the wrong server.
// It can name the others.
func TestNeverAnotherOne(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for name, end := range map[string]func(h *harness, held *heldGrant){
		"ended by its own token": func(h *harness, held *heldGrant) {
			access := held.token().member(h.t, "access_token")
			if r := h.post("/revoke", "token", access, "client_id", c.ID); r.status != http.StatusOK {
				h.t.Fatalf("revoke: %s", r)
			}
		},
		"not served any more": func(h *harness, _ *heldGrant) {
			h.cfg.Resources = h.cfg.Resources[1:]
			h.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: sharing})
			code := h.newBrowser().code(asksFor(c, "", notes, tasks))
			held := heldGrant{h: h, c: c, refresh: h.toToken(c, naming(redemption(c, code), notes)).member(t, "refresh_token")}
			end(h, &held)
			before := h.meter.writes.Load()
			for range 2 {
				r := held.token()
				mustRefuse(t, r, http.StatusBadRequest, "invalid_target")
				if d := r.member(t, "error_description"); !strings.Contains(d, "with the parameter resource") {
					t.Errorf("the sentence does not name the parameter: %q", d)
				}
			}
			if n := h.meter.writes.Load() - before; n != 0 {
				t.Errorf("%d writes: a refused refresh does not rotate", n)
			}
			held.mustHold(tasks, []string{"tasks:read", "tasks:write", "profile"})
			// The code is used up, and presenting it again is still a replay.
			mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
			mustRefuse(t, held.token(tasks), http.StatusBadRequest, "invalid_grant")
		})
	}
}

// TestOthersOfAnAudience: a refresh that names none is for those of the grant's first token that are
// left, so for no other server, and for all again when they are served again.
func TestOthersOfAnAudience(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	code := h.newBrowser().code(asksFor(c, "", notes, tasks, files))
	held := heldGrant{h: h, c: c, refresh: h.toToken(c, naming(redemption(c, code), notes, tasks)).member(t, "refresh_token")}
	all := h.cfg.Resources
	for _, tt := range []struct {
		served []authz.Resource
		want   string
	}{{all[1:], tasks}, {all, "[" + notes + " " + tasks + "]"}} {
		h.cfg.Resources = tt.served
		h.restart()
		if got := audience(t, held.token()); got != tt.want {
			t.Errorf("with %d resources a token for %s, want %s", len(tt.served), got, tt.want)
		}
	}
	h.cfg.Resources = all[2:]
	h.restart()
	mustRefuse(t, held.token(), http.StatusBadRequest, "invalid_target")
}

// TestRemovedRedirectURI: a code that was sent to a redirect URI that the client no longer
// has is refused, and not used up; a replay of it still ends the family.
func TestRemovedRedirectURI(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	registered := func(uris ...string) reply {
		body := `{"client_name":"Example","redirect_uris":["` + strings.Join(uris, `","`) + `"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]`
		return reply{body: body}
	}
	const kept, removed = "https://client.example.org/callback", "https://old.example.org/callback"
	r := h.newRequest(http.MethodPost, h.issuer+"/register", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Body = bodyOf(registered(kept, removed).body + "}")
	client := h.send(r)
	c := testClient{redirect: removed}
	c.ID = client.member(t, "client_id")
	c.Metadata.TokenEndpointAuthMethod = "none"
	b := h.newBrowser()
	code, spent := b.code(asks(c)), b.code(asks(c))
	held := h.toToken(c, redemption(c, spent)).member(t, "refresh_token")
	put := func(uris ...string) {
		t.Helper()
		r := h.newRequest(http.MethodPut, client.member(t, "registration_client_uri"), nil)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+client.member(t, "registration_access_token"))
		r.Body = bodyOf(registered(uris...).body + `,"client_id":"` + c.ID + `"}`)
		if client = h.send(r); client.status != http.StatusOK {
			t.Fatalf("update: %s", client)
		}
		h.restart() // empties the cache of clients, which otherwise takes a few seconds
	}
	put(kept)
	for _, values := range [][]string{nil, {"redirect_uri", ""}} { // named and left out
		mustRefuse(t, h.toToken(c, replaced(redemption(c, code), values...)), http.StatusBadRequest, "invalid_grant")
	}
	put(kept, removed)
	if answer := h.toToken(c, redemption(c, code)); answer.status != http.StatusOK {
		t.Errorf("the code was spent: %s", answer)
	}
	put(kept)
	mustRefuse(t, h.toToken(c, redemption(c, spent)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, held)), http.StatusBadRequest, "invalid_grant")
}
