package trail

import (
	"context"
	"fmt"
)

// relate compares what the chains, and the heads of their places, say about each other, when all
// were read.
func (v *verifier) relate() {
	for _, s := range v.order {
		for _, after := range s.after {
			v.checkAfter(s, after)
		}
		v.checkPlace(s)
		if s.out.Chain != "" || s.out.Lines > 0 { // else it is a file that is no trail, which is a fault
			v.out.Chains = append(v.out.Chains, s.out)
		}
	}
}

// checkAfter compares what a chain says about another one before it at its place with what is there of
// that. Older files may be elsewhere, so a chain that was not given is no fault.
func (v *verifier) checkAfter(s *chainState, after Head) {
	earlier := v.ended[after.Chain]
	switch {
	case earlier == nil:
		s.note("it follows the chain %s, which had %d lines or more and whose files were not given", after.Chain, after.Seq)
	case earlier.out.Last < after.Seq:
		v.fault(Fault{File: earlier.file, What: "cut-off", Said: fmt.Sprintf(
			"the end is cut off: the chain that followed it knows a line with the number %d, and the last one here is %d", after.Seq, earlier.out.Last)})
	}
}

// checkPlace compares a chain with the head of another one at its place: of one that came later, or
// as a store from a backup knows it, before.
func (v *verifier) checkPlace(s *chainState) {
	switch {
	case !s.hasHead || s.head.Chain == s.out.Chain:
	case v.ended[s.head.Chain] != nil:
		s.note("the store keeps the head of another chain, which the same file has now")
	case s.head.At.Before(s.began):
		s.note("the store keeps the head of an earlier chain, %s, whose files were not given", s.head.Chain)
	default:
		v.fault(s.at(0, "missing", "the store knows a later chain of the same host and path, %s, with %d lines, which is in none of the files", s.head.Chain, s.head.Seq))
	}
}

// others reports the trails that have a head and no file here.
func (v *verifier) others(ctx context.Context) error {
	if v.Heads == nil {
		return nil
	}
	for h, err := range v.Heads.AuditHeads(ctx) {
		switch {
		case err != nil:
			return fmt.Errorf("trail: the list of heads: %w", err)
		case v.given[h.Host+"\x00"+h.Path]:
			continue
		}
		v.out.NotGiven = append(v.out.NotGiven, h)
		if v.All {
			v.fault(Fault{File: h.Path, What: "missing", Said: fmt.Sprintf("the store knows a trail of the host %s with this path and %d lines, of which no file was given", h.Host, h.Seq)})
		}
	}
	return nil
}
