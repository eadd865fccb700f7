package authz

import (
	"strings"
	"sync"
)

// holder is the person of a session.
type holder struct{ userName, subject string }

// maxHolders is the greatest number of sessions in one generation of [holders]: some 2 MB in both. Only
// a sign-in makes a session.
const maxHolders = 1 << 12

// holders remembers whose the sessions are that this process has seen, by [storage.Session.ID]: then
// the person is read together with the session. It is not a fact about either. A session never gets
// another person, both records are read for each request, and a session of somebody else costs a
// round trip. The sessions that were used last stay.
type holders struct {
	mu         sync.Mutex
	young, old map[string]holder
}

func (h *holders) of(session string) (holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if who, ok := h.young[session]; ok {
		return who, true
	}
	who, ok := h.old[session]
	return who, ok
}

func (h *holders) put(session string, who holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.young[session] == who {
		return
	}
	if h.young == nil || len(h.young) >= maxHolders {
		h.old, h.young = h.young, map[string]holder{}
	}
	h.young[session] = holder{strings.Clone(who.userName), strings.Clone(who.subject)} // without the rest of a record
}
