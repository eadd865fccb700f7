// Package histories has many clients use one backend at once, records what they asked and were told,
// and checks that the answers are as if one call had happened after the other. It is for tests of
// the drivers.
package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
)

// Call is one call of a backend: a write if Put has an operation, a removal if Delete is set, and a
// read otherwise.
type Call struct {
	Key    string
	Put    storage.Put
	Delete bool
}

func (c Call) writes() bool { return c.Put.Operation != storage.Version{} }

// Answer is the answer to a call.
type Answer struct {
	Version  storage.Version // of the item that is there, zero for none
	Data     string
	Conflict bool
	Unknown  bool // the call may take effect at any time from now on, or never
}

// register is the content of one key.
type register struct {
	version storage.Version
	data    string
}

// after is the contract of [storage.Backend] as one step: it reports whether an answer is correct
// for a register, and returns the register afterwards.
func (r register) after(c Call, out Answer) (bool, register) {
	is := out.Unknown || out.Version == r.version && out.Data == r.data
	switch {
	case c.Delete:
		return true, register{}
	case !c.writes():
		return is, r
	case r.version == c.Put.Operation: // it has been applied before
		return is && !out.Conflict, r
	case c.Put.If.Any() || r.version == c.Put.If.Version():
		next := register{c.Put.Operation, string(c.Put.Data)}
		return out.Unknown || !out.Conflict && out.Version == next.version && out.Data == next.data, next
	}
	return out.Unknown || is && out.Conflict, r
}

// model is a register for each key.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return register{} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(register).after(input.(Call), output.(Answer))
			return ok, next
		},
	}
}

func byKey(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	of := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(Call).Key
		of[key] = append(of[key], op)
	}
	for _, part := range of {
		parts = append(parts, part)
	}
	return parts
}

// seen returns the operations whose item was read.
func seen(history []porcupine.Operation) map[storage.Version]bool {
	found := map[storage.Version]bool{}
	for _, op := range history {
		found[op.Output.(Answer).Version] = true
	}
	return found
}

// patience is how long the search for an order may take.
const patience = time.Minute

// check reports whether there is an order of all calls in which all answers are correct. An
// uncertain write that was never read need not have been applied.
func check(history []porcupine.Operation) porcupine.CheckResult {
	found := seen(history)
	history = slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool {
		c := op.Input.(Call)
		return op.Output.(Answer).Unknown && c.writes() && !found[c.Put.Operation]
	})
	return porcupine.CheckOperationsTimeout(model(), history, patience)
}

// transcript returns a readable history of the keys for which there is no order.
func transcript(history []porcupine.Operation) string {
	var b strings.Builder
	for _, part := range byKey(history) {
		if check(part) == porcupine.Ok {
			continue
		}
		for _, op := range part {
			c, out := op.Input.(Call), op.Output.(Answer)
			fmt.Fprintf(&b, "%d: %9d to %9d ", op.ClientId, op.Call/1000, min(op.Return, 1e12)/1000)
			switch {
			case c.Delete:
				b.WriteString("delete")
			case c.writes():
				fmt.Fprintf(&b, "put %.4x if %.4x (any: %t)", c.Put.Operation[:], c.Put.If.Version(), c.Put.If.Any())
			default:
				b.WriteString("get")
			}
			fmt.Fprintf(&b, " -> %.4x conflict: %t unknown: %t\n", out.Version, out.Conflict, out.Unknown)
		}
	}
	return b.String()
}
