package sim

import (
	"fmt"
	"time"
)

// server is a Redis server. Everything is on its disk before it is answered.
type server struct {
	*node
	data    *data
	runID   string
	scripts map[string]bool // those that it has heard, by their SHA-1

	replID, replID2 string
	secondOffset    int64 // up to which replID2 is our history as well; -1 for none
	offset          int64
	log             *backlog // nil until somebody followed
	followers       []*follower
	waits           []*wait

	configured string // the address of the primary that it follows after a restart; "" for none
	following  *following

	watches map[*end]watch       // what connections watch
	channel map[*end]func(hello) // who listens to the sentinels' messages
}

// backlog is what was sent to replicas, from an offset on.
type backlog struct {
	first   int64
	entries []entry
}

// entry is an effect and the offset after it.
type entry struct {
	effect
	end int64
}

// noID is what Redis prints for a history that is not.
const noID = "0000000000000000000000000000000000000000"

func newServer(w *World, i int) *server {
	s := &server{
		node: w.newNode(string(rune('A'+i)), fmt.Sprintf("10.0.0.%d:6379", i+1)),
		data: newData(), scripts: map[string]bool{}, replID2: noID, secondOffset: -1,
		channel: map[*end]func(hello){}, watches: map[*end]watch{},
	}
	s.node.crashed, s.node.restarted = s.forget, s.start
	s.runID = s.newID()
	return s
}

// newID draws an id as Redis does.
func (s *server) newID() string {
	id := ""
	for range 5 {
		id += fmt.Sprintf("%08x", s.rnd.Uint32())
	}
	return id
}

// begin starts a server in a world where everybody has followed A for long.
func (s *server) begin() {
	first := s.w.servers[0]
	if s == first {
		s.replID = s.newID()
	} else {
		s.configured = first.addr
		s.following = &following{primary: first.addr, cached: &position{first.replID, 0}}
		s.replID = first.replID
	}
	s.log = &backlog{}
	s.cron()
	if s.following != nil {
		s.dial()
	}
}

// forget is what a crash does: only the data is on disk.
func (s *server) forget() {
	s.followers, s.waits, s.log, s.following, s.channel = nil, nil, nil, nil, map[*end]func(hello){}
	s.scripts, s.watches = map[string]bool{}, map[*end]watch{}
}

// start is a restart: a new history begins, which nobody can continue.
func (s *server) start() {
	s.runID, s.replID, s.replID2 = s.newID(), s.newID(), noID
	s.offset, s.secondOffset = 0, -1
	if s.configured != "" {
		s.following = &following{primary: s.configured}
	}
	s.cron()
	if s.following != nil {
		s.dial()
	}
}

// cron is what a server does once in a second.
func (s *server) cron() {
	s.every(time.Second, func() {
		if s.following != nil {
			s.keepFollowing()
		}
		s.keepFollowers()
	})
}

// become carries out SLAVEOF: the server follows another one, or none if addr is empty. The
// sentinels have it write that to its configuration, and hang up on everybody else.
func (s *server) become(addr string, by *end) {
	s.replicaOf(addr)
	s.configured = addr
	for _, e := range s.open() {
		if e != by && !s.replicates(e) {
			e.close()
			delete(s.channel, e)
		}
	}
}

func (s *server) replicaOf(addr string) {
	if addr == "" {
		s.promote()
	} else {
		s.follow(addr)
	}
}

// replicates reports whether an end is one of the replication.
func (s *server) replicates(e *end) bool {
	if s.following != nil && s.following.link == e {
		return true
	}
	for _, f := range s.followers {
		if f.link == e {
			return true
		}
	}
	return false
}

// promote makes a primary of a replica: its history continues that of its primary under a
// name of its own.
func (s *server) promote() {
	if s.following == nil {
		return
	}
	if s.following.link != nil {
		s.following.link.close()
	}
	s.following = nil
	s.replID2, s.secondOffset, s.replID = s.replID, s.offset+1, s.newID()
	s.dropFollowers()
	s.w.log("%s is a primary at offset %d, %s.. after %s..", s.name, s.offset, s.replID[:6], s.replID2[:6])
}

// follow makes a replica of the server, or lets it follow another primary. It keeps its
// place in the history, to go on from there if the new primary has it.
func (s *server) follow(addr string) {
	f := s.following
	switch {
	case f == nil:
		s.following = &following{primary: addr, cached: &position{s.replID, s.offset}}
	case f.primary == addr:
		return
	default:
		s.disconnect()
		f.primary = addr
	}
	s.unblock()
	s.w.log("%s follows %s", s.name, s.w.nameOf(addr))
	s.dial()
}

func (w *World) nameOf(addr string) string {
	if n := w.addrs[addr]; n != nil {
		return n.name
	}
	return addr
}
