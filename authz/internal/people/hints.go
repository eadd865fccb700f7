package people

import (
	"container/list"
	"slices"
	"sync"
)

const (
	// maxHints is for how many grants the person is remembered. A hint takes some 200 bytes, and
	// up to 2 kB for a person of many groups.
	maxHints = 1 << 16
	// hintedGroups is the greatest number of groups in a hint. For a person with more, those
	// that are not known take a round trip of their own.
	hintedGroups = 16
)

// hint is what to read together with a grant: the person, and groups that decide about it. It is
// not a fact about either: both are read.
type hint struct {
	user   string
	groups []string
}

// hints are the hints for the grants that were used last, by the id of the grant.
type hints struct {
	most int

	mu   sync.Mutex
	byID map[string]*list.Element
	used list.List // of entries, the one that was used last at the front
}

type entry struct {
	id string
	hint
}

func newHints(most int) *hints { return &hints{most: most, byID: map[string]*list.Element{}} }

func (h *hints) of(id string) (hint, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.byID[id]
	if !ok {
		return hint{}, false
	}
	h.used.MoveToFront(e)
	return e.Value.(entry).hint, true
}

func (h *hints) put(id string, n hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byID[id]; ok {
		h.used.MoveToFront(e)
		if have := e.Value.(entry).hint; have.user != n.user || !slices.Equal(have.groups, n.groups) {
			e.Value = entry{id, n}
		}
		return
	}
	h.byID[id] = h.used.PushFront(entry{id, n})
	if h.used.Len() > h.most {
		h.drop(h.used.Back())
	}
}

func (h *hints) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byID[id]; ok {
		h.drop(e)
	}
}

func (h *hints) drop(e *list.Element) {
	delete(h.byID, h.used.Remove(e).(entry).id)
}
