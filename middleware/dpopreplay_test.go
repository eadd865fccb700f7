package middleware

import (
	"strconv"
	"testing"
	"time"
)

// TestProofsAreForgotten uses proofs of many people, made for any time: nothing of them is kept when they have ended,
// at the latest with their tokens.
func TestProofsAreForgotten(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	proofs := NewProofs(100)
	proofs.lasts(time.Minute, now)
	for n := range 20 {
		token := &Token{Issuer: "https://auth.example.com", Subject: strconv.Itoa(n), Expiry: now, bound: binding{key: "key"}}
		if err := proofs.use(token, &proofClaims{ID: strconv.Itoa(n), IssuedAt: timestamp{now.Add(time.Duration(n) * time.Hour)}}, now, now); err != nil {
			t.Fatal(err)
		}
	}
	proofs.clean(now.Add(time.Minute + proofSlot))
	if len(proofs.seen)+len(proofs.held)+len(proofs.made) != 0 {
		t.Errorf("%d proofs, %d people and %d times are kept", len(proofs.seen), len(proofs.held), len(proofs.made))
	}
}
