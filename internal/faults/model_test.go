//go:build e2e

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// phase is the state of a family.
type phase string

const (
	phaseCode    phase = "code"
	phaseActive  phase = "active"
	phaseRevoked phase = "revoked"
)

// family is the whole state of the model: one grant record, for one observer.
type family struct {
	phase      phase
	generation uint32 // of the current refresh token
}

// request is a request about a family.
type request struct {
	op         string // redeem, refresh, revoke or introspect, correctly sent
	generation uint32 // of the refresh token that was sent
	// shaky is set if replies of the store can be lost on their way to this process.
	shaky bool
	// mayHaveLost is set if another request, which may have won the race for the same code or
	// token, was under way at the same time. Only then may this one have lost.
	mayHaveLost bool
	// overtaken is set if the request is shaky, and another one that may have changed the record
	// was under way at the same time. Only then may this one have won without an answer that says
	// so: when it reads again, the record is not its own any more.
	overtaken bool
}

// reply is the answer. The zero reply is an unknown outcome: no answer, or 503.
type reply struct {
	known      bool
	ok         bool   // not refused; of introspect: active
	generation uint32 // of the refresh token that was returned
}

// rules is the life of one family as docs/design.md describes it under State. A window is open
// for ever or there is none, so that no rule depends on the time.
type rules struct{ window bool }

// after returns the states in which a request can have left a family, if its answer is right;
// none, if it is wrong. The request takes effect at one moment, when it reads or, if it writes,
// when its write wins.
func (r rules) after(s family, in request, out reply) []family {
	if !out.known {
		return r.afterUnknown(s, in)
	}
	switch in.op {
	case "redeem":
		return s.redeemed(in, out)
	case "refresh":
		return r.refreshed(s, in, out)
	case "revoke":
		if out.ok {
			return []family{s.revoked()}
		}
		return nil // the token is genuine and of this client
	}
	return iff(out.ok == (s.phase == phaseActive), s)
}

// afterUnknown returns the states after a request that took effect, with any answer, or did not.
func (r rules) afterUnknown(s family, in request) []family {
	states := []family{s}
	for _, out := range []reply{{known: true}, {known: true, ok: true}, {known: true, ok: true, generation: in.generation + 1}} {
		for _, next := range r.after(s, in, out) {
			if !slices.Contains(states, next) {
				states = append(states, next)
			}
		}
	}
	return states
}

func (s family) revoked() family { s.phase = phaseRevoked; return s }

// iff returns s, if the answer is right.
func iff(right bool, s family) []family {
	if !right {
		return nil
	}
	return []family{s}
}

// redeemed: a code gives tokens once. A request that finds it spent ends the family, one that
// lost the race for it does not. One that won it and was overtaken is refused.
func (s family) redeemed(in request, out reply) []family {
	switch {
	case s.phase == phaseCode && !out.ok && in.overtaken:
		return []family{{phase: phaseActive}}
	case s.phase == phaseCode:
		return iff(out.ok && out.generation == 0, family{phase: phaseActive})
	case out.ok:
		return nil
	case in.mayHaveLost:
		return []family{s.revoked(), s}
	}
	return []family{s.revoked()}
}

// refreshed: the current token is rotated, the one before it gets the same successor, any older
// one ends the family unless it was current when it was read. A request that has rotated and was
// overtaken is refused.
func (r rules) refreshed(s family, in request, out reply) []family {
	current := s.phase == phaseActive && in.generation == s.generation
	before := s.phase == phaseActive && in.generation+1 == s.generation
	switch {
	case current && !out.ok && in.overtaken:
		return []family{{phase: phaseActive, generation: s.generation + 1}}
	case current:
		return iff(out.ok && out.generation == in.generation+1, family{phase: phaseActive, generation: out.generation})
	case before && r.window:
		return iff(out.ok && out.generation == s.generation, s)
	case out.ok || in.generation > s.generation || s.phase == phaseCode:
		return nil
	case in.mayHaveLost:
		return []family{s.revoked(), s}
	}
	return []family{s.revoked()}
}

