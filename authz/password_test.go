package authz

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/internal/passwords"
)

// A sign-in that gets no place is refused in time; the answer reveals nothing about the
// password.
func TestCrowdedSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newPasswordChecker(rand.Reader, passwords.Check)
		if err != nil {
			t.Fatal(err)
		}
		var leave func()
		for range hashing() {
			if leave, err = p.queue.Enter(t.Context(), "any", netip.Addr{}); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		_, err = p.check(t.Context(), "any", netip.Addr{}, p.dummy, "x")
		if !errors.Is(err, errTooManySignIns) || time.Since(begin) != passwordWait {
			t.Errorf("error %v after %s, want errCrowded after %s", err, time.Since(begin), passwordWait)
		}
		var shown *displayedError
		if !errors.As(error(busySignIn(err)), &shown) || shown.status != 503 {
			t.Errorf("the page says %v", shown)
		}
		leave()
		hash, err := passwords.Hash(rand.Reader, "a password")
		if err != nil {
			t.Fatal(err)
		}
		if work := func(hash string) string { return hash[:strings.LastIndex(hash[:strings.LastIndex(hash, "$")], "$")] }; len(hash) != len(p.dummy) || work(hash) != work(p.dummy) {
			t.Errorf("the hash of nobody, %s, does not take the work of %s", p.dummy, hash)
		}
		if right, err := p.check(t.Context(), "any", netip.Addr{}, hash, "a password"); err != nil || !right {
			t.Errorf("with a free slot: %v, %v", right, err)
		}
	})
}
