package registry

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"gatehouse.example/storage/catalogue"
)

// round is one round, by the one who has the lease.
type round struct {
	*Aggregator
	writer *catalogue.Writer
	order  Order
	ledger ledger
	report *Report

	// Of a crawl that began in this round.
	whole     bool
	seed      maphash.Seed
	seen      map[uint64]struct{} // rows
	conflicts map[string]bool     // names of our own that were seen
	gained    int                 // rows that readers see and did not before

	// Of the requests of this round.
	cursors map[string]bool
	tries   int  // in a row that failed
	fromOld bool // nothing was heard yet since the cursor was read from the store
	warned  int
	recent  recent // as it is on record
	next    recent // as it is when the page is committed
	noted   bool   // why the round failed is on record
}

func (r *round) run(ctx context.Context) (Report, error) {
	var err error
	if r.ledger, err = readLedger(r.writer.State()); err != nil {
		return Report{}, err
	}
	r.report = &Report{Mode: ModeOwn, Began: r.c.Now().UTC()}
	if err := r.relist(ctx); err != nil {
		return *r.report, r.failed(ctx, err)
	}
	if err := r.publishOwn(ctx); err != nil {
		return *r.report, r.failed(ctx, err)
	}
	if r.c.Client == nil || r.order.onlyOwn {
		r.report.Ended = r.c.Now().UTC()
		return *r.report, nil
	}
	if err := r.leftAlone(); err != nil {
		return *r.report, err
	}
	r.begin()
	if err = r.crawl(ctx); err == nil {
		err = r.conclude(ctx)
	}
	if err != nil {
		return *r.report, r.failed(ctx, err)
	}
	return *r.report, nil
}

