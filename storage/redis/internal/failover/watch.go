package failover

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// View is what a process may believe until it knows better. It never changes.
type View struct {
	Reign
	// Lineage names the reign and the history of the server: what was written in another one
	// may have been forgotten. It is empty while nobody is primary.
	Lineage string
	// Until is the end of the lease: before it nobody else begins to be promoted.
	Until time.Time
	// Confirm is how many replicas have to confirm a write while the lease lasts. It is
	// 0 only where there is nobody to wait for.
	Confirm int
	// Following are the replicas that follow the primary at present. While they are fewer than
	// have to confirm a write, none can be acknowledged.
	Following []string
	// Listed is how many other servers the sentinels list. A write that so many have
	// confirmed is on every server.
	Listed int
	// DownAfter is the shortest time after which a sentinel calls a server down.
	DownAfter time.Duration
	// Doubt is why the primary is not believed, nil if it is.
	Doubt error
	// Lost says that the primary is believed although acknowledged writes are missing there.
	Lost bool
}

// Holds reports whether the lease of a lineage lasts.
func (v *View) Holds(lineage string, now time.Time) bool {
	return v.Doubt == nil && v.Lineage == lineage && now.Before(v.Until)
}

// Step is what a process does after a look, in this order.
type Step struct {
	// Mark is to be written on the primary in place of From, and [Watch.Marked] called, before
	// View counts. It is the zero Mark when there is no need.
	Mark, From Mark
	// Refill is the address of a server from which the primary, which is refused, should be
	// filled anew: that one has everything that the primary has, and more. It is for a primary
	// with the mark From only.
	Refill string
	// Apart are servers that should follow and do not. When there is time they should be asked,
	// for [Watch.Returned].
	Apart []string
	// Finish says that it has been filled as Refill says, and the server should be a primary again.
	Finish bool
	View   View
}

// Watch remembers what a process has seen. It is for one goroutine. The zero Watch has seen
// nothing.
type Watch struct {
	// Patience is how long a server that may have more than the primary is waited for, after a
	// majority of the sentinels has found it down; 0 means a minute. Acknowledged writes may
	// be lost when it is over: set it to what the machines need to come back.
	Patience time.Duration
	// Off switches single protections off, for the test of the model that finds what each is
	// good for.
	Off Protections

	view           View
	known, pending knowledge // pending: when the mark is on record
	past           []moment  // how far the primary had come, the oldest first
	alone          alone
	refill         refill
}

// refill is what a process has asked for: that the primary of a reign is filled anew.
type refill struct {
	Reign
	from string
}

// knowledge is what a process knows of the last primary that it believed.
type knowledge struct {
	Mark
	primary string
	// asOf is until when nothing was acknowledged that the mark does not tell.
	asOf time.Time
	// followed are the replicas that had to confirm every write.
	followed []string
}

// Protections are the rules that can be switched off in tests.
type Protections struct {
	Belief, Lease, ConfirmAll bool
}

// moment is how far the history of a primary went at a time.
type moment struct {
	at     time.Time
	offset int64
}

// alone is since when the primary acknowledges writes that nobody else has.
type alone struct {
	lineage string
	looked  time.Time // when it was seen last that nobody had come back
}

const (
	// sureTime is how long a majority must not have reached the other servers until the
	// primary goes on alone: a sentinel that was cut off loses sight of one after the other.
	sureTime = 2 * time.Second
	// defaultPatience is that of a Watch that is not told another one.
	defaultPatience = time.Minute
)

var (
	errNobody  = errors.New("no majority of the sentinels names a primary")
	errSilent  = errors.New("the primary that the sentinels name does not answer")
	errReplica = errors.New("the primary that the sentinels name says that it is a replica")
)

// Wonders reports whether the other servers should be asked too before [Watch.Learn].
func (w *Watch) Wonders(l Look) bool {
	reign, ok := l.Named()
	if !ok || w.Off.Belief {
		return false
	}
	server, answered := l.Servers[reign.Primary]
	if !answered || !server.Primary {
		return answered && w.refill.Reign == reign
	}
	return !w.expected(l, reign, server)
}

// Learn makes of a look what is to be done, and what to believe after it.
func (w *Watch) Learn(l Look) Step {
	reign, ok := l.Named()
	if !ok {
		return Step{View: w.blind()}
	}
	if reign != w.view.Reign {
		w.view = View{Reign: reign, Doubt: errSilent}
	}
	server, answered := l.Servers[reign.Primary]
	if !answered {
		return Step{View: w.unanswered(l, reign)}
	}
	if !server.Primary {
		w.view.Doubt = errReplica
		return Step{View: w.view, Finish: w.refilled(l, reign, server)}
	}
	lineage := fmt.Sprintf("%s.%d", server.Lineage, reign.Epoch)
	if lineage != w.view.Lineage || w.view.Doubt != nil {
		lost, refused := w.judge(l, reign, server)
		if refused != nil {
			w.view = View{Reign: reign, Lineage: lineage, Listed: len(l.Others(reign.Primary)), DownAfter: l.downAfter(), Doubt: refused}
			w.refill = refill{reign, donor(l, reign, server)}
			return Step{View: w.view, From: server.Mark, Refill: w.refill.from}
		}
		w.view = View{Reign: reign, Lineage: lineage, Lost: lost}
		w.past = nil
	}
	return w.believe(l, reign, server)
}

// blind is the view of somebody to whom no majority speaks. What was certain stays so to its
// end.
func (w *Watch) blind() View {
	if w.view.Primary == "" {
		return View{Doubt: errNobody}
	}
	return w.view
}

