package sim

import (
	"fmt"
	"time"
)

// server is a Redis server. Every write is on its disk before the answer.
type server struct {
	*node
	data    *data
	runID   string
	scripts map[string]bool // those in its cache, by their SHA-1

	replID, replID2 string
	secondOffset    int64 // the length of the history replID2 that it continues; -1 for none
	offset          int64
	log             *backlog // nil until there is a replica
	followers       []*follower
	waits           []*wait

	configured string // the address of the primary that it follows after a restart; "" for none
	following  *following

	watches map[*end]watch       // the watched keys of connections
	channel map[*end]func(hello) // subscribers of the sentinels' messages
}

// backlog is the stream to replicas, from an offset on.
type backlog struct {
	first   int64
	entries []entry
}

// entry is an effect and the offset after it.
type entry struct {
	effect
	end int64
}

// noID is how Redis prints the id of no history.
const noID = "0000000000000000000000000000000000000000"

func newServer(w *World, i int) *server {
	s := &server{
		node: w.newNode(string(rune('A'+i)), fmt.Sprintf("10.0.0.%d:6379", i+1)),
		data: newData(), scripts: map[string]bool{}, replID2: noID, secondOffset: -1,
		channel: map[*end]func(hello){}, watches: map[*end]watch{},
	}
	s.node.crashed, s.node.restarted = s.loseMemory, s.start
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

// begin starts a server in a world where all have followed A for long.
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

// loseMemory is the effect of a crash: only the data on disk stays.
func (s *server) loseMemory() {
	s.followers, s.waits, s.log, s.following, s.channel = nil, nil, nil, nil, map[*end]func(hello){}
	s.scripts, s.watches = map[string]bool{}, map[*end]watch{}
}

// start is a restart: a new history begins, which no replica can continue.
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

// cron runs every second.
func (s *server) cron() {
	s.every(time.Second, func() {
		if s.following != nil {
			s.keepFollowing()
		}
		s.keepFollowers()
	})
}

// become executes SLAVEOF: the server follows another one, or none if addr is empty. The
// sentinels have it write that to its configuration, and close all other connections.
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

// replicates reports whether an end belongs to replication.
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

// promote makes a primary of a replica: its history continues that of its primary under a new id.
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

// follow makes the server a replica, or lets it follow another primary. It keeps its position in
// the history, to continue from there if the new primary has it.
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
