package failover

import (
	"errors"
	"fmt"
	"time"
)

// View is what a process may believe until it knows better. It never changes.
type View struct {
	Term
	// Lineage names the term and the history of the server: what was written in another one
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

	view             View
	trusted, pending baseline // pending: when the mark is on record
	past             []moment // how far the primary had come, the oldest first
	alone            alone
	refill           refill
}

// refill is what a process has asked for: that the primary of a term is filled anew.
type refill struct {
	Term
	from string
}

// baseline is what a process knows of the last primary that it believed.
type baseline struct {
	Mark
	primary string
	// asOf is until when nothing was acknowledged that the mark does not tell.
	asOf time.Time
	// followed are the replicas that had to confirm every write.
	followed []string
}

// Protections are the rules that can be switched off in tests.
type Protections struct {
	Trust, Lease, ConfirmAll bool
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
	errNoPrimary  = errors.New("no majority of the sentinels names a primary")
	errUnanswered = errors.New("the primary that the sentinels name does not answer")
	errReplica    = errors.New("the primary that the sentinels name says that it is a replica")
)

// NeedsOthers reports whether the other servers should be asked too before [Watch.Update].
func (w *Watch) NeedsOthers(l Look) bool {
	term, ok := l.Named()
	if !ok || w.Off.Trust {
		return false
	}
	server, answered := l.Servers[term.Primary]
	if !answered || !server.Primary {
		return answered && w.refill.Term == term
	}
	return !w.expected(l, term, server)
}

// Update makes of a look what is to be done, and what to believe after it.
func (w *Watch) Update(l Look) Step {
	term, ok := l.Named()
	if !ok {
		return Step{View: w.noMajority()}
	}
	if term != w.view.Term {
		w.view = View{Term: term, Doubt: errUnanswered}
	}
	server, answered := l.Servers[term.Primary]
	if !answered {
		return Step{View: w.unanswered(l, term)}
	}
	if !server.Primary {
		w.view.Doubt = errReplica
		return Step{View: w.view, Finish: w.refilled(l, term, server)}
	}
	lineage := fmt.Sprintf("%s.%d", server.Lineage, term.Epoch)
	if lineage != w.view.Lineage || w.view.Doubt != nil {
		lost, refused := w.judge(l, term, server)
		if refused != nil {
			w.view = View{Term: term, Lineage: lineage, Listed: len(l.Others(term.Primary)), DownAfter: l.downAfter(), Doubt: refused}
			w.refill = refill{term, donor(l, term, server)}
			return Step{View: w.view, From: server.Mark, Refill: w.refill.from}
		}
		w.view = View{Term: term, Lineage: lineage, Lost: lost}
		w.past = nil
	}
	return w.accept(l, term, server)
}

// blind is the view of somebody to whom no majority speaks. What was certain stays so to its
// end.
func (w *Watch) noMajority() View {
	if w.view.Primary == "" {
		return View{Doubt: errNoPrimary}
	}
	return w.view
}

// unanswered is the view of somebody who does not reach the primary. The lease goes on.
func (w *Watch) unanswered(l Look, term Term) View {
	if w.view.Doubt == nil {
		w.renew(l, term)
		if l.Begun.Sub(w.trusted.asOf) < sureTime && w.hasCandidate(l, term) {
			w.trusted.asOf = l.Begun
		}
	}
	return w.view
}

// renew prolongs the lease by what a look says.
func (w *Watch) renew(l Look, term Term) (renewed bool) {
	continues := l.Begun.Before(w.view.Until)
	until := l.lease(term, continues)
	if until.After(w.view.Until) {
		w.view.Until = until
	}
	if w.Off.Lease {
		w.view.Until = l.Begun.Add(time.Hour)
	}
	return !until.IsZero() || w.Off.Lease
}

// believe is the step for a primary that is believed.
func (w *Watch) accept(l Look, term Term, server Server) Step {
	renewed := w.renew(l, term)
	w.view.Listed, w.view.DownAfter = len(l.Others(term.Primary)), l.downAfter()
	want := Mark{Epoch: term.Epoch, Lineage: server.Lineage, Alone: server.Mark.Alone, Primary: term.Primary}
	w.note(l, server)
	w.view.Following = w.following(server)
	before := w.view.Confirm
	w.view.Confirm = w.confirmations(l, term, server)
	if !renewed { // perhaps this side is cut off, and whoever seems to hang is promoted on the other one
		w.view.Confirm = max(w.view.Confirm, before)
	}
	if w.view.Confirm == 0 && w.view.Listed > 0 && !w.staysAlone(l, term) {
		want.Alone++
	}
	w.alone = alone{}
	if w.view.Confirm == 0 {
		w.alone = alone{lineage: w.view.Lineage, looked: l.Begun}
	}
	now := w.baselineOf(l, term, server, want)
	if want != server.Mark {
		w.pending = now
		return Step{Mark: want, From: server.Mark, View: w.view}
	}
	w.trusted = now
	return Step{View: w.view, Apart: l.apart(term, server)}
}

// learned is what a process knows by what a believed primary says, once the mark is on record.
func (w *Watch) baselineOf(l Look, term Term, server Server, mark Mark) baseline {
	return baseline{Mark: mark, primary: term.Primary, asOf: l.Begun, followed: w.following(server)}
}

// Marked tells that a mark is on record, or why that is not certain. It returns the view that
// counts then.
func (w *Watch) Marked(failed error) View {
	if failed == nil {
		w.trusted = w.pending
		return w.view
	}
	w.view.Doubt = fmt.Errorf("the mark of the term is not on record: %w", failed)
	w.alone = alone{}
	return w.view
}