// unanswered is the view of somebody who does not reach the primary. The lease goes on.
func (w *Watch) unanswered(l Look, reign Reign) View {
	if w.view.Doubt == nil {
		w.renew(l, reign)
		if l.Begun.Sub(w.known.asOf) < sureTime && w.attended(l, reign) {
			w.known.asOf = l.Begun
		}
	}
	return w.view
}

// renew prolongs the lease by what a look says.
func (w *Watch) renew(l Look, reign Reign) (renewed bool) {
	continues := l.Begun.Before(w.view.Until)
	until := l.lease(reign, continues)
	if until.After(w.view.Until) {
		w.view.Until = until
	}
	if w.Off.Lease {
		w.view.Until = l.Begun.Add(time.Hour)
	}
	return !until.IsZero() || w.Off.Lease
}

// believe is the step for a primary that is believed.
func (w *Watch) believe(l Look, reign Reign, server Server) Step {
	renewed := w.renew(l, reign)
	w.view.Listed, w.view.DownAfter = len(l.Others(reign.Primary)), l.downAfter()
	want := Mark{Epoch: reign.Epoch, Lineage: server.Lineage, Alone: server.Mark.Alone, Primary: reign.Primary}
	w.note(l, server)
	w.view.Following = w.following(server)
	before := w.view.Confirm
	w.view.Confirm = w.confirmations(l, reign, server)
	if !renewed { // perhaps this side is cut off, and whoever seems to hang is promoted on the other one
		w.view.Confirm = max(w.view.Confirm, before)
	}
	if w.view.Confirm == 0 && w.view.Listed > 0 && !w.staysAlone(l, reign) {
		want.Alone++
	}
	w.alone = alone{}
	if w.view.Confirm == 0 {
		w.alone = alone{lineage: w.view.Lineage, looked: l.Begun}
	}
	now := w.learned(l, reign, server, want)
	if want != server.Mark {
		w.pending = now
		return Step{Mark: want, From: server.Mark, View: w.view}
	}
	w.known = now
	return Step{View: w.view, Apart: l.apart(reign, server)}
}

// learned is what a process knows by what a believed primary says, once the mark is on record.
func (w *Watch) learned(l Look, reign Reign, server Server, mark Mark) knowledge {
	return knowledge{Mark: mark, primary: reign.Primary, asOf: l.Begun, followed: w.following(server)}
}

// attended reports whether a majority of the sentinels says, and that somebody else is there
// without whom the primary acknowledges nothing.
func (w *Watch) attended(l Look, reign Reign) bool {
	if len(l.Reports) < majority(l.sentinels()) {
		return false
	}
	return slices.ContainsFunc(l.Others(reign.Primary), func(addr string) bool { return !l.barred(addr) && !l.down(addr, 0) })
}

// Marked tells that a mark is on record, or why that is not certain. It returns the view that
// counts then.
func (w *Watch) Marked(failed error) View {
	if failed == nil {
		w.known = w.pending
		return w.view
	}
	w.view.Doubt = fmt.Errorf("the mark of the reign is not on record: %w", failed)
	w.alone = alone{}
	return w.view
}

// note remembers how far the primary has come.
func (w *Watch) note(l Look, server Server) {
	w.past = append(w.past, moment{l.Begun, server.Offset})
	for len(w.past) > 1 && l.Begun.Sub(w.past[1].at) >= hangTime {
		w.past = w.past[1:]
	}
}

// awhileAgo is how far the primary had come a while ago, 0 if nobody had looked yet.
func (w *Watch) awhileAgo() int64 {
	last := w.past[len(w.past)-1].at
	if last.Sub(w.past[0].at) < hangTime {
		return 0
	}
	return w.past[0].offset
}

// following returns the replicas that follow a primary.
func (w *Watch) following(server Server) (addrs []string) {
	far := w.awhileAgo()
	for _, r := range server.Replicas {
		if r.follows(far) {
			addrs = append(addrs, r.Addr)
		}
	}
	return addrs
}

// confirmations returns how many replicas have to confirm a write: all that follow, so that
// whoever of them is promoted has it, and one that can be promoted at the least. Nobody has
// to when nobody who could be promoted has been there for a while.
func (w *Watch) confirmations(l Look, reign Reign, server Server) int {
	far := w.awhileAgo()
	heirs := slices.ContainsFunc(server.Replicas, func(r Replica) bool { return r.follows(far) && !l.barred(r.Addr) })
	switch {
	case heirs && w.Off.ConfirmAll:
		return 1
	case heirs:
		return len(w.view.Following)
	case w.deserted(l, reign):
		return 0
	}
	return len(w.view.Following) + 1
}

// deserted reports whether nobody else could be promoted: all have been down for a while, or
// are never promoted, or there are none.
func (w *Watch) deserted(l Look, reign Reign) bool {
	if len(l.Reports) < majority(l.sentinels()) {
		return false
	}
	for _, addr := range l.Others(reign.Primary) {
		if !l.barred(addr) && !l.down(addr, least(sureTime)) {
			return false
		}
	}
	return true
}

// staysAlone reports whether the primary was alone already and nobody was back meanwhile, who
// would have the mark of that.
func (w *Watch) staysAlone(l Look, reign Reign) bool {
	if w.alone.lineage != w.view.Lineage {
		return false
	}
	since := l.Begun.Sub(w.alone.looked)
	for _, addr := range l.Others(reign.Primary) {
		if !l.barred(addr) && !l.down(addr, least(since)) {
			return false
		}
	}
	return true
}
