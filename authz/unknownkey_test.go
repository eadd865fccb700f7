package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// unknownKey is a server that does not know the key of a genuine token: another process
// activated it after this one had read the keys.
type unknownKey struct {
	*harness
	client testClient
	token  tokens
}

func newStrange(t *testing.T) unknownKey {
	t.Helper()
	one := newHarness(t, setup{})
	two := newHarness(t, setup{store: one.store})
	if _, err := admin.RotateSigningKey(t.Context(), one.store, "", true); err != nil {
		t.Fatal(err)
	}
	one.restart()
	// Both use the store of one, with its faults.
	two.meter, two.faults = one.meter, one.faults
	s := unknownKey{harness: two, client: testClients()["native"]}
	s.token = one.tokens(s.client)
	return s
}

func (s unknownKey) revoke(token string) reply {
	s.t.Helper()
	return s.post("/revoke", "client_id", s.client.ID, "token", token)
}

// failReadingKeys makes the store fail from the next reading of the keys on.
func (s unknownKey) failReadingKeys() {
	s.meter.once(&s.meter.before, "get", "keyset", func() { s.faults.SetDown(true) })
}

// TestUnknownKeyIsNoAnswer: while the store does not answer whether there is such a key, a
// token is neither inactive nor revoked: the answer is 503, also in the pause after the
// failure. When the store answers again, the answers are correct.
func TestUnknownKeyIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := newStrange(t)
	unavailable := func(r reply) {
		t.Helper()
		mustRefuse(t, r, http.StatusServiceUnavailable, "temporarily_unavailable")
		if r.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %s", r)
		}
	}
	s.failReadingKeys()
	unavailable(s.introspect(s.token.access))
	s.faults.SetDown(false)
	// The store answers again, and is not read: the failure is too recent.
	unavailable(s.introspect(s.token.access))
	unavailable(s.revoke(s.token.access))

	s.clock.advance(2 * time.Second)
	s.failReadingKeys()
	unavailable(s.revoke(s.token.access))
	s.faults.SetDown(false)

	s.clock.advance(2 * time.Second)
	if !s.active(s.token.access) {
		t.Error("after recovery the token is inactive")
	}
	if r := s.revoke(s.token.access); r.status != http.StatusOK {
		t.Errorf("revoke after recovery: %s", r)
	}
	if s.active(s.token.access) {
		t.Error("the revoked token is active")
	}
}

// TestInventedKeyIsNothing: while the store answers, a token of a key that does not exist is
// inactive and needs no revocation, and a genuine one is accepted.
func TestInventedKeyIsNothing(t *testing.T) {
	t.Parallel()
	s := newStrange(t)
	invented := newHarness(t, setup{}).tokens(s.client).access
	for range 3 {
		if s.active(invented) {
			t.Error("a token of an invented key is active")
		}
		if r := s.revoke(invented); r.status != http.StatusOK || r.body != "" {
			t.Errorf("revoke a token of an invented key: %s", r)
		}
	}
	if !s.active(s.token.access) {
		t.Error("a token of a key from elsewhere is inactive")
	}
}

// TestDamagedKeysAreNoAnswer: for key records that cannot be read the answer is 503.
func TestDamagedKeysAreNoAnswer(t *testing.T) {
	t.Parallel()
	s := newStrange(t)
	set, err := s.store.KeySet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range set.Keys {
		set.Keys[i].State = storage.KeyRetired
	}
	if err := s.store.SwapKeySet(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, s.introspect(s.token.access), http.StatusServiceUnavailable, "temporarily_unavailable")
	mustRefuse(t, s.revoke(s.token.access), http.StatusServiceUnavailable, "temporarily_unavailable")
	if !strings.Contains(s.log.String(), "no active key") {
		t.Error("the log does not say what is wrong")
	}
}
