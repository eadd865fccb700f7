//go:build e2e

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// promise is one answer of the server, and what it promised. An uncertain answer is a promise
// too: that no token was handed out.
type promise struct {
	Op      string `json:"op"`
	Outcome string `json:"outcome"` // of the answer, see outcome

	Client string `json:"client,omitempty"`
	Person string `json:"person,omitempty"`
	// Code names its family.
	Code string `json:"code,omitempty"`
	// Token is the refresh token that was sent, or the registration access token.
	Token   string `json:"token,omitempty"`
	Access  string `json:"access,omitempty"`
	Refresh string `json:"refresh,omitempty"`
}

// The operations of promises. Their outcomes mean different things for later answers.
const (
	opRegister = "register"
	opConsent  = "consent" // only those that gave a code
	opRedeem   = "redeem"  // no other redemption of the code meanwhile
	opRace     = "race"    // with others
	opReplay   = "replay"  // the code is known to be spent
	opRefresh  = "refresh"
	opRevoke   = "revoke"
	opAdd      = "add" // a person
	opDisable  = "disable"
)

// journal is a file of promises. A promise is on disk before its client goes on.
type journal struct {
	path  string
	count atomic.Int64
	// forgets is set if replicas may take over that lack unanswered writes, and no lineage
	// refuses the codes from before. It is set before the load begins.
	forgets bool

	mu   sync.Mutex
	file *os.File
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	j := &journal{path: filepath.Join(t.TempDir(), "journal")}
	var err error
	if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.file.Close() })
	return j
}

// append returns when the promise is on disk.
func (j *journal) append(p promise) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.count.Add(1)
	return nil
}

// read returns the state that follows from all promises of the file.
func (j *journal) read(t *testing.T) *ledger {
	t.Helper()
	file, err := os.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l := &ledger{forgets: j.forgets, clients: map[string]string{}, people: map[string]*person{}, families: map[string]*kin{}}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var p promise
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatalf("line %d of the journal: %v", l.promises+1, err)
		}
		l.promises++
		l.enter(p)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// ledger is the state that follows from the promises of a journal.
type ledger struct {
	promises int
	forgets  bool              // see journal
	clients  map[string]string // the registration access token by client
	people   map[string]*person
	families map[string]*kin // by code
	broken   []string        // promises that contradict each other
}

// person is a person who was added under load.
type person struct {
	disabled bool
	doubt    bool // the person was to be disabled, with an unknown outcome
}

// kin is a code and all tokens that were handed out for it.
type kin struct {
	client, person, code string
	forgets              bool // see journal

	won         int               // redemptions that gave tokens
	first       string            // the refresh token of the first of them
	next        map[string]string // the successor that was handed out for a refresh token
	unknownNext map[string]bool   // refresh tokens with a successor that may exist and was not received
	access      []string
	refresh     []string

	refused int  // redemptions that were refused, and were no replays
	doubted int  // redemptions with an unknown outcome
	raced   int  // redemptions that met others, and gave nothing
	ended   bool // a revocation was acknowledged, or a replay punished
	doubt   bool // one of those was tried, with an unknown outcome

	told []string // the answers, shortened
}

// enter adds one promise. Promises of one family are in the order of their answers, except those
// of a race.
func (l *ledger) enter(p promise) {
	doubt := p.Outcome == unavailable.String() || p.Outcome == unknown.String()
	done := p.Outcome == granted.String()
	switch p.Op {
	case opRegister:
		l.clients[p.Client] = p.Token
	case opConsent:
		l.families[p.Code] = &kin{client: p.Client, person: p.Person, code: p.Code, forgets: l.forgets, next: map[string]string{}, unknownNext: map[string]bool{}}
	case opAdd:
		l.people[p.Person] = &person{}
	case opDisable:
		who := l.people[p.Person]
		who.disabled, who.doubt = who.disabled || done, who.doubt || doubt
	case opRevoke:
		f := l.families[p.Code]
		f.ended, f.doubt = f.ended || done, f.doubt || doubt
	case opRefresh:
		l.enterRefresh(p, done, doubt)
	default:
		l.families[p.Code].enterRedemption(p, done, doubt)
	}
	if f := l.families[p.Code]; f != nil {
		f.told = append(f.told, fmt.Sprintf("%s %s %s %s", p.Op, end(p.Token), p.Outcome, end(p.Refresh)))
	}
}

// end returns the end of a token, enough to distinguish it from others.
func end(token string) string { return token[max(0, len(token)-6):] }

func (l *ledger) enterRefresh(p promise, done, doubt bool) {
	f := l.families[p.Code]
	f.unknownNext[p.Token] = f.unknownNext[p.Token] || doubt
	if !done {
		return
	}
	if other, ok := f.next[p.Token]; ok && other != p.Refresh {
		l.broken = append(l.broken, fmt.Sprintf("the refresh token %s has the successors %s and %s", p.Token, other, p.Refresh))
	}
	f.next[p.Token] = p.Refresh
	f.access, f.refresh = append(f.access, p.Access), append(f.refresh, p.Refresh)
}

func (f *kin) enterRedemption(p promise, done, doubt bool) {
	no := p.Outcome == refused.String()
	switch {
	case done:
		f.won++
		f.first = p.Refresh
		f.access, f.refresh = append(f.access, p.Access), append(f.refresh, p.Refresh)
	case p.Op == opReplay:
		f.ended, f.doubt = f.ended || no, f.doubt || doubt
	case no:
		f.refused++
	case doubt:
		f.doubted++
	}
	if p.Op == opRace && (no || doubt) {
		f.raced++
	}
}

// last returns the last refresh token that was handed out, and the one before it. There is none
// before it if the last one may have been used: then it is too old.
func (f *kin) last() (token, before string) {
	token = f.first
	for range f.next { // bounded, whatever the promises are
		next, ok := f.next[token]
		if !ok {
			break
		}
		token, before = next, token
	}
	if f.unknownNext[token] {
		before = ""
	}
	return token, before
}

// fate is what the promises determine about a family at the end.
type fate int

const (
	lives fate = iota // the code is not spent, or its tokens work
	dead              // neither the code nor any token works
	open              // one or the other: an outcome is unknown
)

// fate follows the rules of a code. A redemption without an answer may have spent it. If so, the
// next redemption is a replay: it is refused, it ends a family whose tokens no client has, and no
// token is ever handed out. If not, the next one gets tokens, and the first one can have no
// effect any more. A redemption that is refused while others run may have ended the family of the
// winner. If the winner had no answer and a replica takes over that lacks its write too, the code
// is not spent.
func (f *kin) fate(people map[string]*person) fate {
	who := people[f.person]
	switch {
	case f.ended || who != nil && who.disabled:
		return dead
	case f.won == 0 && f.refused > 0 && !(f.forgets && f.raced > f.refused):
		return dead
	case f.doubt || who != nil && who.doubt:
		return open
	case f.won == 0 && f.doubted > 0, f.won > 0 && f.raced > 0:
		return open
	}
	return lives
}

func (f fate) String() string { return [...]string{"alive", "dead", "open"}[f] }

// fates counts families by their fate.
func (l *ledger) fates() map[fate]int {
	n := map[fate]int{}
	for _, f := range l.families {
		n[f.fate(l.people)]++
	}
	return n
}
