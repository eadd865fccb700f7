//go:build e2e

package faults

import (
	"encoding/base64"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// TestUnansweredRedemption: the replica hangs, so a redemption of a code is answered with 503,
// and the code is spent all the same. Sent again it gives invalid_grant, each time, but the
// family is not revoked: no client has its tokens, so none were stolen. A code that did give
// tokens still ends its family.
func TestUnansweredRedemption(t *testing.T) {
	t.Parallel()
	s := newSuccessionOf(t, cast{replicas: 1, workers: 0, downAfter: 10 * time.Second})
	store := s.store()
	spent, wanted := 0, amount(5, 100)
	for range 2 * wanted / 5 {
		spent += s.redeemsUnanswered(store)
		if t.Failed() || spent >= wanted {
			break
		}
	}
	t.Logf("%d codes were spent while their redeemers heard 503; answers %v", spent, s.answers)
	if spent < wanted {
		t.Errorf("%d codes were spent unanswered, want %d", spent, wanted)
	}
}

// redeemsUnanswered is one round. It returns how many codes were spent unanswered.
func (s *succession) redeemsUnanswered(store *storage.Store) (spent int) {
	s.t.Helper()
	s.begin()
	p := s.fleet.newParty(s.at[0].process)
	codes := p.mustCodes(s.at[1].process, 5)
	tokens := must(s.t, "tokens", p.redeem(s.at[0].process, codes[0]), succeeded)
	s.replicas[0].Pause()
	crowd(4, 4, func(i int) {
		must(s.t, "unavailable", p.redeem(s.at[i%2].process, codes[1+i]), func(a answer) bool { return a.outcome() == unavailable })
	})
	s.replicas[0].Resume()
	s.recoversFrom(time.Now())
	for _, code := range codes[1:] {
		again := must(s.t, "tokens or invalid_grant", p.redeem(s.at[0].process, code), tokensOrInvalidGrant)
		if succeeded(again) {
			continue // the 503 came before the write
		}
		spent++
		must(s.t, "refused", p.redeem(s.at[1].process, code), invalidGrant)
		if g := s.grant(store, code); g.State != storage.GrantActive {
			s.t.Errorf("a code that was spent unanswered was sent again, and its grant is %s: %s", g.State, g.RevokedBecause)
		}
	}
	must(s.t, "refused", p.redeem(s.at[1].process, codes[0]), invalidGrant)
	mustBeDead(s.t, p, s.at[0].process, tokens)
	return spent
}

// store returns a store that reads the records of the fleet.
func (s *succession) store() *storage.Store {
	s.t.Helper()
	backend, err := redis.Open(s.t.Context(), redis.Options{URL: s.fleet.config.Store})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = backend.Close() })
	key, _ := base64.StdEncoding.DecodeString(s.fleet.config.MasterKeys)
	store, err := storage.New(backend, storage.Options{Issuer: s.fleet.issuer, MasterKeys: [][]byte{key}})
	if err != nil {
		s.t.Fatal(err)
	}
	return store
}

// grant returns the record of a code.
func (s *succession) grant(store *storage.Store, code string) storage.Grant {
	s.t.Helper()
	id, _ := storage.CodeGrant(code)
	g, err := store.Grant(s.t.Context(), id)
	if err != nil {
		s.t.Error(err)
	}
	return g
}
