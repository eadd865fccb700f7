// Package failover decides, behind Sentinel, what one process may believe: who is primary,
// until when nobody else can be, how many replicas have to confirm a write, and whether a
// server that was promoted has everything that was acknowledged before.
//
// It asks nobody and has no clock. Somebody else looks around (a [Look]) and is told what
// to make of it (a [View]).
//
// The words: a term is the time in which one server is primary without a break. Sentinel
// numbers terms (config-epoch), and a number never comes back. The mark is a record in the
// database that says of which term its contents are. The lease is the time for which the
// sentinels cannot promote anybody else.
package failover

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Look is what a process saw when it looked around once.
type Look struct {
	// Begun is when the first question was asked: everything was so at that time or later.
	Begun time.Time
	// Reports are the answers of the sentinels, one for each that answered.
	Reports []Report
	// Servers is what servers say of themselves, by address. One that did not answer is not
	// in it; those that nobody asked are neither.
	Servers map[string]Server
}

// Report is what one sentinel says.
type Report struct {
	Primary   string        // host:port of the primary
	Epoch     uint64        // the number of its term
	Failing   bool          // this sentinel is replacing the primary, and has not done so yet
	Down      bool          // it does not reach the primary
	Silence   time.Duration // how long the primary has not answered its ping
	DownAfter time.Duration // how long it waits until it calls a server down
	Quorum    int           // how many sentinels have to call the primary down
	Sentinels int           // how many there are, itself included
	Missing   int           // how many of the others it does not reach
	VoteKnown bool          // it has told the number of the term that it voted on last, which is
	Voted     uint64        // higher than that of the present one once somebody is elected to end that
	Others    []Other       // the other servers of the group
}

// Other is what a sentinel says about a server that is not the primary.
type Other struct {
	Addr    string
	Down    bool          // it does not reach the server
	DownFor time.Duration // and has not for so long
	Barred  bool          // the server is never promoted: its replica-priority is 0
}

// Server is what a server says of itself.
type Server struct {
	Primary  bool   // it is a primary by its own account
	Lineage  string // its replication id
	Before   string // the one of the history that it continues (master_replid2)
	Offset   int64  // how far its history goes, in bytes
	Branched int64  // how far it followed Before (second_repl_offset)
	Follows  string // host:port of its primary, for a replica
	Linked   bool   // it hears that one
	Replicas []Replica
	Mark     Mark
}

// Replica is what a primary says about a replica of its.
type Replica struct {
	Addr   string
	Online bool  // it has been filled
	Lag    int   // seconds since it was heard last
	Offset int64 // how far it had come then
}

// reach is how far a server has come in the history of its mark, -1 if it has no part in it. The
// one that reigned has all of it, also after a restart, which gives it another history.
func (s Server) reach(addr string) int64 {
	switch s.Mark.Lineage {
	case s.Lineage:
		return s.Offset
	case s.Before:
		return s.Branched
	}
	if s.Primary && addr == s.Mark.Primary && addr != "" {
		return math.MaxInt64
	}
	return -1
}

// follows reports whether the replica confirms writes at present: it is heard, and has come as
// far as the primary had a while ago. One that hangs stays online for repl-timeout, a minute by
// default.
func (r Replica) follows(offset int64) bool {
	return r.Online && r.Lag < int(hangTime/time.Second) && r.Offset >= offset
}

// hangTime is how long a replica may say nothing or fall behind until nobody waits for it any
// more. One that is well is heard every second.
const hangTime = 2 * time.Second

// Mark says of which term the contents of a server are. The zero Mark is that of a database
// that nobody has used.
type Mark struct {
	Epoch   uint64
	Lineage string
	// Alone counts how often a primary began to acknowledge writes that no replica had, in
	// all terms.
	Alone uint64
	// Primary is the address of the one that reigned.
	Primary string
}

// Lacks reports whether the contents that m is in may lack something that those with another
// mark have.
func (m Mark) Lacks(other Mark) bool { return m.Epoch < other.Epoch || m.Alone < other.Alone }

// String is how a mark is stored.
func (m Mark) String() string {
	if m == (Mark{}) {
		return ""
	}
	return fmt.Sprintf("%d %s %d %s", m.Epoch, m.Lineage, m.Alone, m.Primary)
}

// ParseMark reads what [Mark.String] wrote. What is no mark is the zero one.
func ParseMark(s string) Mark {
	fields := strings.Split(s, " ")
	if len(fields) != 4 {
		return Mark{}
	}
	epoch, err := strconv.ParseUint(fields[0], 10, 64)
	alone, err2 := strconv.ParseUint(fields[2], 10, 64)
	if err != nil || err2 != nil {
		return Mark{}
	}
	return Mark{Epoch: epoch, Lineage: fields[1], Alone: alone, Primary: fields[3]}
}

// Term is who is primary, and the number of that.
type Term struct {
	Primary string
	Epoch   uint64
}

// Named returns the primary that a majority of all sentinels names.
func (l Look) Named() (Term, bool) {
	votes := map[string]int{}
	for _, r := range l.Reports {
		votes[r.Primary]++
	}
	for addr, n := range votes {
		if addr == "" || n < majority(l.sentinels()) {
			continue
		}
		term := Term{Primary: addr}
		for _, r := range l.Reports {
			if r.Primary == addr {
				term.Epoch = max(term.Epoch, r.Epoch)
			}
		}
		return term, true
	}
	return Term{}, false
}

// Others returns the addresses of all servers that any sentinel lists beside the one at an
// address.
func (l Look) Others(primary string) []string {
	var addrs []string
	seen := map[string]bool{primary: true}
	for _, r := range l.Reports {
		for _, o := range r.Others {
			if !seen[o.Addr] {
				seen[o.Addr] = true
				addrs = append(addrs, o.Addr)
			}
		}
		if r.Primary != "" && !seen[r.Primary] { // a sentinel that has not heard of the promotion
			seen[r.Primary] = true
			addrs = append(addrs, r.Primary)
		}
	}
	return addrs
}

// apart returns the servers that a majority of the sentinels reaches and that the primary does
// not name among its replicas.
func (l Look) apart(term Term, server Server) (addrs []string) {
	for _, addr := range l.Others(term.Primary) {
		named := slices.ContainsFunc(server.Replicas, func(r Replica) bool { return r.Addr == addr })
		if !named && !l.down(addr, 0) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// sentinels returns how many sentinels there are, as the one says that knows most.
func (l Look) sentinels() (n int) {
	for _, r := range l.Reports {
		n = max(n, r.Sentinels)
	}
	return n
}

// downAfter returns the shortest time after which a sentinel calls a server down.
func (l Look) downAfter() time.Duration {
	shortest := time.Duration(0)
	for _, r := range l.Reports {
		if shortest == 0 || r.DownAfter < shortest {
			shortest = r.DownAfter
		}
	}
	return shortest
}

// down reports whether a majority of all sentinels has not reached a server for so long.
func (l Look) down(addr string, at least) bool {
	votes := 0
	for _, r := range l.Reports {
		for _, o := range r.Others {
			if o.Addr == addr && o.Down && o.DownFor >= time.Duration(at) {
				votes++
			}
		}
	}
	return votes >= majority(l.sentinels())
}

// least is a time that has passed at the least.
type least time.Duration

// barred reports whether all sentinels that answered say that a server is never promoted.
func (l Look) barred(addr string) bool {
	found := false
	for _, r := range l.Reports {
		for _, o := range r.Others {
			if o.Addr == addr {
				if !o.Barred {
					return false
				}
				found = true
			}
		}
	}
	return found
}

// majority of n.
func majority(n int) int { return n/2 + 1 }
