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
	// failTries and busyTries are the maximum numbers of consecutive repetitions of a request,
	// if the upstream fails and if it is busy.
	failTries = 4
	busyTries = 10
	// failPause and busyPause are the first waits. Each further wait is twice as long.
	failPause = time.Second
	busyPause = 5 * time.Second
)

// checkNotBefore returns [upstream.ErrBusy] before the time that the upstream's Retry-After
// demanded, from this or another process.
func (r *round) checkNotBefore() error {
	f := r.progress.Failure
	if f == nil || r.progress.Upstream != r.upstream() || !r.c.Now().Before(f.NotBefore) {
		return nil
	}
	r.failureStored = true
	return fmt.Errorf("%w: no request was sent, because it demands a pause until %s", upstream.ErrBusy, f.NotBefore.Format(time.RFC3339))
}

// handleError handles an error of the upstream. It waits if the request should be repeated, and
// returns nil if the crawl should continue.
func (r *round) handleError(ctx context.Context, err error) error {
	c := r.progress.Crawl
	var answer *upstream.AnswerError
	answered := errors.As(err, &answer)
	switch {
	case errors.Is(err, upstream.ErrNotModified):
		c.Done, c.Report.NotModified = true, true
		return nil
	case answered && r.cursorStored && c.Cursor != "" && cursorRefused(answer.Status):
		r.log.InfoContext(ctx, "registry: the upstream refuses the stored cursor: the crawl begins again", "status", answer.Status)
		r.start(c.Report.Mode)
		r.report.Restarted = true
		return nil
	case errors.Is(err, upstream.ErrBusy):
		return r.waitFor(ctx, err, r.busyWait(answer), busyTries)
	case errors.Is(err, upstream.ErrEndless):
		r.progress.Crawl = nil // the next round begins a new crawl
		return err
	case answered && answer.Status < http.StatusInternalServerError, errors.Is(err, upstream.ErrRedirect), errors.Is(err, upstream.ErrTooLarge):
		return err
	}
	return r.waitFor(ctx, err, r.backoff(failPause), failTries)
}

// cursorRefused reports whether a status may mean that a cursor is not valid any more.
func cursorRefused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// backoff returns the wait before the next try. It doubles with each try and has a random part,
// so that clients do not return at the same time.
func (r *round) backoff(first time.Duration) time.Duration {
	d := first << min(r.tries, 10)
	return d + time.Duration(r.c.Random()*float64(d)/2)
}

// busyWait returns the wait before the next request to a busy upstream.
func (r *round) busyWait(answer *upstream.AnswerError) time.Duration {
	if answer.RetryAt.IsZero() {
		return r.backoff(busyPause)
	}
	// RFC 9110 section 10.2.3: not before that time.
	return max(answer.RetryAt.Sub(r.c.Now()), 0) + time.Duration(r.c.Random()*float64(time.Second))
}

// waitFor waits for d and returns nil. It returns err instead if there were maxTries tries
// already or d is longer than Config.Patience.
func (r *round) waitFor(ctx context.Context, err error, d time.Duration, maxTries int) error {
	if r.tries++; r.tries > maxTries || d > r.c.Patience {
		return err
	}
	r.report.Waits++
	r.log.DebugContext(ctx, "registry: the request to the upstream is repeated", "in", d.String(), "error", err)
	if r.c.Wait(ctx, d) != nil {
		return ctx.Err()
	}
	return nil
}

// maxFailure is the length limit of Failure.Text in characters.
const maxFailure = 300

// recordFailure logs the error of a round and returns it. An error of the upstream is stored for
// all processes. After an error of the store, the stored state is unknown and is not
// overwritten.
func (r *round) recordFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("registry/mirror: the round was interrupted: %w", err)
	}
	var from *upstreamError
	if !errors.As(err, &from) {
		r.log.WarnContext(ctx, "registry: the catalogue cannot be written: its content is still served", "error", err)
		return err
	}
	f := r.newFailure(from.err)
	r.progress.Failure = f
	r.log.WarnContext(ctx, "registry: the upstream cannot be read: the content of the catalogue is still served",
		"error", from.err, "times", f.Times, "again_at", f.RetryAt.Format(time.RFC3339))
	if unwritten := r.commit(ctx, nil); unwritten != nil {
		r.log.WarnContext(ctx, "registry: the failure of the upstream was not stored", "error", unwritten)
		return from.err
	}
	r.failureStored = true
	return from.err
}

// newFailure returns a Failure for an error of the upstream, with the time of the next round.
func (r *round) newFailure(err error) *Failure {
	f := &Failure{At: r.c.Now().UTC(), Text: err.Error(), Times: 1}
	if last := r.progress.Failure; last != nil {
		f.Times += last.Times
	}
	if runes := []rune(f.Text); len(runes) > maxFailure {
		f.Text = string(runes[:maxFailure]) + "..."
	}
	wait := min(time.Minute<<min(f.Times-1, 16), r.c.Interval)
	f.RetryAt = f.At.Add(wait + time.Duration(r.c.Random()*float64(wait)/4))
	if answer := (*upstream.AnswerError)(nil); errors.As(err, &answer) {
		f.NotBefore = answer.RetryAt.UTC()
		f.RetryAt = later(f.RetryAt, f.NotBefore)
	}
	return f
}
