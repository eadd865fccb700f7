//go:build e2e

package faults

import (
	"fmt"
	"math/rand/v2"
)

// worker makes a part of the load. Only it uses its families, so it can predict the state of
// each.
type worker struct {
	*load
	n       int
	random  *rand.Rand
	visitor *visitor
	client  string
	turns   int
	hired   int // how many people it has added
}

// chance is true in one of n cases.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

// certainly makes a call, at the processes in turn, until its outcome is certain.
func (w *worker) certainly(call func(at *process) answer) answer {
	w.turns++
	return w.insist(w.n+w.turns, call)
}

// tries makes a call. When its outcome is unknown, the worker gives up in one of three cases and
// otherwise repeats it until that is certain; doubt then means that it may have happened before.
func (w *worker) tries(call func(at *process) answer) (a answer, doubt bool) {
	w.turns++
	a = call(w.at[(w.n+w.turns)%len(w.at)].process)
	if a.certain() || w.chance(3) {
		return a, false
	}
	doubt = a.uncertain()
	a = w.certainly(func(at *process) answer {
		a := call(at)
		doubt = doubt || a.uncertain()
		return a
	})
	return a, doubt
}

func (w *worker) arrives() {
	w.visitor = w.newVisitor(personName)
	w.registers()
}

// round is one round of requests of clients and people.
func (w *worker) round() {
	if w.chance(50) {
		w.visitor = w.newVisitor(personName) // so that the person has to sign in
	}
	switch n := w.random.IntN(100); {
	case n < 15:
		w.registers()
	case n < 17:
		w.hires()
	case n < 30:
		w.races()
	default:
		w.uses()
	}
}

// registers registers a client, which the worker uses from then on.
func (w *worker) registers() {
	a := w.certainly(w.register)
	if a.Client == "" {
		w.wrong("a registration", a)
		return
	}
	w.client = a.Client
}

// consents returns the code of the worker's client after a consent, or nil.
func (w *worker) consents(v *visitor) *held {
	client := w.client
	a := w.certainly(func(at *process) answer { return w.consent(at, v, client) })
	if a.Code == "" {
		w.wrong("a consent", a)
		return nil
	}
	return &held{client: client, code: a.Code}
}

// uses uses a family from the consent to its end, if it has one.
func (w *worker) uses() {
	h := w.consents(w.visitor)
	if h == nil || w.chance(15) || !w.redeems(h) {
		return
	}
	for range w.random.IntN(4) {
		if !w.rotates(h) {
			return
		}
	}
	w.mustLive(h)
	switch w.random.IntN(6) {
	case 0:
		w.revokes(h)
	case 1:
		w.revokesAmongRefreshes(h)
	case 2:
		w.replays(h)
	}
}

// redeems redeems a code that no other worker has.
func (w *worker) redeems(h *held) (tokens bool) {
	a, doubt := w.tries(func(at *process) answer { return w.redeem(at, opRedeem, h) })
	switch {
	case a.outcome() == granted:
		h.tokens = a
		return true
	case a.invalidGrant() && doubt:
		// It was spent before, for tokens that no client has; this was a replay.
	case a.certain():
		w.wrong("the only redemption of a code", a)
	}
	return false
}

// rotates uses the refresh token, and now and then the one before it again.
func (w *worker) rotates(h *held) (tokens bool) {
	presented := h.tokens.Refresh
	a, _ := w.tries(func(at *process) answer { return w.refresh(at, h, presented) })
	if a.outcome() != granted || a.Refresh == presented {
		if a.certain() {
			w.wrong("a refresh", a)
		}
		return false
	}
	h.tokens = a
	if w.chance(3) {
		again := w.certainly(func(at *process) answer { return w.refresh(at, h, presented) })
		if again.Refresh != a.Refresh {
			w.wrong("a refresh that was repeated", again)
		}
	}
	return true
}

func (w *worker) mustLive(h *held) {
	if a := w.certainly(func(at *process) answer { return w.introspect(at, h.tokens.Access) }); !a.Active {
		w.wrong("an access token should be active", a)
	}
}

