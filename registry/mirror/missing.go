package mirror

import (
	"context"
	"slices"

	"gatehouse.example/storage/catalogue"
)

const (
	// A crawl that lacks more rows than maxMissing, and more than one in missingPart, removes
	// none.
	maxMissing  = 10
	missingPart = 10
	// missingStep is how many rows are read or removed at once.
	missingStep = 200
)

// handleMissing decides about what the upstream does not list any more. Only a crawl that was not
// interrupted knows what it saw.
func (r *round) handleMissing(ctx context.Context) error {
	p, report := &r.progress, &r.progress.Crawl.Report
	if report.NotModified { // nothing has changed since the last full crawl
		report.Judged = p.Full != nil && p.Full.Judged
		return nil
	}
	if !r.whole {
		return nil
	}
	missing, held, err := r.missing(ctx)
	if err != nil {
		return err
	}
	report.Judged, report.Missing = true, len(missing)
	held -= r.gained // only what was there before can be lost
	if p.Shrink != nil {
		held = min(held, p.Shrink.Held) // what came since does not make up for it
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

// shrunk reports whether so much is missing that the upstream may have lost it.
func shrunk(missing, held int) bool {
	return missing > maxMissing && missing*missingPart > held || missing > 1 && missing >= held
}

// missing returns the rows of the upstream that readers see and that it did not list, and how
// many readers see. On the way it counts all flags anew: a crash in the middle of a change too
// large for one commit leaves them miscounted.
func (r *round) missing(ctx context.Context) (missing []rowName, held int, err error) {
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

// remove deletes rows that the upstream does not list. Those of one server are together.
func (r *round) remove(ctx context.Context, missing []rowName) error {
	stamp := r.progress.stamp(r.c.Now())
	var pending []change
	for len(missing) > 0 {
		name := missing[0].Name
		s, err := r.server(ctx, name, noRecords)
		if err != nil {
			return err
		}
		for len(missing) > 0 && missing[0].Name == name {
			if e, known := s.find(missing[0].Version); known {
				markDeleted(e, messageVanished, stamp)
				setFlags(e, true, FlagVanished)
			}
			missing = missing[1:]
		}
		for _, c := range s.changes(stamp) {
			r.report.countChange(c)
			if c.before != nil && live(*c.before) && !live(c.entry) {
				r.report.Vanished++
			}
			pending = append(pending, c)
		}
		if len(pending) >= missingStep || len(missing) == 0 {
			if err := r.commit(ctx, pending); err != nil {
				return err
			}
			pending = nil
		}
	}
	return nil
}

// clearConflicts removes the flag from servers of our own whose names the upstream does not
// list any more.
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
