package trail

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// chainState is what is known of a chain after some of its lines.
type chainState struct {
	out   VerifiedChain
	file  string
	place string    // the path under which the chain was written
	began time.Time // the time of its first line here

	key     *Key   // nil for hashes
	keyless bool   // the key of the lines is not known: it was reported
	next    uint64 // the number that comes next
	prev    string // the MAC of the line before, empty if that is not known
	bad     int    // lines since the last good one that may have had the next numbers
	gaps    []gap  // numbers that did not come yet
	torn    placed // the line before, if it cannot be read and may be torn
	why     string // of the last line, if that is about the file

	head    Head
	hasHead bool
	atHead  string // the MAC of the line with the number of the head
	after   []Head // of other chains that were kept for the place before
}

// gap is numbers that are missing before a line.
type gap struct {
	from, to uint64
	file     string
	line     int
}

// maxGaps bounds the gaps that are remembered.
const maxGaps = 1000

func (s *chainState) note(format string, args ...any) {
	s.out.Notes = append(s.out.Notes, fmt.Sprintf(format, args...))
}

func (s *chainState) at(line int, what, format string, args ...any) Fault {
	return Fault{File: s.file, Line: line, What: what, Said: fmt.Sprintf(format, args...)}
}

// line checks the next line.
func (v *verifier) line(s *chainState, l placed) {
	if l.err != nil {
		v.noTorn(s)
		s.torn = l
		return
	}
	if s.torn.number > 0 {
		if l.About != nil && l.About.Torn == s.torn.size {
			s.note("line %d of %s is not whole: a process ended in the middle of it", s.torn.number, s.file)
			s.torn = placed{}
		}
		v.noTorn(s)
	}
	if l.About != nil && l.About.Chain != "" && !v.begins(s, l) {
		return
	}
	if !s.keyless && !l.genuine(s.key) {
		v.fault(s.at(l.number, "changed", "line %d was changed: its MAC is wrong", l.number))
		s.bad++
		s.prev = ""
		return
	}
	v.follows(s, l)
}

// noTorn reports a line that cannot be read, if the line before is one.
func (v *verifier) noTorn(s *chainState) {
	if s.torn.number == 0 {
		return
	}
	v.fault(s.at(s.torn.number, "unreadable", "line %d was changed, or is not whole: it cannot be read", s.torn.number))
	s.torn = placed{}
	s.bad++
	s.prev = ""
}

// begins takes the key from a line about the chain. It reports false for a line of another chain.
func (v *verifier) begins(s *chainState, l placed) bool {
	if l.About.Chain != s.out.Chain {
		v.fault(s.at(l.number, "other-chain", "line %d is of another chain, %s", l.number, l.About.Chain))
		return false
	}
	if l.About.After != nil {
		s.after = append(s.after, *l.About.After)
	}
	v.given[l.About.Host+"\x00"+l.About.File] = true
	s.key, s.keyless = nil, false
	switch {
	case l.About.Keyed:
		s.out.Keyed = true
		i := slices.IndexFunc(v.Keys, func(k Key) bool { return k.name == l.About.KeyName })
		if i < 0 {
			s.keyless = true
			v.fault(s.at(l.number, "unknown-key", "the lines from %d on are under the key %q, which was not given", l.number, l.About.KeyName))
			return true
		}
		s.key = &v.Keys[i]
	case len(v.Keys) > 0:
		v.fault(s.at(l.number, "unkeyed", "the lines from %d on have no key: they show accidents only", l.number))
	}
	return true
}

// follows checks the number of a genuine line, and that it follows the line before.
func (v *verifier) follows(s *chainState, l placed) {
	bad := uint64(s.bad)
	switch {
	case l.Seq < s.next:
		v.early(s, l)
		return
	case l.Seq > s.next+bad:
		s.miss(gap{s.next + bad, l.Seq - 1, s.file, l.number})
	case l.Seq == s.next && bad == 0 && s.prev != "" && l.Prev != s.prev:
		v.fault(s.at(l.number, "changed", "line %d does not follow the line before it: another line with its number was there", l.number))
	}
	s.next, s.prev, s.bad = l.Seq+1, l.mac.String(), 0
	s.out.Last, s.out.Lines = l.Seq, s.out.Lines+1
	if s.hasHead && l.Seq == s.head.Seq {
		s.atHead = s.prev
	}
	if s.why = ""; l.About != nil {
		s.why = l.About.Why
	}
}

func (s *chainState) miss(g gap) {
	if len(s.gaps) < maxGaps {
		s.gaps = append(s.gaps, g)
	}
}

// early reports a genuine line whose number came before, or should have.
func (v *verifier) early(s *chainState, l placed) {
	i := slices.IndexFunc(s.gaps, func(g gap) bool { return g.from <= l.Seq && l.Seq <= g.to })
	if i < 0 {
		v.fault(s.at(l.number, "repeated", "line %d has the number %d, which was there before", l.number, l.Seq))
		return
	}
	v.fault(s.at(l.number, "reordered", "line %d has the number %d, and stands behind %d", l.number, l.Seq, s.next-1))
	s.out.Lines++
	g := s.gaps[i]
	s.gaps = slices.Delete(s.gaps, i, i+1)
	if g.from < l.Seq {
		s.miss(gap{g.from, l.Seq - 1, g.file, g.line})
	}
	if l.Seq < g.to {
		s.miss(gap{l.Seq + 1, g.to, g.file, g.line})
	}
}

// endChain reports what is missing in a chain, and how its end is known.
func (v *verifier) endChain(ctx context.Context) error {
	s := v.state
	if s == nil {
		return nil
	}
	v.state = nil
	for _, g := range s.gaps {
		said := fmt.Sprintf("the lines with the numbers %d to %d are missing before line %d", g.from, g.to, g.line)
		if g.from == g.to {
			said = fmt.Sprintf("the line with the number %d is missing before line %d", g.from, g.line)
		}
		v.fault(Fault{File: g.file, Line: g.line, What: "missing", Said: said})
	}
	v.checkEnd(s)
	v.ended[s.out.Chain] = s
	v.order = append(v.order, s)
	return ctx.Err()
}

// checkEnd compares the last line with the head.
func (v *verifier) checkEnd(s *chainState) {
	if s.out.End = "unknown"; s.why == WhyClosed {
		s.out.End = "closed"
	}
	switch {
	case !s.hasHead:
		if s.why != WhyClosed {
			s.note("it does not end with a closing line, and no head of it was asked for or kept: lines may be missing after number %d", s.out.Last)
		}
	case s.head.Chain != s.out.Chain: // see relate
	case s.head.Seq > s.out.Last:
		said := fmt.Sprintf("the end is cut off: the store knows a line with the number %d, and the last one here is %d", s.head.Seq, s.out.Last)
		if s.why == WhyRotated {
			said += "; if later files exist, name them too"
		}
		v.fault(s.at(0, "cut-off", "%s", said))
	case s.head.Seq >= s.out.First && s.atHead != s.head.MAC:
		v.fault(s.at(0, "changed", "the line with the number %d is not the one that the store knows", s.head.Seq))
	default:
		s.out.End = "head"
	}
}
