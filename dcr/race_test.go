package dcr_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

func isRemoved(err error, because string) bool {
	var removed *storage.RemovedError
	return errors.Is(err, storage.ErrNotFound) && errors.As(err, &removed) && removed.Because == because
}

// TestTwoReplacements: a replacement between the read and the write of another one succeeds.
// The other one fails with an error, and the client is as the first left it.
func TestTwoReplacements(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	var winner answer
	f.backend.before(func() { winner = f.put(t, m.id, m.update(`"client_name":"Winner"`), m.bearer()) })
	loser := f.put(t, m.id, m.update(`"client_name":"Loser"`), m.bearer())
	if winner.status != http.StatusOK || loser.status != http.StatusBadRequest || loser.text("error") != "invalid_client_metadata" {
		t.Fatalf("winner %s, loser %s", winner.raw, loser.raw)
	}
	c := f.stored(t, m.id)
	if c.Metadata.ClientName != "Winner" || !c.RegistrationToken.Matches(winner.text("registration_access_token")) || !c.PreviousToken.Matches(m.token) {
		t.Errorf("stored %+v", c)
	}
}

// TestManyReplacements: of many concurrent replacements one succeeds. Exactly one token is the
// current one, and the stored metadata is that of the request that received it.
func TestManyReplacements(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	answers := make([]answer, 8)
	var group sync.WaitGroup
	f.backend.hold("get", "client", len(answers)) // all have seen the first token
	for i := range answers {
		group.Go(func() {
			answers[i] = f.put(t, m.id, m.update(`"client_name":"`+strings.Repeat("x", i+1)+`"`), m.bearer())
		})
	}
	group.Wait()
	c, present, won := f.stored(t, m.id), 0, 0
	for i, a := range answers {
		if a.status != http.StatusOK && a.status != http.StatusBadRequest {
			t.Errorf("status %d: %s", a.status, a.raw)
		}
		if a.status == http.StatusOK {
			won++
		}
		if a.status == http.StatusOK && c.RegistrationToken.Matches(a.text("registration_access_token")) {
			present++
			if len(c.Metadata.ClientName) != i+1 {
				t.Errorf("the token is that of %d, the name that of %d", i+1, len(c.Metadata.ClientName))
			}
		}
	}
	if present != 1 || won != 1 {
		t.Errorf("%d won, and %d have the present token", won, present)
	}
}

// TestReplaceAndUse: a concurrent replacement and use both take effect.
func TestReplaceAndUse(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, `"token_endpoint_auth_method":"none"`)
	f.backend.before(func() {
		if err := f.store.UseClient(context.Background(), m.id, f.clock.now()); err != nil {
			t.Error(err)
		}
	})
	a := f.put(t, m.id, m.update(`"client_name":"New"`), m.bearer())
	c := f.stored(t, m.id)
	if a.status != http.StatusOK || c.Metadata.ClientName != "New" || c.LastUsed.IsZero() || !c.Expires.IsZero() || !c.Secret.Matches(a.text("client_secret")) {
		t.Errorf("%s, stored %+v", a.raw, c)
	}
}

// TestReplaceAndDelete: a replacement that comes after a concurrent deletion finds no client.
func TestReplaceAndDelete(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	g := f.grant(t, m.id, time.Hour)
	var deleted answer
	f.backend.before(func() { deleted = f.delete(t, m.id, m.bearer()) })
	replaced := f.put(t, m.id, m.update(""), m.bearer())
	if deleted.status != http.StatusNoContent || replaced.status != http.StatusUnauthorized {
		t.Errorf("deleted %d %s, replaced %d %s", deleted.status, deleted.raw, replaced.status, replaced.raw)
	}
	if _, err := f.store.Client(context.Background(), m.id); !isRemoved(err, "it deleted its registration") {
		t.Errorf("error %v", err)
	}
	f.assertRevoked(t, g, true)
}

// TestDeleteAndReplace: a replacement does not keep a client from being deleted by the
// token that it was made with.
func TestDeleteAndReplace(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	var replaced answer
	f.backend.before(func() { replaced = f.put(t, m.id, m.update(""), m.bearer()) })
	deleted := f.delete(t, m.id, m.bearer())
	if replaced.status != http.StatusOK || deleted.status != http.StatusNoContent {
		t.Errorf("deleted %d %s, replaced %d %s", deleted.status, deleted.raw, replaced.status, replaced.raw)
	}
	if a := f.get(t, m.id, "Bearer "+replaced.text("registration_access_token")); a.status != http.StatusUnauthorized {
		t.Errorf("status %d: %s", a.status, a.raw)
	}
}

