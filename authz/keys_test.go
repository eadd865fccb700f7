package authz_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
)

// TestKeysFollowTheStore: two servers over one store, without Run, accept a key that was
// activated by an operator when they use their own, and refuse tokens of a revoked one.
func TestKeysFollowTheStore(t *testing.T) {
	t.Parallel()
	const longLife = time.Hour // longer than caches may keep the keys
	config := func(c *authz.Config) { c.AccessTokenTTL = longLife }
	one := newHarness(t, setup{config: config})
	two := newHarness(t, setup{config: config, store: one.store})
	c := testClients()["native"]
	later := func(d time.Duration) {
		one.clock.advance(d)
		two.clock.advance(d)
	}
	before := one.tokens(c)
	next, err := admin.RotateSigningKey(t.Context(), one.store, "", true)
	if err != nil {
		t.Fatal(err)
	}
	if kid := jwtPart(t, one.tokens(c).access, 0)["kid"]; kid == next.ID {
		t.Error("the keys are read for each token")
	}
	later(3 * time.Second)
	one.restart() // a process that starts has the new key
	after := one.tokens(c)
	if kid := jwtPart(t, after.access, 0)["kid"]; kid != next.ID {
		t.Errorf("%v signs, want %s", kid, next.ID)
	}
	for name, h := range map[string]*harness{"the one that started": one, "the other": two} {
		if !h.active(before.access) || !h.active(after.access) {
			t.Errorf("%s refuses a token of the old key or the new one", name)
		}
	}
	if _, err := admin.RevokeSigningKey(t.Context(), one.store, "", next.ID); err != nil {
		t.Fatal(err)
	}
	later(longLife / 2)
	fresh := two.tokens(c)
	if two.active(after.access) || !two.active(before.access) || !two.active(fresh.access) {
		t.Error("a token of the revoked key is active, or one of another key is not")
	}
}

// TestKeyCache: the keys may be cached for the configured time, and other documents for the
// default time.
func TestKeyCache(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.KeyCache = 7 * time.Second }})
	for path, want := range map[string]string{"/jwks.json": "public, max-age=7", "/.well-known/oauth-authorization-server": "public, max-age=300"} {
		if got := h.get(path).header.Get("Cache-Control"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestRunEnds: Run ends with its context.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.handler.Load().Run(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}

func TestKeyConfigRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for part, change := range map[string]func(*authz.Config){
		"key-rotation 9m59s": func(c *authz.Config) { c.KeyRotation = 10*time.Minute - time.Second },
		"key-rotation 1m0s":  func(c *authz.Config) { c.KeyCache, c.KeyRotation = time.Hour, time.Minute },
		"key-cache 500ms":    func(c *authz.Config) { c.KeyCache = 500 * time.Millisecond },
		"key-cache -1s":      func(c *authz.Config) { c.KeyCache = -time.Second },
	} {
		cfg := h.cfg
		change(&cfg)
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
	for _, rotation := range []time.Duration{-1, 10 * time.Minute} {
		cfg := h.cfg
		cfg.KeyRotation = rotation
		if _, err := authz.New(t.Context(), cfg); err != nil {
			t.Errorf("%s: %v", rotation, err)
		}
	}
}
