package middleware

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// proofSlot is the precision of the time for which a proof is remembered.
const proofSlot = 5 * time.Second

// proofID identifies a proof, or a person, by half of a SHA-256.
type proofID [sha256.Size / 2]byte

// Proofs remembers proofs of DPoP until they are too old to be accepted, with nonces and without, each for
// up to twice [DPoP.Window], the longest one of the guards that share it, in about 100 bytes. One whose own
// time is later, which only guards with nonces accept, is kept for as much longer, at most until its token
// ends. Only proofs with a valid token and a valid signature get there. Nobody may have more proofs there
// than there is room left, so that one person cannot use up that of others: who comes new finds some. A
// proof that does not fit is refused with 429, and none is forgotten early.
type Proofs struct {
	most int

	mu     sync.Mutex
	window time.Duration // the longest one of the guards that use it
	known  time.Time     // of proofs made before, some may be forgotten
	seen   map[proofID]struct{}
	held   map[proofID]int       // the number of proofs of each person
	made   map[int64][]usedProof // by the slot before which they were made, as late as may count
	last   int64                 // the slot up to which proofs are forgotten
}

type usedProof struct{ id, by proofID }

// NewProofs returns a memory for a number of proofs, at least one.
func NewProofs(most int) *Proofs {
	return &Proofs{most: max(most, 1), seen: make(map[proofID]struct{}), held: make(map[proofID]int), made: make(map[int64][]usedProof)}
}

// lasts says for how long a guard accepts a proof after it was made. The memory is then for all guards
// that have it. What a shorter time has let it forget stays too old for a longer one: it may have been
// used.
func (u *Proofs) lasts(window time.Duration, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if window <= u.window {
		return
	}
	if until := now.Add(-u.window); u.window > 0 && until.After(u.known) {
		u.known = until
	}
	u.window = window
}

// use remembers a proof, of which made is the time that counts, until no guard accepts it. It returns a
// refusal for one that it remembers already or may have forgotten, and for one that does not fit.
func (u *Proofs) use(token *Token, proof *proofClaims, now, made time.Time) error {
	id, by := idOf(token.bound.key, proof.ID), idOf(token.Issuer, token.Subject)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clean(now)
	if made.Before(u.known) {
		return badProof("The proof is older than what this server remembers.")
	}
	if _, used := u.seen[id]; used {
		return badProof("The proof was used before.")
	}
	if free := u.most - len(u.seen); u.held[by] >= free {
		return challenge{status: http.StatusTooManyRequests, description: "There are too many recent proofs for this access token.",
			retryAfter: int(proofSlot/time.Second) + 1}
	}
	u.seen[id] = struct{}{}
	u.held[by]++
	slot := slotOf(latestOf(token, proof, now, made)) + 1 // it was made when this slot begins
	u.made[slot] = append(u.made[slot], usedProof{id, by})
	return nil
}

// latestOf returns the latest time that can ever count as that of a proof which is used now. A later guard
// may go by the other one of its two times, and a nonce in it is not from later than now. After the end of
// its token nobody accepts it.
func latestOf(token *Token, proof *proofClaims, now, made time.Time) time.Time {
	out := proof.IssuedAt.Time
	if end := token.Expiry.Add(token.leeway); out.After(end) {
		out = end
	}
	for _, other := range [...]time.Time{now, made} {
		if other.After(out) {
			out = other
		}
	}
	return out
}

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(proofSlot) }

// clean forgets proofs that are too old for the window, as long as that is now.
func (u *Proofs) clean(now time.Time) {
	slot := slotOf(now.Add(-u.window))
	if slot == u.last {
		return
	}
	u.last = slot
	for made, proofs := range u.made {
		if made > slot {
			continue
		}
		for _, p := range proofs {
			delete(u.seen, p.id)
			if u.held[p.by]--; u.held[p.by] == 0 {
				delete(u.held, p.by)
			}
		}
		delete(u.made, made)
	}
}

// idOf returns an identifier of two texts. The first contains no NUL.
func idOf(a, b string) proofID {
	var short [1 << 10]byte
	sum := sha256.Sum256(append(append(append(short[:0], a...), 0), b...))
	return proofID(sum[:len(proofID{})])
}