// TestDisableAndReplace: a client that was disabled stays as it was, and disabled.
func TestDisableAndReplace(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, `"client_name":"Old"`)
	f.backend.before(func() {
		if err := dcr.Disable(context.Background(), f.store, m.id); err != nil {
			t.Error(err)
		}
	})
	a := f.put(t, m.id, m.update(`"client_name":"New"`), m.bearer())
	if c := f.stored(t, m.id); a.status != http.StatusUnauthorized || !c.Disabled || c.Metadata.ClientName != "Old" {
		t.Errorf("%d %s, stored %+v", a.status, a.raw, c)
	}
}

// TestDeleteAndRefresh: in every interleaving of refreshing and deleting, nothing can be
// refreshed after the deletion was answered.
func TestDeleteAndRefresh(t *testing.T) {
	f := newFixture(t, nil)
	for range 20 {
		m := f.register(t, "")
		g := f.grant(t, m.id, time.Hour)
		var group sync.WaitGroup
		group.Go(func() {
			for range 30 { // fewer than a revocation bears with
				next, err := f.store.Rotate(context.Background(), g, f.lifetime(time.Hour))
				if err != nil {
					return
				}
				g = next
			}
		})
		if a := f.delete(t, m.id, m.bearer()); a.status != http.StatusNoContent {
			t.Errorf("status %d: %s", a.status, a.raw)
		}
		group.Wait()
		f.assertRevoked(t, g, true)
	}
}

// TestManagingFaults: a store that fails at any step causes a 503, and the client can retry
// with the same token.
func TestManagingFaults(t *testing.T) {
	f := newFixture(t, nil)
	down := func() { f.faults.SetDown(true) }
	unavailable := func(what string, a answer) {
		t.Helper()
		f.faults.SetDown(false)
		if a.status != http.StatusServiceUnavailable || a.text("error") != "temporarily_unavailable" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d: %s", what, a.status, a.raw)
		}
	}
	m := f.register(t, `"client_name":"Old"`)
	down()
	unavailable("reading", f.get(t, m.id, m.bearer()))
	f.backend.before(down)
	unavailable("replacing", f.put(t, m.id, m.update(`"client_name":"New"`), m.bearer()))
	f.backend.before(down)
	unavailable("removing", f.delete(t, m.id, m.bearer()))
	if c := f.stored(t, m.id); c.Metadata.ClientName != "Old" || !c.RegistrationToken.Matches(m.token) || len(c.PreviousToken) != 0 {
		t.Errorf("stored %+v", c)
	}
	renewed := f.put(t, m.id, m.update(""), m.bearer())
	f.backend.before(down)
	unavailable("withdrawing a token", f.get(t, m.id, "Bearer "+renewed.text("registration_access_token")))
	for name, lose := range map[string]func(int){"requests": f.faults.LoseRequests, "replies": f.faults.LoseReplies} {
		m := f.register(t, "")
		lose(2)
		a := f.put(t, m.id, m.update(""), m.bearer())
		lose(2)
		b := f.delete(t, m.id, "Bearer "+a.text("registration_access_token"))
		if a.status != http.StatusOK || b.status != http.StatusNoContent {
			t.Errorf("lost %s: %d %s, %d %s", name, a.status, a.raw, b.status, b.raw)
		}
	}
}

// TestDeleteIsFinished: if the client was removed and its grants could not be revoked, the
// answer is 503, and the next request revokes them, although there is no hash left to compare
// its token with.
func TestDeleteIsFinished(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	g := f.grant(t, m.id, time.Hour)
	f.backend.before(func() { f.backend.before(func() { f.faults.SetDown(true) }) })
	first := f.delete(t, m.id, m.bearer())
	again := f.delete(t, m.id, m.bearer())
	f.faults.SetDown(false)
	f.assertRevoked(t, g, false)
	if first.status != http.StatusServiceUnavailable || again.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s, %d %s", first.status, first.raw, again.status, again.raw)
	}
	last := f.delete(t, m.id, m.bearer())
	if last.status != http.StatusUnauthorized || last.raw != f.get(t, "unknown", m.bearer()).raw {
		t.Errorf("%d %s", last.status, last.raw)
	}
	f.assertRevoked(t, g, true)
}

// TestDeleteTouchesNoOthers: a request without a valid token cannot revoke the grants of an
// existing or configured client.
func TestDeleteTouchesNoOthers(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) {
		c.Static = []storage.Client{{ID: "configured"}}
		c.Static[0].Metadata.RedirectURIs = []string{"https://client.example.com/cb"}
	})
	m, other := f.register(t, ""), f.register(t, "")
	f.create(t, "configured")
	if err := dcr.Remove(context.Background(), f.store, "configured"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{m.id, "configured", "unknown"} {
		g := f.grant(t, id, time.Hour)
		if a := f.delete(t, id, other.bearer()); a.status != http.StatusUnauthorized {
			t.Errorf("status %d: %s", a.status, a.raw)
		}
		f.assertRevoked(t, g, false)
	}
}
