package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// maxCommitBytes is how many bytes of records are committed at once: no less than an upstream
// may send on a page, so that such a page becomes visible as a whole.
const maxCommitBytes = 32 << 20

// commit makes changes visible, together with the progress. More than fit into one commit are
// made visible bit by bit: no registry that keeps to its limit has so many on a page.
func (r *round) commit(ctx context.Context, changes []change) error {
	r.recent = recent{}
	for _, c := range changes {
		r.progress.count(c)
	}
	progress, err := json.Marshal(r.progress)
	if err != nil {
		return fmt.Errorf("registry/mirror: %w", err)
	}
	return r.inParts(ctx, changes, func(entries []entry, last bool) error {
		if !last {
			return r.write(ctx, entries, nil)
		}
		return r.write(ctx, entries, progress)
	})
}

// write commits. The same commit may be tried again as long as the lease is ours.
func (r *round) write(ctx context.Context, entries []catalogue.Entry, progress json.RawMessage) error {
	return r.retry(ctx, func() error { return r.writer.Commit(ctx, entries, progress) })
}

// storeTries is how often a store that does not answer is asked. It takes as long as a
// failover may.
const storeTries = 8

// retry repeats what needs the store until the store answers.
func (r *round) retry(ctx context.Context, do func() error) (err error) {
	for try := range storeTries {
		err = do()
		if !errors.Is(err, storage.ErrUnavailable) || ctx.Err() != nil || r.c.Wait(ctx, time.Second<<min(try, 2)) != nil {
			return err
		}
	}
	return err
}

// inParts cuts changes into what is committed at once, with all records, and writes them.
func (r *round) inParts(ctx context.Context, changes []change, write func([]entry, bool) error) error {
	var part []entry
	bytes := 0
	for _, c := range changes {
		e := c.entry
		err := r.retry(ctx, func() error { return r.complete(ctx, &e) })
		if err != nil {
			return fmt.Errorf("registry/mirror: %s %s: %w", e.Name, e.Version, err)
		}
		if size := len(e.Server) + len(e.Meta); len(part) == catalogue.MaxCommit || len(part) > 0 && bytes+size > maxCommitBytes {
			if err := write(part, false); err != nil {
				return err
			}
			part, bytes = nil, 0
		}
		part, bytes = append(part, e), bytes+len(e.Server)+len(e.Meta)
	}
	return write(part, true)
}
