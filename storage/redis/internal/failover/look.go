// Package failover decides, for one process behind Sentinel, which server is primary, until when
// no other server can be, how many replicas have to confirm a write, and whether a promoted
// server has everything that was acknowledged before.
//
// It sends nothing and has no clock. Its caller asks the sentinels and the servers, passes the
// answers in (a [Look]) and gets back what follows from them (a [View]).
//
// The words: a term is the time in which one server is primary without a break. Sentinel numbers
// terms (config-epoch), and a number never comes back. The mark is a record in the database that
// names the term to which its contents belong. The lease is the time for which the sentinels
// cannot promote another server. A candidate is a server that they could promote.
package failover

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Look is what a process found when it asked the sentinels and the servers once.
type Look struct {
	// Begun is the time before the first question: every answer is from that time or later.
	Begun time.Time
	// Reports are the answers of the sentinels, one for each that answered.
	Reports []Report
	// Servers has the answers of the servers, by address. A server that was not asked, or did not
	// answer, is not in it.
	Servers map[string]Server
}

// Report is the answer of one sentinel.
type Report struct {
	Primary   string        // host:port of the primary
	Epoch     uint64        // the number of its term
	Failing   bool          // the sentinel is replacing the primary, and has not promoted another one yet
	Down      bool          // the sentinel does not reach the primary
	Silence   time.Duration // the time since the oldest ping that the primary has not answered
	DownAfter time.Duration // the time after which the sentinel considers a server down
	Quorum    int           // the number of sentinels that have to consider the primary down
	Sentinels int           // the number of sentinels, this one included
	Missing   int           // the number of other sentinels that it does not reach
	VoteKnown bool          // Voted is set
	Voted     uint64        // the term in which it voted last: a later one than the present once a sentinel is elected to end that
	Others    []Other       // the other servers of the group
}

// Other is what a sentinel reports about a server that is not the primary.
type Other struct {
	Addr    string
	Down    bool          // the sentinel does not reach the server
	DownFor time.Duration // the time since it does not
	Barred  bool          // the server is never promoted: its replica-priority is 0
}

// Server is what a server reports about itself.
type Server struct {
	Primary  bool   // its role is primary
	Lineage  string // its replication id
	Before   string // the replication id of the history that it continues (master_replid2)
	Offset   int64  // the length of its history, in bytes
	Branched int64  // the length of its copy of the history Before (second_repl_offset)
	Follows  string // host:port of its primary, for a replica
	Linked   bool   // its link to that primary is up
	Replicas []Replica
	Mark     Mark
}

// Replica is what a primary reports about one of its replicas.
type Replica struct {
	Addr   string
	Online bool  // its first copy is complete
	Lag    int   // seconds since its last message
	Offset int64 // the length of its copy, by that message
}

// reach returns how much of the history of its mark a server has, in bytes, and -1 for a server
// that has no part of it. The primary of that term has all of it, also after a restart, which
// gives it another history.
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

// follows reports whether the replica confirms writes at present: its last message is recent, and
// its copy has reached offset. A replica that hangs stays online for repl-timeout, a minute by
// default.
func (r Replica) follows(offset int64) bool {
	return r.Online && r.Lag < int(hangTime/time.Second) && r.Offset >= offset
}

// hangTime is how long a replica may be silent or behind before writes stop waiting for it. A
// healthy replica sends a message every second.
const hangTime = 2 * time.Second

// Mark names the term to which the contents of a server belong. The zero Mark is that of an
// unused database.
type Mark struct {
	Epoch   uint64
	Lineage string
	// Alone is how often, in all terms, a primary began to acknowledge writes that an earlier copy
	// cannot get any more by following it: it went on without replicas, or restarted, which gives
	// it another history.
	Alone uint64
	// Primary is the address of the primary of the term.
	Primary string
}

// Lacks reports whether contents with the mark m may lack writes that contents with the other
// mark have.
func (m Mark) Lacks(other Mark) bool { return m.Epoch < other.Epoch || m.Alone < other.Alone }

// String returns the stored form of a mark, empty for the zero Mark.
func (m Mark) String() string {
	if m == (Mark{}) {
		return ""
	}
	return fmt.Sprintf("%d %s %d %s", m.Epoch, m.Lineage, m.Alone, m.Primary)
}

// ParseMark parses the result of [Mark.String]. Any other string gives the zero Mark.
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

// Term is the time in which one server is primary without a break.
type Term struct {
	Primary string
	Epoch   uint64
}

// Named returns the term of the primary that a majority of all sentinels names.
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

// Others returns the addresses of all servers, except primary, that any sentinel lists.
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
		if r.Primary != "" && !seen[r.Primary] { // a sentinel that has no news of the promotion
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

// sentinels returns the largest number of sentinels in any report.
func (l Look) sentinels() (n int) {
	for _, r := range l.Reports {
		n = max(n, r.Sentinels)
	}
	return n
}

// downAfter returns the shortest time after which a sentinel considers a server down.
func (l Look) downAfter() time.Duration {
	shortest := time.Duration(0)
	for _, r := range l.Reports {
		if shortest == 0 || r.DownAfter < shortest {
			shortest = r.DownAfter
		}
	}
	return shortest
}

// down reports whether a majority of all sentinels has not reached a server for that time.
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

// least is the shortest time for which a server has been down.
type least time.Duration

// barred reports whether all sentinels that list a server report that it is never promoted.
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

// majority returns the smallest number that is more than half of n.
func majority(n int) int { return n/2 + 1 }
