package middleware

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// replaySlots is the number of slots in which a window of time is divided.
const replaySlots = 8

// proofID identifies a proof, or a person, by half of a SHA-256.
type proofID [sha256.Size / 2]byte

// replays remembers proofs until they are too old to be accepted. Only proofs with a valid token
// and a valid signature get here, and nobody may have more of them than are free, so that one
// person cannot use up the room of the others: whoever comes new finds some. A proof that does not
// fit is refused. None is forgotten early.
type replays struct {
	slot time.Duration // the precision of ends
	max  int

	mu   sync.Mutex
	seen map[proofID]struct{}
	held map[proofID]int // the number of proofs of each person
	ends map[int64][]usedProof
	last int64 // the slot of the last cleaning
}

type usedProof struct{ id, by proofID }

func newReplays(most int, window time.Duration) *replays {
	return &replays{slot: max(window/replaySlots, time.Second), max: most,
		seen: make(map[proofID]struct{}), held: make(map[proofID]int), ends: make(map[int64][]usedProof)}
}

// use remembers a proof until it ends. It returns a refusal for one that it remembers already, and
// for one that does not fit.
func (u *replays) use(token *Token, jti string, now, ends time.Time) error {
	id, by := idOf(token.bound.key, jti), idOf(token.Issuer, token.Subject)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clean(now)
	if _, used := u.seen[id]; used {
		return badProof("The proof was used before.")
	}
	if free := u.max - len(u.seen); u.held[by] >= free {
		return challenge{status: http.StatusTooManyRequests, description: "There are too many recent proofs for this access token.",
			retryAfter: int(u.slot/time.Second) + 1}
	}
	u.seen[id] = struct{}{}
	u.held[by]++
	slot := u.slotOf(ends) + 1 // it has ended when this slot begins
	u.ends[slot] = append(u.ends[slot], usedProof{id, by})
	return nil
}

func (u *replays) slotOf(t time.Time) int64 { return t.UnixNano() / int64(u.slot) }

// clean forgets proofs that have ended.
func (u *replays) clean(now time.Time) {
	slot := u.slotOf(now)
	if slot == u.last {
		return
	}
	u.last = slot
	for end, proofs := range u.ends {
		if end > slot {
			continue
		}
		for _, p := range proofs {
			delete(u.seen, p.id)
			if u.held[p.by]--; u.held[p.by] == 0 {
				delete(u.held, p.by)
			}
		}
		delete(u.ends, end)
	}
}

// idOf returns an identifier of two texts. The first contains no NUL.
func idOf(a, b string) proofID {
	var short [1 << 10]byte
	sum := sha256.Sum256(append(append(append(short[:0], a...), 0), b...))
	return proofID(sum[:len(proofID{})])
}