// relist brings a catalogue of an earlier release into the orders of this one.
func (r *round) relist(ctx context.Context) error {
	for more := true; more; {
		err := r.insist(ctx, func() (err error) {
			more, err = r.writer.Relist(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// begin goes on with a crawl that was interrupted, or begins one.
func (r *round) begin() {
	l := &r.ledger
	if l.Upstream != r.upstream() { // what was known was said by another one
		l.Upstream, l.Crawl, l.Full, l.Increment, l.Failure = r.upstream(), nil, nil, nil, nil
		l.Watermark, l.Anchor, l.Tag, l.ResetAt = time.Time{}, nil, "", time.Time{}
	}
	if c := l.Crawl; c != nil && !r.order.fresh() && (c.Report.Mode == ModeFull || !r.order.Full) {
		r.report, r.fromOld, r.whole = &c.Report, true, false
		c.Report.Resumed = true
		r.cursors = map[string]bool{}
		return
	}
	if r.order.full() || r.fullIsDue() {
		r.start(ModeFull)
		return
	}
	r.start(ModeIncrement)
}

// fullIsDue reports whether everything should be asked for.
func (r *round) fullIsDue() bool {
	l := &r.ledger
	if l.Full == nil || l.FullDue || l.Watermark.IsZero() {
		return true
	}
	interval := r.c.FullInterval
	if !l.Full.Judged || l.Shrink != nil {
		interval /= 7
	}
	return !r.c.Now().Before(l.Full.Ended.Add(interval))
}

// start begins a crawl from the beginning.
func (r *round) start(mode Mode) {
	now := r.c.Now().UTC()
	c := &crawlState{At: now, Report: Report{Mode: mode, Began: now}}
	if mode == ModeFull {
		r.ledger.FullDue = false
	} else {
		c.Since = r.ledger.Watermark.Add(-r.c.Overlap)
	}
	r.ledger.Crawl, r.report = c, &c.Report
	r.whole, r.seed, r.seen, r.conflicts, r.gained = true, maphash.MakeSeed(), map[uint64]struct{}{}, map[string]bool{}, 0
	r.cursors, r.fromOld = map[string]bool{}, false
}

// see notes a row that the upstream lists.
func (r *round) see(name, version string) {
	if r.whole {
		r.seen[r.hash(name, version)] = struct{}{}
	}
}

func (r *round) saw(name, version string) bool {
	_, seen := r.seen[r.hash(name, version)]
	return seen
}

func (r *round) hash(name, version string) uint64 {
	return maphash.String(r.seed, name+"\x00"+version)
}

// crawl reads page after page until there is none.
func (r *round) crawl(ctx context.Context) error {
	for !r.ledger.Crawl.Done {
		err := r.pages(ctx)
		if err == nil {
			continue
		}
		var from *upstreamError
		if ctx.Err() != nil || !errors.As(err, &from) {
			return err
		}
		if err := r.recover(ctx, from.err); err != nil {
			return &upstreamError{err}
		}
	}
	return nil
}

// upstreamError is an error of the upstream, as opposed to one of the store.
type upstreamError struct{ err error }

func (e *upstreamError) Error() string { return e.err.Error() }
func (e *upstreamError) Unwrap() error { return e.err }

// pages reads pages until there is none, or one cannot be read.
func (r *round) pages(ctx context.Context) error {
	for page, err := range r.c.Client.Items(ctx, r.query()) {
		if err != nil {
			return &upstreamError{err}
		}
		if err := r.take(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) query() Query {
	c := r.ledger.Crawl
	q := Query{UpdatedSince: c.Since, IncludeDeleted: c.Report.Mode == ModeFull, Cursor: c.Cursor}
	if c.Cursor == "" && !r.order.fresh() && r.ledger.Tag != "" && r.ledger.TagOf == c.asked() {
		q.IfNoneMatch = r.ledger.Tag
	}
	return q
}

// asked says what a crawl asks for.
func (c *crawlState) asked() string {
	return string(c.Report.Mode) + " " + c.Since.UTC().Format(time.RFC3339Nano)
}

// take puts a page into the catalogue, together with where to go on.
func (r *round) take(ctx context.Context, page Page) error {
	c := r.ledger.Crawl
	if page.Next != "" && r.cursors[page.Next] { // also across requests that failed in between
		return &upstreamError{fmt.Errorf("%w: a cursor that was there before", ErrEndless)}
	}
	r.cursors[page.Next] = true
	r.fromOld, r.tries = false, 0
	if c.Report.Pages == 0 {
		if c.Tag = page.ETag; !page.Date.IsZero() {
			c.At = earlier(c.At, page.Date.UTC()) // rather too much than too little
		}
	}
	changes, err := r.apply(ctx, page)
	if err != nil {
		return err
	}
	c.Cursor, c.Done = page.Next, page.Next == ""
	c.Report.Pages++
	c.Report.Items += len(page.Items)
	if f := r.ledger.Failure; f != nil { // it answers again: whoever takes over need not wait
		f.RetryAt, f.NotBefore = r.c.Now().UTC(), time.Time{}
	}
	if err := r.commit(ctx, changes); err != nil {
		return err
	}
	r.recent = r.next
	if r.c.Progress != nil {
		r.c.Progress(c.Report)
	}
	return nil
}

// conclude ends a crawl that has come to its end.
func (r *round) conclude(ctx context.Context) error {
	if r.anchorIsGone() {
		r.log.WarnContext(ctx, "registry: the upstream does not list what it has updated last: it may have been reset, so everything is read again", "upstream", r.upstream())
		r.start(ModeFull)
		r.ledger.ResetAt = r.c.Now().UTC()
		if err := r.crawl(ctx); err != nil {
			return err
		}
	}
	c := r.ledger.Crawl
	if c.Report.Mode == ModeFull {
		if err := r.judge(ctx); err != nil {
			return err
		}
	}
	r.remember(c)
	if err := r.commit(ctx, nil); err != nil {
		return err
	}
	r.tell(ctx)
	return nil
}

// resetTime is how long a full crawl that was begun because the anchor was gone stands for
// every further time.
const resetTime = 24 * time.Hour

// anchorIsGone reports whether the upstream has lost the row that it had updated last. Since
// updates overlap, an increment always lists that.
func (r *round) anchorIsGone() bool {
	l, c := &r.ledger, r.ledger.Crawl
	if c.Report.Mode != ModeIncrement || !r.whole || c.Report.NotModified || l.Anchor == nil {
		return false
	}
	return !r.saw(l.Anchor.Name, l.Anchor.Version) && r.c.Now().Sub(l.ResetAt) >= resetTime
}

// remember notes what the next crawl has to know.
func (r *round) remember(c *crawlState) {
	l := &r.ledger
	c.Report.Ended = r.c.Now().UTC()
	if !c.Report.NotModified {
		l.Watermark, l.Anchor = c.known(l)
	}
	if c.Report.Pages == 1 {
		l.Tag, l.TagOf = c.Tag, c.asked()
	} else if !c.Report.NotModified {
		l.Tag, l.TagOf = "", ""
	}
	report := c.Report
	if report.Mode == ModeFull {
		l.Full = &report
	} else {
		l.Increment = &report
	}
	r.report = &report
	l.Ended, l.Crawl, l.Failure = report.Ended, nil, nil
}

// known returns up to when updates are known when a crawl is over, and a row that was
// updated then. One may have been updated behind the crawl, which had passed it already, so
// what came after its beginning is asked for again. An upstream that tells no times is
// believed to have told all that was there at the beginning.
func (c *crawlState) known(l *ledger) (time.Time, *rowName) {
	switch {
	case c.Newest.IsZero() && (c.Report.Mode == ModeFull || l.Anchor == nil):
		return c.At, nil
	case c.Newest.IsZero():
		return l.Watermark, l.Anchor
	case c.Report.Mode == ModeFull:
		return earlier(c.At, c.Newest), c.NewestRow
	}
	return later(l.Watermark, earlier(c.At, c.Newest)), c.NewestRow
}

// tell writes the log lines of a round that ended well.
func (r *round) tell(ctx context.Context) {
	c := r.report
	r.log.InfoContext(ctx, "registry: read from the upstream", "upstream", r.upstream(), "mode", string(c.Mode), "pages", c.Pages, "items", c.Items,
		"added", c.Added, "updated", c.Updated, "deleted", c.Deleted, "took", c.Ended.Sub(c.Began).Round(time.Millisecond).String())
	if c.Invalid > 0 {
		r.log.WarnContext(ctx, "registry: what the upstream lists cannot all be used", "invalid", c.Invalid, "examples", slices.Clone(c.Examples))
	}
	if c.Mode == ModeFull && !c.Judged {
		r.log.InfoContext(ctx, "registry: what the upstream does not list any more is not known: the crawl was interrupted, and the next one can tell")
	}
	if r.ledger.Shrink != nil && c.Mode == ModeFull {
		r.log.WarnContext(ctx, "registry: the upstream lists much less than before, and somebody has to decide", "shrink", r.ledger.Shrink.String())
	}
}
