package failover

import (
	"errors"
	"fmt"
	"time"
)

// View is what a process goes by until its next look. It never changes.
type View struct {
	Term
	// Lineage names the term and the history of the server: writes of another lineage may have
	// been lost. It is empty while there is no primary.
	Lineage string
	// Until is the end of the lease: before it no other server begins to be promoted.
	Until time.Time
	// Confirm is how many replicas have to confirm a write while the lease lasts. It is 0 only
	// when no other server could be promoted.
	Confirm int
	// Following are the addresses of the replicas that follow the primary at present. While they
	// are fewer than Confirm, no write can be acknowledged.
	Following []string
	// Listed is how many other servers the sentinels list. A write that so many have confirmed is
	// on every server.
	Listed int
	// DownAfter is the shortest time after which a sentinel considers a server down.
	DownAfter time.Duration
	// Doubt is why the primary is not trusted, nil if it is.
	Doubt error
	// Lost reports that the primary is trusted although it lacks acknowledged writes.
	Lost bool
}

// Holds reports whether the lease of a lineage lasts at a time.
func (v *View) Holds(lineage string, now time.Time) bool {
	return v.Doubt == nil && v.Lineage == lineage && now.Before(v.Until)
}

// Step is what a process has to do after a look, in the order of its fields.
type Step struct {
	// Mark is to be written on the primary in place of From; then [Watch.Marked] returns the view
	// that counts. The zero Mark means that nothing is to be written.
	Mark, From Mark
	// Refill is the address of a server from which the refused primary should be filled anew: it
	// has everything that the primary has, and more. If it follows another server, it should stop
	// doing so before it is filled from there. Both apply only while the servers have the marks of
	// the look, which is From for the primary.
	Refill string
	// Apart are the addresses of servers that should follow and do not. They should be asked,
	// when there is time, before [Watch.Returned] is called.
	Apart []string
	// Finish means that the server has been filled from Refill, and should be made a primary
	// again.
	Finish bool
	View   View
}

// Watch keeps what a process has found so far. It is for one goroutine. The zero Watch has found
// nothing.
type Watch struct {
	// Patience is how long to wait for a server that may have more than the primary, after a
	// majority of the sentinels has found it down; 0 means a minute. Afterwards the primary is
	// trusted although acknowledged writes may be lost: set it to the time that the machines need
	// to come back.
	Patience time.Duration
	// Off switches single protections off, for the model test that shows which faults each of
	// them prevents.
	Off Protections

	view             View
	trusted, pending baseline // pending counts when its mark is on record
	past             []moment // offsets of the primary, the oldest first
	alone            alone
	refill           refill
}

// refill is the request of this process that the primary of a term be filled from another server.
type refill struct {
	Term
	from string
}

// baseline is what is certain about the last primary that was trusted.
type baseline struct {
	Mark
	primary string
	// asOf is the time until which nothing was acknowledged that the mark does not cover.
	asOf time.Time
	// followed are the replicas that had to confirm every write.
	followed []string
}

// Protections are the rules that can be switched off in tests.
type Protections struct {
	Trust, Lease, ConfirmAll bool
	// Release makes a server that has more stop following one that has less.
	Release bool
	// Restarts is that a primary that restarts in its term counts as one that went on alone.
	Restarts bool
}

// alone describes a primary that acknowledges writes that no other server has.
type alone struct {
	lineage string
	looked  time.Time // when no server had come back yet
}

const (
	// sureTime is how long a majority must not have reached the other servers before the primary
	// goes on alone: a sentinel that was cut off loses its connections one after the other.
	sureTime = 2 * time.Second
	// defaultPatience is the time when Watch.Patience is 0.
	defaultPatience = time.Minute
)

var (
	errNoPrimary  = errors.New("no majority of the sentinels names a primary")
	errUnanswered = errors.New("the primary that the sentinels name does not answer")
	errReplica    = errors.New("the primary that the sentinels name reports that it is a replica")
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

// Update returns what to do after a look, and the view that follows from it.
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
			w.refill = refill{term, w.donor(l, term, server)}
			return Step{View: w.view, From: server.Mark, Refill: w.refill.from}
		}
		w.view = View{Term: term, Lineage: lineage, Lost: lost}
		w.past = nil
	}
	return w.accept(l, term, server)
}

// noMajority returns the view when no majority of the sentinels names a primary. A lease lasts to
// its end.
func (w *Watch) noMajority() View {
	if w.view.Primary == "" {
		return View{Doubt: errNoPrimary}
	}
	return w.view
}

// unanswered returns the view when the primary did not answer. The lease goes on.
func (w *Watch) unanswered(l Look, term Term) View {
	if w.view.Doubt == nil {
		w.renew(l, term)
		if l.Begun.Sub(w.trusted.asOf) < sureTime && w.hasCandidate(l, term) {
			w.trusted.asOf = l.Begun
		}
	}
	return w.view
}

// renew prolongs the lease by the reports of a look.
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

// accept returns the step for a primary that is trusted.
func (w *Watch) accept(l Look, term Term, server Server) Step {
	renewed := w.renew(l, term)
	w.view.Listed, w.view.DownAfter = len(l.Others(term.Primary)), l.downAfter()
	want := Mark{Epoch: term.Epoch, Lineage: server.Lineage, Alone: server.Mark.Alone, Primary: term.Primary}
	if server.Mark.Epoch == term.Epoch && server.Mark.Lineage != server.Lineage && !w.Off.Restarts {
		want.Alone++
	}
	w.note(l, server)
	w.view.Following = w.following(server)
	before := w.view.Confirm
	w.view.Confirm = w.confirmations(l, term, server)
	if !renewed { // perhaps this process is cut off, and the replica that seems to hang is promoted on the other side
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

// baselineOf returns what a trusted primary's answer makes certain once the mark is on record.
func (w *Watch) baselineOf(l Look, term Term, server Server, mark Mark) baseline {
	return baseline{Mark: mark, primary: term.Primary, asOf: l.Begun, followed: w.following(server)}
}

// Marked records that the mark of the last step is on record, or why that is not certain. It
// returns the view that counts then.
func (w *Watch) Marked(failed error) View {
	if failed == nil {
		w.trusted = w.pending
		return w.view
	}
	w.view.Doubt = fmt.Errorf("the mark of the term is not on record: %w", failed)
	w.alone = alone{}
	return w.view
}
