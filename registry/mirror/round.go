package mirror

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"gatehouse.example/storage/catalogue"
)

// round is one round, by the one who has the lease.
type round struct {
	*Mirror
	writer   *catalogue.Writer
	options  SyncOptions
	progress progress
	report   *Report

	// Of a crawl that began in this round.
	whole     bool
	seed      maphash.Seed
	seen      map[uint64]struct{} // rows
	conflicts map[string]bool     // names of our own that were seen
	gained    int                 // rows that readers see and did not before

	// Of the requests of this round.
	cursors map[string]bool
	tries   int  // in a row that failed
	fromOld bool // the cursor is from the store, and no page was read with it yet
	warned  int
	recent  recent // as it is on record
	next    recent // as it is when the page is committed
	noted   bool   // why the round failed is on record
}

func (r *round) run(ctx context.Context) (Report, error) {
	var err error
	if r.progress, err = readProgress(r.writer.State()); err != nil {
		return Report{}, err
	}
	r.report = &Report{Mode: ModeOwn, Began: r.c.Now().UTC()}
	if err := r.relist(ctx); err != nil {
		return *r.report, r.failed(ctx, err)
	}
	if err := r.publishOwn(ctx); err != nil {
		return *r.report, r.failed(ctx, err)
	}
	if r.c.Client == nil || r.options.onlyOwn {
		r.report.Ended = r.c.Now().UTC()
		return *r.report, nil
	}
	if err := r.checkNotBefore(); err != nil {
		return *r.report, err
	}
	r.begin()
	if err = r.crawl(ctx); err == nil {
		err = r.finish(ctx)
	}
	if err != nil {
		return *r.report, r.failed(ctx, err)
	}
	return *r.report, nil
}

// relist brings a catalogue of an earlier release into the orders of this one.
func (r *round) relist(ctx context.Context) error {
	for more := true; more; {
		err := r.retry(ctx, func() (err error) {
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
	p := &r.progress
	if p.Upstream != r.upstream() { // what is on record is about another one
		p.Upstream, p.Crawl, p.Full, p.Increment, p.Failure = r.upstream(), nil, nil, nil, nil
		p.Watermark, p.Anchor, p.Tag, p.ResetAt = time.Time{}, nil, "", time.Time{}
	}
	if c := p.Crawl; c != nil && !r.options.fresh() && (c.Report.Mode == ModeFull || !r.options.Full) {
		r.report, r.fromOld, r.whole = &c.Report, true, false
		c.Report.Resumed = true
		r.cursors = map[string]bool{}
		return
	}
	if r.options.full() || r.fullIsDue() {
		r.start(ModeFull)
		return
	}
	r.start(ModeIncrement)
}

// fullIsDue reports whether everything should be asked for.
func (r *round) fullIsDue() bool {
	p := &r.progress
	if p.Full == nil || p.FullDue || p.Watermark.IsZero() {
		return true
	}
	interval := r.c.FullInterval
	if !p.Full.Judged || p.Shrink != nil {
		interval /= 7
	}
	return !r.c.Now().Before(p.Full.Ended.Add(interval))
}

// start begins a crawl from the beginning.
func (r *round) start(mode Mode) {
	now := r.c.Now().UTC()
	c := &crawlState{At: now, Report: Report{Mode: mode, Began: now}}
	if mode == ModeFull {
		r.progress.FullDue = false
	} else {
		c.Since = r.progress.Watermark.Add(-r.c.Overlap)
	}
	r.progress.Crawl, r.report = c, &c.Report
	r.whole, r.seed, r.seen, r.conflicts, r.gained = true, maphash.MakeSeed(), map[uint64]struct{}{}, map[string]bool{}, 0
	r.cursors, r.fromOld = map[string]bool{}, false
}

// finish ends a crawl that has come to its end.
func (r *round) finish(ctx context.Context) error {
	if r.anchorIsGone() {
		r.log.WarnContext(ctx, "registry: the upstream does not list what it has updated last: it may have been reset, so everything is read again", "upstream", r.upstream())
		r.start(ModeFull)
		r.progress.ResetAt = r.c.Now().UTC()
		if err := r.crawl(ctx); err != nil {
			return err
		}
	}
	c := r.progress.Crawl
	if c.Report.Mode == ModeFull {
		if err := r.handleMissing(ctx); err != nil {
			return err
		}
	}
	r.recordResult(c)
	if err := r.commit(ctx, nil); err != nil {
		return err
	}
	r.logResult(ctx)
	return nil
}

// resetTime is how long a full crawl that was begun because the anchor was gone stands for
// every further time.
const resetTime = 24 * time.Hour

// anchorIsGone reports whether the upstream has lost the row that it had updated last. Since
// updates overlap, an increment always lists that.
func (r *round) anchorIsGone() bool {
	p, c := &r.progress, r.progress.Crawl
	if c.Report.Mode != ModeIncrement || !r.whole || c.Report.NotModified || p.Anchor == nil {
		return false
	}
	return !r.wasSeen(p.Anchor.Name, p.Anchor.Version) && r.c.Now().Sub(p.ResetAt) >= resetTime
}

// recordResult keeps what the next crawl has to know.
func (r *round) recordResult(c *crawlState) {
	p := &r.progress
	c.Report.Ended = r.c.Now().UTC()
	if !c.Report.NotModified {
		p.Watermark, p.Anchor = c.known(p)
	}
	if c.Report.Pages == 1 {
		p.Tag, p.TagOf = c.Tag, c.asked()
	} else if !c.Report.NotModified {
		p.Tag, p.TagOf = "", ""
	}
	report := c.Report
	if report.Mode == ModeFull {
		p.Full = &report
	} else {
		p.Increment = &report
	}
	r.report = &report
	p.Ended, p.Crawl, p.Failure = report.Ended, nil, nil
}

// known returns up to when updates are known when a crawl is over, and a row that was
// updated then. One may have been updated behind the crawl, which had passed it already, so
// what came after its beginning is asked for again. An upstream that gives no times is
// believed to have listed all that was there at the beginning.
func (c *crawlState) known(p *progress) (time.Time, *rowName) {
	switch {
	case c.Newest.IsZero() && (c.Report.Mode == ModeFull || p.Anchor == nil):
		return c.At, nil
	case c.Newest.IsZero():
		return p.Watermark, p.Anchor
	case c.Report.Mode == ModeFull:
		return earlier(c.At, c.Newest), c.NewestRow
	}
	return later(p.Watermark, earlier(c.At, c.Newest)), c.NewestRow
}

// logResult writes the log lines of a round that ended well.
func (r *round) logResult(ctx context.Context) {
	c := r.report
	r.log.InfoContext(ctx, "registry: read from the upstream", "upstream", r.upstream(), "mode", string(c.Mode), "pages", c.Pages, "items", c.Items,
		"added", c.Added, "updated", c.Updated, "deleted", c.Deleted, "took", c.Ended.Sub(c.Began).Round(time.Millisecond).String())
	if c.Invalid > 0 {
		r.log.WarnContext(ctx, "registry: what the upstream lists cannot all be used", "invalid", c.Invalid, "examples", slices.Clone(c.Examples))
	}
	if c.Mode == ModeFull && !c.Judged {
		r.log.InfoContext(ctx, "registry: what the upstream does not list any more is not known: the crawl was interrupted, and the next one can tell")
	}
	if r.progress.Shrink != nil && c.Mode == ModeFull {
		r.log.WarnContext(ctx, "registry: the upstream lists much less than before, and somebody has to decide", "shrink", r.progress.Shrink.String())
	}
}
