package authz_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// TestTwoServers: two processes over one store form one server: they have the same keys, and
// a grant that began at one continues at the other.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	one := newHarness(t, setup{})
	two := newHarness(t, setup{store: one.store})
	c := testClients()["native"]
	if a, b := one.get("/jwks.json").body, two.get("/jwks.json").body; a != b {
		t.Fatalf("different keys:\n%s\n%s", a, b)
	}
	code := one.newBrowser().code(asks(c))
	answer := two.toToken(c, redemption(c, code))
	if answer.status != http.StatusOK || !one.active(answer.member(t, "access_token")) {
		t.Fatalf("the code of one at the other: %s", answer)
	}
	next := one.toToken(c, refreshing(c, answer.member(t, "refresh_token")))
	again := two.toToken(c, refreshing(c, answer.member(t, "refresh_token")))
	if next.status != http.StatusOK || next.member(t, "refresh_token") != again.member(t, "refresh_token") {
		t.Errorf("the two give different successors: %s %s", next, again)
	}
	mustRefuse(t, one.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	if two.active(answer.member(t, "access_token")) {
		t.Error("a replay at one does not end the family at the other")
	}
}

// TestRedeemAtBoth: of concurrent redemptions at two servers one wins.
func TestRedeemAtBoth(t *testing.T) {
	t.Parallel()
	one := newHarness(t, setup{})
	servers := []*harness{one, newHarness(t, setup{store: one.store})}
	c := testClients()["native"]
	code := one.newBrowser().code(asks(c))
	one.meter.holdGrantReads(crowd)
	oneWinner(t, together(func(i int) reply { return servers[i%2].toToken(c, redemption(c, code)) }))
}

// TestSessionAtBoth: a person who signed in at one server is signed in at the other, and
// may decide there.
func TestSessionAtBoth(t *testing.T) {
	t.Parallel()
	one := newHarness(t, setup{})
	two := newHarness(t, setup{store: one.store})
	c := testClients()["native"]
	b := one.newBrowser()
	b.open(one.issuer + "/authorize?" + asks(c).Encode())
	b.h = two
	b.follow()
	b.submit("username", personName, "password", personPassword)
	b.h = one
	b.follow()
	b.h = two
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("no code: %s", b.last)
	}
}

// TestWrongStore: a server whose keys cannot be opened does not start, and the error gives
// the reason.
func TestWrongStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	other := bytes.Repeat([]byte{8}, 32)
	for name, o := range map[string]struct {
		options storage.Options
		is      error
		says    string
	}{
		"another master key": {storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{other}}, storage.ErrRecord, "master key"},
		"no master key":      {storage.Options{Issuer: h.issuer}, storage.ErrNoMasterKey, "master key"},
		"another issuer":     {storage.Options{Issuer: "https://other.example.com", MasterKeys: [][]byte{masterKey}}, storage.ErrRecord, "master key"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := storage.New(h.meter, o.options)
			if err != nil {
				t.Fatal(err)
			}
			cfg := h.cfg
			cfg.Store, cfg.Issuer = store, o.options.Issuer
			_, err = authz.New(t.Context(), cfg)
			if !errors.Is(err, o.is) || !strings.Contains(err.Error(), o.says) {
				t.Errorf("%v, want %v", err, o.is)
			}
		})
	}
	t.Run("the store is down", func(t *testing.T) {
		h.faults.SetDown(true)
		defer h.faults.SetDown(false)
		if _, err := authz.New(t.Context(), h.cfg); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if err := h.handler.Load().Ready(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Ready: %v", err)
		}
	})
	if err := h.handler.Load().Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// TestMasterKeyRotation: with a new master key in front, everything that the old one sealed
// still works; without the old one the server does not start.
func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	held := h.tokens(c)
	fresh := bytes.Repeat([]byte{9}, 32)
	store, err := storage.New(h.meter, storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{fresh, masterKey}, Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	h.cfg.Store = store
	h.restart()
	answer := h.toToken(c, refreshing(c, held.refresh))
	if answer.status != http.StatusOK || !h.active(held.access) {
		t.Errorf("after the change: %s", answer)
	}
}
