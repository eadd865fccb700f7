package mirror

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"gatehouse.example/registry/upstream"
)

// crawl reads pages up to the last one. It repeats failed requests as handleError decides.
func (r *round) crawl(ctx context.Context) error {
	for !r.progress.Crawl.Done {
		err := r.pages(ctx)
		if err == nil {
			continue
		}
		var from *upstreamError
		if ctx.Err() != nil || !errors.As(err, &from) {
			return err
		}
		if err := r.handleError(ctx, from.err); err != nil {
			return &upstreamError{err}
		}
	}
	return nil
}

// upstreamError marks an error of the upstream, as opposed to one of the store.
type upstreamError struct{ err error }

func (e *upstreamError) Error() string { return e.err.Error() }
func (e *upstreamError) Unwrap() error { return e.err }

// pages reads pages up to the last one or the first error.
func (r *round) pages(ctx context.Context) error {
	for page, err := range r.c.Client.Items(ctx, r.query()) {
		if err != nil {
			return &upstreamError{err}
		}
		if err := r.applyPage(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) query() upstream.Query {
	c := r.progress.Crawl
	q := upstream.Query{UpdatedSince: c.Since, IncludeDeleted: c.Report.Mode == ModeFull, Cursor: c.Cursor, PagesBefore: c.Report.Pages}
	if c.Cursor == "" && !r.options.fresh() && r.progress.Tag != "" && r.progress.TagOf == c.queryKey() {
		q.IfNoneMatch = r.progress.Tag
	}
	return q
}

// queryKey identifies the query of a crawl: its mode and the time since which it asks.
func (c *crawlState) queryKey() string {
	return string(c.Report.Mode) + " " + c.Since.UTC().Format(time.RFC3339Nano)
}

// applyPage commits a page together with the cursor behind it.
func (r *round) applyPage(ctx context.Context, page upstream.Page) error {
	c := r.progress.Crawl
	if page.Next != "" && r.cursors[page.Next] { // the client detects a repetition within one call of Items only
		return &upstreamError{fmt.Errorf("%w: a repeated cursor", upstream.ErrEndless)}
	}
	r.cursors[page.Next] = true
	r.cursorStored, r.tries = false, 0
	if c.Report.Pages == 0 {
		if c.Tag = page.ETag; !page.Date.IsZero() {
			c.At = earlier(c.At, page.Date.UTC()) // the earlier time loses no update
		}
	}
	changes, err := r.apply(ctx, page)
	if err != nil {
		return err
	}
	c.Cursor, c.Done = page.Next, page.Next == ""
	c.Report.Pages++
	c.Report.Items += len(page.Items)
	if f := r.progress.Failure; f != nil { // the upstream answers again: another process may continue at once
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

// markSeen records that the upstream lists a row.
func (r *round) markSeen(name, version string) {
	if r.uninterrupted {
		r.seen[r.hash(name, version)] = struct{}{}
	}
}

func (r *round) wasSeen(name, version string) bool {
	_, seen := r.seen[r.hash(name, version)]
	return seen
}

func (r *round) hash(name, version string) uint64 {
	return maphash.String(r.seed, name+"\x00"+version)
}
