package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse.example/registry/upstream"
)

const (
	// failTries and busyTries are how often in a row the upstream is asked again that does
	// not answer, or that says that it is busy.
	failTries = 4
	busyTries = 10
	// failPause and busyPause are the first waits, of which each next one is twice as long.
	failPause = time.Second
	busyPause = 5 * time.Second
)

// checkNotBefore returns an error while the upstream wants to be left alone: it said until when, to
// this process or to another one.
func (r *round) checkNotBefore() error {
	f := r.progress.Failure
	if f == nil || r.progress.Upstream != r.upstream() || !r.c.Now().Before(f.NotBefore) {
		return nil
	}
	r.noted = true
	return fmt.Errorf("%w: it wants to be left alone until %s, so it was not asked", upstream.ErrBusy, f.NotBefore.Format(time.RFC3339))
}

// handleError decides what to do about an error of the upstream. It returns nil when the crawl
// should go on.
func (r *round) handleError(ctx context.Context, err error) error {
	c := r.progress.Crawl
	var said *upstream.AnswerError
	answered := errors.As(err, &said)
	switch {
	case errors.Is(err, upstream.ErrNotModified):
		c.Done, c.Report.NotModified = true, true
		return nil
	case answered && r.fromOld && c.Cursor != "" && cursorRefused(said.Status):
		r.log.InfoContext(ctx, "registry: the upstream does not know any more where to go on: the crawl begins again", "status", said.Status)
		r.start(c.Report.Mode)
		r.report.Restarted = true
		return nil
	case errors.Is(err, upstream.ErrBusy):
		return r.waitFor(ctx, err, r.busyTime(said), busyTries)
	case errors.Is(err, upstream.ErrEndless):
		c.Cursor = "" // where it leads to is nowhere
		r.progress.Crawl = nil
		return err
	case answered && said.Status < http.StatusInternalServerError, errors.Is(err, upstream.ErrRedirect), errors.Is(err, upstream.ErrTooLarge):
		return err
	}
	return r.waitFor(ctx, err, r.pauseOf(failPause), failTries)
}

// cursorRefused reports the answers to a cursor that is good no more.
func cursorRefused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// pauseOf is how long to wait before the next try: longer each time, and at random, so that
// not all readers come back at once.
func (r *round) pauseOf(first time.Duration) time.Duration {
	d := first << min(r.tries, 10)
	return d + time.Duration(r.c.Random()*float64(d)/2)
}

// busyTime is how long an upstream that is busy wants to be left alone.
func (r *round) busyTime(said *upstream.AnswerError) time.Duration {
	if said.RetryAt.IsZero() {
		return r.pauseOf(busyPause)
	}
	// RFC 9110 section 10.2.3: not before that time.
	return max(said.RetryAt.Sub(r.c.Now()), 0) + time.Duration(r.c.Random()*float64(time.Second))
}

// waitFor waits before the next try, or gives the round up if that would take too long.
func (r *round) waitFor(ctx context.Context, err error, d time.Duration, most int) error {
	if r.tries++; r.tries > most || d > r.c.Patience {
		return err
	}
	r.report.Waits++
	r.log.DebugContext(ctx, "registry: the upstream is asked again", "in", d.String(), "error", err)
	if r.c.Wait(ctx, d) != nil {
		return ctx.Err()
	}
	return nil
}

// maxFailure is how many characters are kept of why a round failed.
const maxFailure = 300

// failed says why a round did not end well, and returns the error. What the upstream did
// wrong is noted for all processes; after an error of the store it is not known what is on
// record, so nothing is written over it.
func (r *round) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("registry/mirror: the round was ended: %w", err)
	}
	var from *upstreamError
	if !errors.As(err, &from) {
		r.log.WarnContext(ctx, "registry: the catalogue cannot be written: what was read before is served on", "error", err)
		return err
	}
	f := r.failure(from.err)
	r.progress.Failure = f
	r.log.WarnContext(ctx, "registry: the upstream cannot be read: what was read before is served on",
		"error", from.err, "times", f.Times, "again_at", f.RetryAt.Format(time.RFC3339))
	if unwritten := r.commit(ctx, nil); unwritten != nil {
		r.log.WarnContext(ctx, "registry: that the upstream cannot be read was not noted", "error", unwritten)
		return from.err
	}
	r.noted = true
	return from.err
}

// failure describes an error of the upstream, and decides when to ask again.
func (r *round) failure(err error) *Failure {
	f := &Failure{At: r.c.Now().UTC(), Text: err.Error(), Times: 1}
	if last := r.progress.Failure; last != nil {
		f.Times += last.Times
	}
	if runes := []rune(f.Text); len(runes) > maxFailure {
		f.Text = string(runes[:maxFailure]) + "..."
	}
	wait := min(time.Minute<<min(f.Times-1, 16), r.c.Interval)
	f.RetryAt = f.At.Add(wait + time.Duration(r.c.Random()*float64(wait)/4))
	if said := (*upstream.AnswerError)(nil); errors.As(err, &said) {
		f.NotBefore = said.RetryAt.UTC()
		f.RetryAt = later(f.RetryAt, f.NotBefore)
	}
	return f
}