func (w *worker) mustBeDead(h *held) {
	if a := w.certainly(func(at *process) answer { return w.introspect(at, h.tokens.Access) }); a.outcome() != granted || a.Active {
		w.wrong("an access token of an ended family", a)
	}
	if a := w.certainly(func(at *process) answer { return w.refresh(at, h, h.tokens.Refresh) }); !a.invalidGrant() {
		w.wrong("a refresh token of an ended family", a)
	}
}

// revokes ends the family by its refresh token or its access token.
func (w *worker) revokes(h *held) {
	token := h.tokens.Refresh
	if w.chance(3) {
		token = h.tokens.Access
	}
	a, _ := w.tries(func(at *process) answer { return w.revoke(at, h, token) })
	switch {
	case a.outcome() == granted:
		w.mustBeDead(h)
	case a.certain():
		w.wrong("a revocation", a)
	}
}

// revokesAmongRefreshes ends the family while it is refreshed.
func (w *worker) revokesAmongRefreshes(h *held) {
	answers := make([]answer, 4)
	crowd(len(answers), len(answers), func(i int) {
		if at := w.at[i/2].process; i == w.n%len(answers) {
			answers[i] = w.revoke(at, h, h.tokens.Access)
		} else {
			answers[i] = w.refresh(at, h, h.tokens.Refresh)
		}
	})
	for _, a := range answers {
		if a.outcome() == refused && !(a.Op == "refresh" && a.invalidGrant()) {
			w.wrong("among refreshes and a revocation", a)
		}
	}
	if answers[w.n%len(answers)].outcome() == granted {
		w.mustBeDead(h)
	}
}

// replays sends a spent code, which ends the family.
func (w *worker) replays(h *held) {
	a, _ := w.tries(func(at *process) answer { return w.redeem(at, opReplay, h) })
	switch {
	case a.invalidGrant():
		w.mustBeDead(h)
	case a.certain():
		w.wrong("a replay of a code", a)
	}
}

// races redeems a code a few times at once. The losers end the family, or do nothing, by how late
// they are.
func (w *worker) races() {
	h := w.consents(w.visitor)
	if h == nil {
		return
	}
	answers := make([]answer, 2+w.random.IntN(4))
	crowd(len(answers), len(answers), func(i int) { answers[i] = w.redeem(w.at[i%len(w.at)].process, opRace, h) })
	won := 0
	for _, a := range answers {
		switch {
		case a.outcome() == granted:
			won, h.tokens = won+1, a
		case a.certain() && !a.invalidGrant():
			w.wrong("a redemption among others", a)
		}
	}
	switch {
	case won > 1:
		w.wrong(fmt.Sprintf("%d redemptions of one code succeeded, one of them", won), h.tokens)
	case won == 1 && w.chance(2):
		w.replays(h)
	}
}

// hires adds a person, who consents, and is disabled while consenting again.
func (w *worker) hires() {
	w.hired++
	v := w.newVisitor(fmt.Sprintf("person-%d-%d", w.n, w.hired))
	if a := w.add(v.name); a.outcome() != granted {
		return // the name may be taken now; the next person has another one
	}
	h := w.consents(v)
	if h == nil || !w.redeems(h) || w.chance(3) {
		return
	}
	var dismissed, late answer
	crowd(2, 2, func(i int) {
		if i == 0 {
			dismissed = w.disable(v.name)
		} else {
			late = w.consent(w.at[w.hired%len(w.at)].process, v, h.client)
		}
	})
	if dismissed.outcome() != granted {
		dismissed = w.certainly(func(*process) answer { return w.disable(v.name) })
	}
	w.mustBeDead(h)
	if late.Code != "" {
		h = &held{client: h.client, code: late.Code}
		if a := w.certainly(func(at *process) answer { return w.redeem(at, opRedeem, h) }); !a.invalidGrant() {
			w.wrong("a code from somebody who was disabled", a)
		}
	}
}
