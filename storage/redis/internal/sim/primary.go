package sim

import (
	"slices"
	"time"
)

// follower is a replica as its primary sees it.
type follower struct {
	link    *end
	addr    string
	state   string // in INFO's notation
	acked   int64
	ackTime time.Duration
	copied  bool    // the copy has been sent
	late    []entry // entries to be sent after the copy
}

// The states of a follower.
const (
	stateWaiting = "wait_bgsave"
	stateSending = "send_bulk"
	stateOnline  = "online"
)

// pingPeriod is repl-ping-replica-period.
const pingPeriod = 10 * time.Second

// execute applies an effect of a command and sends it to the replicas.
func (s *server) execute(e effect) {
	s.data.apply(e)
	s.feed(e)
}

// feed appends an effect to the history.
func (s *server) feed(e effect) {
	if s.log == nil {
		return // there never was a replica
	}
	s.offset += e.size()
	s.pass(entry{e, s.offset})
}

// pass appends an entry to the backlog and sends it to the replicas.
func (s *server) pass(e entry) {
	s.log.entries = append(s.log.entries, e)
	for _, f := range s.followers {
		switch {
		case f.state == stateOnline || f.copied:
			f.send(s, e)
		case f.state == stateSending:
			f.late = append(f.late, e)
		}
	}
}

func (f *follower) send(from *server, e entry) {
	replica := from.w.server(f.addr)
	f.link.send(func() { replica.receive(f.link.peer, e) })
}

// position is a place in a history.
type position struct {
	id     string
	offset int64
}

// psync answers a replica that asks to continue from a position.
func (s *server) psync(link *end, replica *server, from position) {
	if s.following != nil && s.following.state != linkUp {
		link.close() // -NOMASTERLINK
		return
	}
	if s.log == nil {
		s.log = &backlog{first: s.offset}
		if s.following == nil {
			s.replID, s.replID2, s.secondOffset = s.newID(), noID, -1
		}
	}
	f := &follower{link: link, addr: replica.addr, state: stateWaiting, ackTime: s.w.now}
	s.followers = append(s.followers, f)
	link.onClose = func() { s.lose(f) }
	if !s.has(from) {
		s.w.log("%s will fill %s", s.name, replica.name)
		s.after(s.w.cfg.SyncDelay, func() { s.fill(f, replica) })
		return
	}
	f.state = stateOnline
	id := s.replID
	link.send(func() { replica.resume(link.peer, id) })
	for _, e := range s.log.entries {
		if e.end > from.offset {
			f.send(s, e)
		}
	}
}

// has reports whether a replica can continue from a position.
func (s *server) has(from position) bool {
	same := from.id == s.replID || from.id == s.replID2 && from.offset+1 <= s.secondOffset
	return same && from.offset >= s.log.first && from.offset <= s.offset
}

// fill sends a copy of everything to a replica.
func (s *server) fill(f *follower, replica *server) {
	if f.link.closed {
		return
	}
	f.state = stateSending
	at, copied := position{s.replID, s.offset}, s.data.clone()
	f.link.send(func() { replica.beginFill(f.link.peer) })
	s.after(s.w.cfg.SyncTime, func() {
		f.link.send(func() { replica.load(f.link.peer, at, copied) })
		f.copied = true
		for _, e := range f.late {
			f.send(s, e)
		}
		f.late = nil
	})
}

// ack records the offset that a replica has reported.
func (s *server) ack(link *end, offset int64) {
	for _, f := range s.followers {
		if f.link == link && (f.state == stateOnline || f.copied) {
			f.state, f.acked, f.ackTime = stateOnline, max(f.acked, offset), s.w.now
		}
	}
	s.settle()
}

// keepFollowers pings the replicas, and drops those that have been silent for too long.
func (s *server) keepFollowers() {
	if s.following == nil && len(s.followers) > 0 && s.w.now/pingPeriod != (s.w.now-time.Second)/pingPeriod {
		s.feed(effect{op: opPing})
	}
	for _, f := range slices.Clone(s.followers) {
		if f.state == stateOnline && s.w.now-f.ackTime > s.w.cfg.ReplTimeout {
			f.link.close()
			s.lose(f)
		}
	}
}

func (s *server) lose(f *follower) {
	s.followers = slices.DeleteFunc(s.followers, func(other *follower) bool { return other == f })
}

// dropFollowers closes the connections to the replicas, so that they ask for the new id of the
// history.
func (s *server) dropFollowers() {
	for _, f := range s.followers {
		f.link.close()
	}
	s.followers = nil
}
