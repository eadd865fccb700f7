package people

import (
	"sync"
	"time"
)

// maxKnown is the greatest number of groups that are remembered. An installation has tens of
// them; should there be more, they are read more often.
const maxKnown = 4096

// groups remembers the ids of groups for [MaxAge]. A name without a group is remembered too.
type groups struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]known
}

// known is the id of a group, "" for none, as it was at a time.
type known struct {
	id string
	at time.Time
}

func newGroups(now func() time.Time) *groups { return &groups{now: now, known: map[string]known{}} }

// current reports whether an entry counts. One from the future does not: the clock was set back.
func (k known) current(now time.Time) bool {
	age := now.Sub(k.at)
	return age >= 0 && age < MaxAge
}

// look returns the ids of the groups that are known, "" for none, and the names of the others.
func (g *groups) look(names []string) (ids map[string]string, unknown []string) {
	now := g.now()
	ids = make(map[string]string, len(names))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		if k, ok := g.known[name]; ok && k.current(now) {
			ids[name] = k.id
		} else {
			unknown = append(unknown, name)
		}
	}
	return ids, unknown
}

// learn remembers groups that were asked for at a time. What somebody else asked for later stays.
func (g *groups) learn(asked time.Time, ids map[string]string) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, id := range ids {
		if have, ok := g.known[name]; ok && have.current(now) && have.at.After(asked) {
			continue
		}
		if len(g.known) >= maxKnown {
			clear(g.known)
		}
		g.known[name] = known{id, asked}
	}
}
