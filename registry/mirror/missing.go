package mirror

import (
	"context"
	"slices"
	"time"

	"gatehouse.example/storage/catalogue"
)

const (
	// If more than maxMissing rows and more than one in missingPart are missing, none is
	// removed.
	maxMissing  = 10
	missingPart = 10
	// missingStep is the number of rows that are read or removed at once.
	missingStep = 200
)

// handleMissing deletes the rows that a full crawl did not list, or notes in the progress that
// there are too many of them. After an interrupted crawl it does nothing: the rows listed
// before the interruption are not known.
func (r *round) handleMissing(ctx context.Context) error {
	p, report := &r.progress, &r.progress.Crawl.Report
	if report.NotModified { // the result of the last full crawl still holds
		report.Judged = p.Full != nil && p.Full.Judged
		return nil
	}
	if !r.uninterrupted {
		return nil
	}
	missing, held, err := r.findMissing(ctx)
	if err != nil {
		return err
	}
	report.Judged, report.Missing = true, len(missing)
	held -= r.newlyVisible // rows that are new in this round do not count
	if p.Shrink != nil {
		held = min(held, p.Shrink.Held) // nor do rows that were added since the loss was noticed
	}
	if shrunk(len(missing), held) && !r.options.AcceptShrink {
		since := r.c.Now().UTC()
		if p.Shrink != nil {
			since = p.Shrink.Since
		}
		p.Shrink = &Shrink{Since: since, Missing: len(missing), Held: held}
		return nil
	}
	p.Shrink = nil
	if err := r.remove(ctx, missing); err != nil {
		return err
	}
	return r.clearConflicts(ctx)
}

// shrunk reports whether so many rows are missing that the upstream may have lost them.
func shrunk(missing, held int) bool {
	return missing > maxMissing && missing*missingPart > held || missing > 1 && missing >= held
}

// findMissing returns the visible rows of the upstream that the crawl did not list, and the
// number of visible rows of the upstream. It also counts all flags anew: a crash in the middle
// of a change too large for one commit leaves the counts wrong.
func (r *round) findMissing(ctx context.Context) (missing []rowName, held int, err error) {
	flags := map[string]int{}
	for after, more := "", true; more; {
		var page catalogue.Page
		err := r.retry(ctx, func() (err error) {
			page, err = r.c.Catalogue.Page(ctx, catalogue.Query{Deleted: true}, after, missingStep)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page.Entries {
			for _, flag := range e.Flags {
				flags[flag]++
			}
			if e.Origin != OriginUpstream || !live(e) {
				continue
			}
			if held++; !r.wasSeen(e.Name, e.Version) {
				missing = append(missing, rowName{e.Name, e.Version})
			}
		}
		after, more = page.Next, page.More
	}
	r.progress.Flags = flags
	return missing, held, nil
}

// remove deletes the missing rows and commits the changes in steps, each with an update time of its
// own. The rows of one server must be next to each other.
func (r *round) remove(ctx context.Context, missing []rowName) error {
	stamp := r.progress.stamp(r.c.Now())
	var pending []change
	for len(missing) > 0 {
		name := missing[0].Name
		end := slices.IndexFunc(missing, func(row rowName) bool { return row.Name != name })
		if end < 0 {
			end = len(missing)
		}
		changes, err := r.removeOf(ctx, name, missing[:end], stamp)
		if err != nil {
			return err
		}
		pending, missing = append(pending, changes...), missing[end:]
		if len(pending) >= missingStep || len(missing) == 0 {
			if err := r.commit(ctx, pending); err != nil {
				return err
			}
			pending, stamp = nil, r.progress.stamp(r.c.Now())
		}
	}
	return nil
}

// removeOf deletes missing rows of one server and returns and counts the changes.
func (r *round) removeOf(ctx context.Context, name string, missing []rowName, stamp time.Time) ([]change, error) {
	s, err := r.server(ctx, name, noRecords)
	if err != nil {
		return nil, err
	}
	for _, row := range missing {
		if e, ok := s.find(row.Version); ok {
			markDeleted(e, messageVanished, stamp)
			setFlags(e, true, FlagVanished)
		}
	}
	changes := s.changes(stamp)
	for _, c := range changes {
		r.report.countChange(c)
		if c.before != nil && live(*c.before) && !live(c.entry) {
			r.report.Vanished++
		}
	}
	return changes, nil
}

// clearConflicts removes the flag from own servers whose names the crawl did not list.
func (r *round) clearConflicts(ctx context.Context) error {
	if r.progress.Flags[FlagConflict] == 0 {
		return nil
	}
	var all []change
	for _, name := range slices.Clone(r.progress.Own) {
		if r.conflicts[name] {
			continue
		}
		s, err := r.server(ctx, name, noRecords)
		if err != nil {
			return err
		}
		for i := range s.after {
			setFlags(&s.after[i], false, FlagConflict)
		}
		all = append(all, s.changes(r.progress.Stamp)...)
	}
	return r.commit(ctx, all)
}