// model describes families that begin with a code to the checker.
func (r rules) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{family{phase: phaseCode}} },
		Step: func(state, in, out any) (next []any) {
			for _, s := range r.after(state.(family), in.(request), out.(reply)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return describe(in.(request), out.(reply)) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
	return m.ToModel()
}

func describe(in request, out reply) string {
	asked := in.op
	if in.op == "refresh" {
		asked = fmt.Sprintf("refresh %d", in.generation)
	}
	switch {
	case !out.known:
		return asked + ": ?"
	case !out.ok:
		return asked + ": no"
	case in.op == "refresh" || in.op == "redeem":
		return fmt.Sprintf("%s: %d", asked, out.generation)
	}
	return asked + ": yes"
}

// neverAnswered is the end of a request without an answer: it may have an effect at any later
// time.
const neverAnswered = int64(1) << 62

// withRivals fills in which rivals a request could have met. A redemption loses against another
// one; a refresh loses against the rotation of the same token.
func withRivals(history []porcupine.Operation) []porcupine.Operation {
	filled := slices.Clone(history)
	for i, o := range history {
		in := o.Input.(request)
		for j, rival := range history {
			if i == j || rival.Call > o.Return || o.Call > rival.Return {
				continue
			}
			other, out := rival.Input.(request), rival.Output.(reply)
			same := other.op == in.op && other.generation == in.generation
			in.mayHaveLost = in.mayHaveLost || same && (out.ok || !out.known || other.shaky)
			in.overtaken = in.overtaken || in.shaky && other.op != "introspect"
		}
		filled[i].Input = in
	}
	return filled
}

// check reports whether the history of one family can have happened by the rules.
func (r rules) check(history []porcupine.Operation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(r.model(), withRivals(history), patience)
}

// mustBeLinearizable checks the history of one family. If it cannot have happened, it writes a
// picture of it to a file.
func (r rules) mustBeLinearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	result, info := r.check(history)
	if result == porcupine.Ok {
		return
	}
	dir, err := os.MkdirTemp("", "gatehouse-history-") // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "history.html")
	if err := porcupine.VisualizePath(r.model(), info, path); err != nil {
		t.Error(err)
	}
	t.Errorf("a history is not linearizable (%s); it is drawn in %s:\n%s", result, path, transcript(history))
}

// transcript lists a history in the order of its calls.
func transcript(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range history {
		end := "never"
		if o.Return != neverAnswered {
			end = time.Duration(o.Return).Round(time.Microsecond).String()
		}
		fmt.Fprintf(&b, "%12s to %-12s client %-4d %-24s %v\n", time.Duration(o.Call).Round(time.Microsecond), end, o.ClientId, describe(o.Input.(request), o.Output.(reply)), o.Metadata)
	}
	return b.String()
}

// said makes an entry of a history by hand: who is a client, from and to are the times of the
// call and of the answer.
func said(who int, from, to int64, in request, out reply) porcupine.Operation {
	if !out.known {
		to = neverAnswered
	}
	return porcupine.Operation{ClientId: who, Input: in, Call: from, Output: out, Return: to}
}

