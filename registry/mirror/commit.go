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

// maxCommitBytes is the limit of records in one commit in bytes. It is not less than the limit
// of a page of the upstream, so that a page becomes visible as a whole.
const maxCommitBytes = 32 << 20

// commit makes changes visible to readers, together with the progress. If the changes exceed the
// limits of one commit, they become visible in parts; the pages of a registry that respects the
// page size are below the limits.
func (r *round) commit(ctx context.Context, changes []change) error {
	r.recent = recent{}
	for _, c := range changes {
		r.progress.count(c)
	}
	return r.writeInParts(ctx, changes, func(entries []entry, last bool) error {
		if !last {
			return r.write(ctx, entries, nil)
		}
		progress, err := json.Marshal(r.progress)
		if err != nil {
			return fmt.Errorf("registry/mirror: %w", err)
		}
		return r.write(ctx, entries, progress)
	})
}

// write commits entries. Repeating the same commit is safe as long as this process holds the
// lease.
func (r *round) write(ctx context.Context, entries []catalogue.Entry, progress json.RawMessage) error {
	return r.retry(ctx, func() error { return r.writer.Commit(ctx, entries, progress) })
}

// storeTries is the number of attempts at an operation of an unavailable store. They cover the
// time of a failover.
const storeTries = 8

// retry calls do until it returns something else than [storage.ErrUnavailable], at most
// storeTries times.
func (r *round) retry(ctx context.Context, do func() error) (err error) {
	for try := range storeTries {
		err = do()
		if !errors.Is(err, storage.ErrUnavailable) || ctx.Err() != nil || r.c.Wait(ctx, time.Second<<min(try, 2)) != nil {
			return err
		}
	}
	return err
}

// writeInParts divides changes into parts within the limits of a commit, loads the missing
// records and writes the parts. Each part has an update time of its own: a reader may have read the
// updates up to that of the part before.
func (r *round) writeInParts(ctx context.Context, changes []change, write func([]entry, bool) error) error {
	var part []entry
	bytes := 0
	whole := r.progress.Stamp
	for _, c := range changes {
		e := c.entry
		err := r.retry(ctx, func() error { return r.loadRecord(ctx, &e) })
		if err != nil {
			return fmt.Errorf("registry/mirror: %s %s: %w", e.Name, e.Version, err)
		}
		if size := len(e.Server) + len(e.Meta); len(part) == catalogue.MaxCommit || len(part) > 0 && bytes+size > maxCommitBytes {
			if err := write(part, false); err != nil {
				return err
			}
			part, bytes, r.next = nil, 0, recent{}
			r.progress.stamp(r.c.Now())
		}
		if e.Updated.Equal(whole) {
			e.Updated = r.progress.Stamp
		}
		part, bytes = append(part, e), bytes+len(e.Server)+len(e.Meta)
	}
	return write(part, true)
}
