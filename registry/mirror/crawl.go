package mirror

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"gatehouse.example/registry/upstream"
)

// crawl reads page after page until there is none.
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
		if err := r.applyPage(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) query() upstream.Query {
	c := r.progress.Crawl
	q := upstream.Query{UpdatedSince: c.Since, IncludeDeleted: c.Report.Mode == ModeFull, Cursor: c.Cursor}
	if c.Cursor == "" && !r.options.fresh() && r.progress.Tag != "" && r.progress.TagOf == c.asked() {
		q.IfNoneMatch = r.progress.Tag
	}
	return q
}

// asked says what a crawl asks for.
func (c *crawlState) asked() string {
	return string(c.Report.Mode) + " " + c.Since.UTC().Format(time.RFC3339Nano)
}

// applyPage puts a page into the catalogue, together with where to go on.
func (r *round) applyPage(ctx context.Context, page upstream.Page) error {
	c := r.progress.Crawl
	if page.Next != "" && r.cursors[page.Next] { // also across requests that failed in between
		return &upstreamError{fmt.Errorf("%w: a cursor that was there before", upstream.ErrEndless)}
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
	if f := r.progress.Failure; f != nil { // it answers again: whoever takes over need not wait
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

// markSeen notes a row that the upstream lists.
func (r *round) markSeen(name, version string) {
	if r.whole {
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
