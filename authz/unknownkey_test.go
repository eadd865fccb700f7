package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// strange is a server that does not know the key of a genuine token: another process
// made it sign after this one had read the keys.
type strange struct {
	*house
	client member
	token  tokens
}

func newStrange(t *testing.T) strange {
	t.Helper()
	one := newHouse(t, build{})
	two := newHouse(t, build{store: one.store})
	if _, err := admin.RotateSigningKey(t.Context(), one.store, "", true); err != nil {
		t.Fatal(err)
	}
	one.restart()
	// The store of both is that of one, and so are its faults.
	two.meter, two.faults = one.meter, one.faults
	s := strange{house: two, client: cast()["native"]}
	s.token = one.tokens(s.client)
	return s
}

func (s strange) revoke(token string) reply {
	s.t.Helper()
	return s.post("/revoke", "client_id", s.client.ID, "token", token)
}

// failReadingKeys lets the store fail when the keys are asked for, and not before.
func (s strange) failReadingKeys() {
	s.meter.once(&s.meter.before, "get", "keyset", func() { s.faults.SetDown(true) })
}

// TestUnknownKeyIsNoAnswer: while the store does not tell whether there is such a key,
// a token is not inactive and not revoked: 503, also in the pause after the failure. When
// it tells again, the answers are true.
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
	// The store answers again, and is not asked: the failure is too fresh.
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

// TestInventedKeyIsNothing: while the store answers, a token of a key that nobody has is
// inactive and needs no revocation, and a genuine one is known all the same.
func TestInventedKeyIsNothing(t *testing.T) {
	t.Parallel()
	s := newStrange(t)
	invented := newHouse(t, build{}).tokens(s.client).access
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

// TestDamagedKeysAreNoAnswer: key records that cannot be read are a fault of ours.
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
