package mirror

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"gatehouse.example/storage/catalogue"
)

// round is one round of the process that holds the lease.
type round struct {
	*Mirror
	writer   *catalogue.Writer
	options  SyncOptions
	progress progress
	report   *Report

	// The state of a crawl that began in this round. An interrupted crawl loses it.
	uninterrupted bool
	seed          maphash.Seed        // of the hashes in seen
	seen          map[uint64]struct{} // rows that the upstream listed
	conflicts     map[string]bool     // own servers whose names the upstream listed
	newlyVisible  int                 // rows that became visible to readers

	// The requests of this round.
	cursors       map[string]bool // all cursors of the crawl
	tries         int             // consecutive failures
	cursorStored  bool            // the cursor is from the store, and no page was read with it yet
	warned        int             // log lines about single records
	recent        recent          // as stored
	next          recent          // as stored once the current page is committed
	failureStored bool            // the failure of the round is in the store
}

func (r *round) run(ctx context.Context) (Report, error) {
	var err error
	if r.progress, err = readProgress(r.writer.State()); err != nil {
		return Report{}, err
	}
	r.report = &Report{Mode: ModeOwn, Began: r.c.Now().UTC()}
	if err := r.relist(ctx); err != nil {
		return *r.report, r.recordFailure(ctx, err)
	}
	if err := r.publishOwn(ctx); err != nil {
		return *r.report, r.recordFailure(ctx, err)
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
		return *r.report, r.recordFailure(ctx, err)
	}
	return *r.report, nil
}

// relist adds the lists of this release to a catalogue of an earlier release.
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

// begin continues an interrupted crawl or begins a new one.
func (r *round) begin() {
	p := &r.progress
	if p.Upstream != r.upstream() { // the stored progress belongs to another upstream
		p.Upstream, p.Crawl, p.Full, p.Increment, p.Failure = r.upstream(), nil, nil, nil, nil
		p.Watermark, p.Anchor, p.Tag, p.ResetAt = time.Time{}, nil, "", time.Time{}
	}
	unread := p.Crawl != nil && p.Crawl.Report.Pages == 0 // it lost nothing, so it begins anew
	if c := p.Crawl; c != nil && !unread && !r.options.fresh() && (c.Report.Mode == ModeFull || !r.options.Full) {
		r.report, r.cursorStored, r.uninterrupted = &c.Report, true, false
		c.Report.Resumed = true
		r.cursors = map[string]bool{}
		return
	}
	if r.options.full() || r.fullIsDue() || unread && p.Crawl.Report.Mode == ModeFull {
		r.start(ModeFull)
		return
	}
	r.start(ModeIncrement)
}

// fullIsDue reports whether the next crawl has to be a full one.
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

// firstUpdate is before all updates of all registries. An earlier time, from an upstream with a wrong
// clock, might not be written in RFC 3339.
var firstUpdate = time.Unix(0, 0).UTC()

// start begins a new crawl.
func (r *round) start(mode Mode) {
	now := r.c.Now().UTC()
	c := &crawlState{At: now, Report: Report{Mode: mode, Began: now}}
	if mode == ModeFull {
		r.progress.FullDue = false
	} else {
		c.Since = later(r.progress.Watermark.Add(-r.c.Overlap), firstUpdate)
	}
	r.progress.Crawl, r.report = c, &c.Report
	r.uninterrupted, r.seed, r.seen, r.conflicts, r.newlyVisible = true, maphash.MakeSeed(), map[uint64]struct{}{}, map[string]bool{}, 0
	r.cursors, r.cursorStored = map[string]bool{}, false
}

// finish stores and logs the result of a crawl whose last page was read. If the upstream seems
// to have been reset, it does a full crawl first.
func (r *round) finish(ctx context.Context) error {
	if r.anchorIsGone() {
		r.log.WarnContext(ctx, "registry: the upstream does not list the record that it updated last: it may have been reset, so everything is read again", "upstream", r.upstream())
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

// resetTime is the minimum time between two full crawls because of a missing anchor.
const resetTime = 24 * time.Hour

// anchorIsGone reports whether the upstream has lost the row that it had updated last. Since
// the periods of updates overlap, every increment lists that row.
func (r *round) anchorIsGone() bool {
	p, c := &r.progress, r.progress.Crawl
	if c.Report.Mode != ModeIncrement || c.AnchorSeen || c.Report.NotModified || p.Anchor == nil {
		return false
	}
	return r.c.Now().Sub(p.ResetAt) >= resetTime
}

// recordResult stores the result of a crawl in the progress, for the next crawl.
func (r *round) recordResult(c *crawlState) {
	p := &r.progress
	c.Report.Ended = r.c.Now().UTC()
	if !c.Report.NotModified {
		p.Watermark, p.Anchor = c.watermark(p)
	}
	if c.Report.Pages == 1 {
		p.Tag, p.TagOf = c.Tag, c.queryKey()
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

// watermark returns the time up to which the finished crawl has read all updates, and a row
// that was updated then. Rows may have been updated after the crawl had passed them, so the
// time is not after the beginning of the crawl. If the upstream gives no update times, the crawl
// counts as complete up to its beginning.
func (c *crawlState) watermark(p *progress) (time.Time, *rowName) {
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

// logResult logs the result of a successful crawl.
func (r *round) logResult(ctx context.Context) {
	c := r.report
	r.log.InfoContext(ctx, "registry: read from the upstream", "upstream", r.upstream(), "mode", string(c.Mode), "pages", c.Pages, "items", c.Items,
		"added", c.Added, "updated", c.Updated, "deleted", c.Deleted, "took", c.Ended.Sub(c.Began).Round(time.Millisecond).String())
	if c.Invalid > 0 {
		r.log.WarnContext(ctx, "registry: the upstream lists records that cannot be used", "invalid", c.Invalid, "examples", slices.Clone(c.Examples))
	}
	if c.Mode == ModeFull && !c.Judged {
		r.log.InfoContext(ctx, "registry: the crawl was interrupted, so rows that the upstream does not list any more are not removed before the next full crawl")
	}
	if r.progress.Shrink != nil && c.Mode == ModeFull {
		r.log.WarnContext(ctx, "registry: the upstream lists far fewer records than before: the operator has to decide", "shrink", r.progress.Shrink.String())
	}
}
