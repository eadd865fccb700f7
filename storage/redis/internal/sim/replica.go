package sim

import "time"

// following is a replica's side of its link to its primary.
type following struct {
	primary   string // its address
	state     linkState
	link      *end
	cached    *position     // the position to continue from; nil if it must be filled
	since     time.Duration // since when an established link is down; 0 if it never was up
	lastHeard time.Duration // the time of the primary's last message
}

type linkState int

const (
	linkNone    linkState = iota // to be connected
	linkAsked                    // waiting for an answer to PSYNC
	linkFilling                  // a copy is on its way; reads get the old data
	linkUp
)

// dial connects to the primary and asks to continue.
func (s *server) dial() {
	f := s.following
	primary := s.w.server(f.primary)
	if primary == nil || primary == s {
		return
	}
	own, theirs := s.connect(primary.node, forReplication)
	f.link, f.state, f.lastHeard = own, linkAsked, s.w.now
	own.onClose = func() {
		if s.following == f && f.link == own {
			s.disconnect()
		}
	}
	from := position{"?", -1}
	if f.cached != nil {
		from = *f.cached
	}
	own.send(func() { primary.psync(theirs, s, from) })
}

// disconnect drops the link, if there is one, and keeps the position.
func (s *server) disconnect() {
	f := s.following
	if f.state == linkUp {
		f.cached, f.since = &position{s.replID, s.offset}, s.w.now
	}
	if f.link != nil {
		f.link.close()
	}
	f.link, f.state = nil, linkNone
}

// keepFollowing runs every second: a lost link is replaced, a silent one is dropped, and the
// primary gets the present offset.
func (s *server) keepFollowing() {
	f := s.following
	if f.state != linkNone && s.w.now-f.lastHeard > s.w.cfg.ReplTimeout {
		s.disconnect()
	}
	switch f.state {
	case linkNone:
		s.dial()
	case linkUp:
		s.sendAck()
	}
}

func (s *server) sendAck() {
	f, offset := s.following, s.offset
	primary := s.w.server(f.primary)
	link := f.link
	link.send(func() { primary.ack(link.peer, offset) })
}

// is reports whether an end is that of the present link.
func (f *following) is(link *end) bool { return f != nil && f.link == link }

// resume handles +CONTINUE: the primary has the history, possibly under a new id.
func (s *server) resume(link *end, id string) {
	f := s.following
	if !f.is(link) {
		return
	}
	if id != s.replID {
		s.replID2, s.secondOffset, s.replID = s.replID, s.offset+1, id
		s.dropFollowers()
	}
	if s.log == nil {
		s.log = &backlog{first: s.offset}
	}
	s.linked()
}

// beginFill handles +FULLRESYNC: the position in the old history is dropped.
func (s *server) beginFill(link *end) {
	if f := s.following; f.is(link) {
		f.state, f.cached, f.lastHeard = linkFilling, nil, s.w.now
	}
}

// load replaces the data by the copy that has arrived.
func (s *server) load(link *end, at position, copied *data) {
	if !s.following.is(link) {
		return
	}
	s.data, s.replID, s.offset = copied, at.id, at.offset
	s.replID2, s.secondOffset = noID, -1
	s.log = &backlog{first: at.offset}
	s.dropFollowers()
	s.linked()
	s.w.log("%s is filled by %s up to %d", s.name, s.w.nameOf(s.following.primary), at.offset)
}

func (s *server) linked() {
	f := s.following
	f.state, f.cached, f.since, f.lastHeard = linkUp, nil, 0, s.w.now
	s.sendAck()
}

// receive applies an entry of the primary.
func (s *server) receive(link *end, e entry) {
	f := s.following
	if !f.is(link) || f.state != linkUp {
		return
	}
	f.lastHeard = s.w.now
	s.data.apply(e.effect)
	s.offset = e.end
	s.pass(e)
	if e.op == opGetAck {
		s.sendAck()
	}
}

// reported returns the offset that a replica reports.
func (s *server) reported() int64 {
	f := s.following
	switch {
	case f.state == linkUp:
		return s.offset
	case f.cached != nil:
		return f.cached.offset
	}
	return 1
}