// TestChecker: the checker accepts what the rules allow and rejects what they forbid. Without it,
// an accepted history would prove nothing.
func TestChecker(t *testing.T) {
	var (
		redeem     = request{op: "redeem"}
		revoke     = request{op: "revoke"}
		introspect = request{op: "introspect"}
		nobody     = reply{}
		no         = reply{known: true}
		yes        = reply{known: true, ok: true}
	)
	refresh := func(generation uint32) request { return request{op: "refresh", generation: generation} }
	gives := func(generation uint32) reply { return reply{known: true, ok: true, generation: generation} }
	shaky := func(in request) request { in.shaky = true; return in }
	type history = []porcupine.Operation
	for _, c := range []struct {
		name           string
		window, strict bool // whether the history is possible with a window and without one
		history        history
	}{
		{"a life", true, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, introspect, yes), said(0, 7, 8, revoke, yes), said(0, 9, 10, introspect, no), said(0, 11, 12, refresh(1), no)}},
		{"two redemptions succeed", false, false, history{said(0, 1, 4, redeem, gives(0)), said(1, 2, 3, redeem, gives(0))}},
		{"one redemption loses", true, true, history{said(0, 1, 4, redeem, gives(0)), said(1, 2, 3, redeem, no), said(0, 5, 6, introspect, yes)}},
		{"one redemption finds the code spent", true, true, history{said(0, 1, 4, redeem, gives(0)), said(1, 2, 3, redeem, no), said(0, 5, 6, introspect, no)}},
		{"a replay ends nothing", false, false, history{said(0, 1, 2, redeem, gives(0)), said(1, 3, 4, redeem, no), said(0, 5, 6, introspect, yes)}},
		{"a replay ends the family", true, true, history{said(0, 1, 2, redeem, gives(0)), said(1, 3, 4, redeem, no), said(0, 5, 6, introspect, no)}},
		{"a code is refused that nobody used", false, false, history{said(0, 1, 2, redeem, no)}},
		{"a code is refused after one that nobody knows of", true, true, history{said(0, 1, 0, redeem, nobody), said(0, 3, 4, redeem, no)}},
		{"a code works after one that nobody knows of", true, true, history{said(0, 1, 0, redeem, nobody), said(0, 3, 4, redeem, gives(0)), said(0, 5, 6, introspect, yes)}},
		{"a code works after it was lost and found spent", false, false, history{said(0, 1, 0, redeem, nobody), said(0, 3, 4, redeem, no), said(0, 5, 6, redeem, gives(0))}},
		{"a refresh succeeds after a revocation", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, revoke, yes), said(1, 5, 6, refresh(0), gives(1))}},
		{"a refresh succeeds beside a revocation", true, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 6, revoke, yes), said(1, 4, 8, refresh(0), gives(1)), said(1, 9, 10, introspect, no)}},
		{"a token is active after a revocation", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, revoke, yes), said(1, 5, 6, introspect, yes)}},
		{"a revocation that nobody knows of comes late", true, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 0, revoke, nobody), said(1, 5, 6, introspect, yes), said(1, 7, 8, introspect, no)}},
		{"a revocation that nobody knows of is taken back", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 0, revoke, nobody), said(1, 5, 6, introspect, no), said(1, 7, 8, introspect, yes)}},
		{"a family ends by itself", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, introspect, no)}},
		{"two refreshes at once agree", true, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 5, refresh(0), gives(1)), said(1, 4, 6, refresh(0), gives(1)), said(0, 7, 8, introspect, yes)}},
		{"one of two refreshes at once loses", false, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 5, refresh(0), gives(1)), said(1, 4, 6, refresh(0), no), said(0, 7, 8, introspect, yes)}},
		{"two refreshes give siblings", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 5, refresh(0), gives(1)), said(1, 4, 6, refresh(0), gives(2))}},
		{"a refresh again gets the same successor", true, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(0), gives(1))}},
		{"a refresh again ends the family", false, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(0), no), said(0, 7, 8, introspect, no)}},
		{"a refresh again is refused and ends nothing", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(0), no), said(0, 7, 8, introspect, yes)}},
		{"the current token is refused", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), no)}},
		{"an older token is given a successor", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(1), gives(2)), said(0, 7, 8, refresh(0), gives(1))}},
		{"an older token ends the family", true, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(1), gives(2)), said(0, 7, 8, refresh(0), no), said(0, 9, 10, refresh(2), no)}},
		{"a rotation is forgotten", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, refresh(0), gives(1)), said(0, 5, 6, refresh(1), no)}},
		{"a rotation that nobody knows of is found", true, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 0, refresh(0), nobody), said(0, 5, 6, refresh(0), gives(1)), said(0, 7, 8, refresh(1), gives(2))}},
		{"a rotation that nobody knows of is found, or found to be a second one", false, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 0, refresh(0), nobody), said(0, 5, 6, refresh(0), gives(1)), said(0, 7, 8, refresh(1), no)}},
		{"a rotation that nobody saw is overtaken", false, true, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 9, shaky(refresh(0)), no), said(1, 4, 5, refresh(0), no), said(1, 6, 7, introspect, yes), said(1, 8, 10, revoke, yes)}},
		{"a rotation that everybody saw is overtaken", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 9, refresh(0), no), said(1, 4, 5, refresh(0), no), said(1, 6, 7, introspect, yes), said(1, 8, 10, revoke, yes)}},
		{"a rotation that nobody saw is not overtaken", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 6, shaky(refresh(0)), no), said(1, 7, 8, revoke, yes)}},
		{"a revocation is refused", false, false, history{said(0, 1, 2, redeem, gives(0)), said(0, 3, 4, revoke, no)}},
	} {
		for _, r := range []rules{{window: true}, {window: false}} {
			possible := c.strict
			if r.window {
				possible = c.window
			}
			if got, _ := r.check(c.history); (got == porcupine.Ok) != possible || got == porcupine.Unknown {
				t.Errorf("%s, with %+v: %s, want possible %t\n%s", c.name, r, got, possible, transcript(c.history))
			}
		}
	}
}
