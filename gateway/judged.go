package gateway

import (
	"maps"
	"strings"
	"sync/atomic"
)

// maxJudged bounds the names whose verdict is kept, and maxJudgedName their length. Clients send some
// dozens of names; the others, which strangers can invent, are judged each time.
const (
	maxJudged     = 256
	maxJudgedName = 64
)

// judged is a rule about header names that never changes, with its verdicts on names so far. It is
// safe for concurrent use.
type judged struct {
	rule  func(name string) bool
	known atomic.Pointer[map[string]bool]
}

func newJudged(rule func(name string) bool) *judged {
	j := &judged{rule: rule}
	j.known.Store(&map[string]bool{})
	return j
}

// of returns the verdict on a name. Of two new names at the same moment one may be forgotten, and is
// judged again.
func (j *judged) of(name string) bool {
	before := j.known.Load()
	if verdict, ok := (*before)[name]; ok {
		return verdict
	}
	verdict := j.rule(name)
	if len(*before) < maxJudged && len(name) <= maxJudgedName {
		after := maps.Clone(*before)
		after[strings.Clone(name)] = verdict // a name shares memory with its request
		j.known.CompareAndSwap(before, &after)
	}
	return verdict
}
