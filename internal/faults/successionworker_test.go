//go:build e2e

package faults

import "fmt"

// successionWorker is a worker that takes the effects of a failover into account.
type successionWorker struct {
	*worker
	succession *succession
}

// work runs rounds until done.
func (h *successionWorker) work(done chan struct{}) {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-done:
			return
		case <-h.rounds:
			h.round()
		}
	}
}

func (h *successionWorker) round() {
	switch n := h.random.IntN(100); {
	case n < 15:
		h.registers()
	case n < 30:
		h.races()
	default:
		h.uses()
	}
}

// consents returns the code of the worker's client after a consent, or nil. A page that was in
// progress when the primary was lost may be lost.
func (h *successionWorker) consents() *held {
	for {
		a := h.certainly(func(at *process) answer { return h.succession.consents(at, h.visitor, h.client) })
		switch {
		case a.Code != "":
			return &held{client: h.client, code: a.Code}
		case !expired(a) || !h.succession.between(span{a.Began, a.Began.Add(a.Took)}):
			h.wrong("a consent", a)
			return nil
		}
	}
}

// uses uses a family from the consent to its end, if it has one.
func (h *successionWorker) uses() {
	f := h.consents()
	if f == nil || h.chance(8) || !h.redeems(f) {
		return
	}
	for range h.random.IntN(4) {
		if !h.rotates(f) {
			return
		}
	}
	h.mustLive(f)
	switch h.random.IntN(5) {
	case 0:
		h.revokes(f)
	case 1:
		h.revokesAmongRefreshes(f)
	case 2:
		h.replays(f)
	}
}

// redeems redeems a code that no other worker has.
func (h *successionWorker) redeems(f *held) (tokens bool) {
	a, doubt := h.tries(func(at *process) answer { return h.redeem(at, opRedeem, f) })
	switch {
	case succeeded(a):
		f.tokens = a
		return true
	case a.invalidGrant() && doubt, h.succession.outlived(f, a):
	case a.certain():
		h.wrong("the only redemption of a code", a)
	}
	return false
}

// races redeems a code a few times at once.
func (h *successionWorker) races() {
	f := h.consents()
	if f == nil {
		return
	}
	answers := make([]answer, 2+h.random.IntN(3))
	crowd(len(answers), len(answers), func(i int) { answers[i] = h.redeem(h.at[i%len(h.at)].process, opRace, f) })
	for _, a := range answers {
		if a.certain() && !tokensOrInvalidGrant(a) {
			h.wrong("a redemption among others", a)
		}
	}
	won := only(answers, granted)
	if len(won) > 1 {
		h.wrong(fmt.Sprintf("%d redemptions of one code succeeded, one of them", len(won)), won[0])
	}
	if len(won) == 1 && h.chance(2) {
		f.tokens = won[0]
		h.replays(f)
	}
}
