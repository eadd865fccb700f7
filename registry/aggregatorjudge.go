package registry

import (
	"context"
	"slices"

	"gatehouse.example/storage/catalogue"
)

const (
	// A crawl that misses more rows than this, and more than one of so many, removes none.
	maxMissing  = 10
	missingPart = 10
	// judgeStep is how many rows are read or removed at once.
	judgeStep = 200
)

// judge decides about what the upstream does not list any more. Only a crawl that was not
// interrupted knows what it saw.
func (r *round) judge(ctx context.Context) error {
	l, report := &r.ledger, &r.ledger.Crawl.Report
	if report.NotModified { // it is as it was when it was judged last
		report.Judged = l.Full != nil && l.Full.Judged
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
	if l.Shrink != nil {
		held = min(held, l.Shrink.Held) // what came since does not make up for it
	}
	if shrunk(len(missing), held) && !r.order.AcceptShrink {
		since := r.c.Now().UTC()
		if l.Shrink != nil {
			since = l.Shrink.Since
		}
		l.Shrink = &Shrink{Since: since, Missing: len(missing), Held: held}
		return nil
	}
	l.Shrink = nil
	if err := r.remove(ctx, missing); err != nil {
		return err
	}
	return r.reconcile(ctx)
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
		err := r.insist(ctx, func() (err error) {
			page, err = r.c.Catalogue.Page(ctx, catalogue.Query{Deleted: true}, after, judgeStep)
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
			if held++; !r.saw(e.Name, e.Version) {
				missing = append(missing, rowName{e.Name, e.Version})
			}
		}
		after, more = page.Next, page.More
	}
	r.ledger.Flags = flags
	return missing, held, nil
}

// remove deletes rows that the upstream does not list. Those of one server are together.
func (r *round) remove(ctx context.Context, missing []rowName) error {
	stamp := r.ledger.stamp(r.c.Now())
	var pending []change
	for len(missing) > 0 {
		name := missing[0].Name
		f, err := r.family(ctx, name, nothing)
		if err != nil {
			return err
		}
		for len(missing) > 0 && missing[0].Name == name {
			if e, known := f.find(missing[0].Version); known {
				bury(e, sayVanished, stamp)
				flag(e, FlagVanished, true)
			}
			missing = missing[1:]
		}
		for _, c := range f.changes(stamp) {
			r.report.became(c)
			if c.was != nil && live(*c.was) && !live(c.entry) {
				r.report.Vanished++
			}
			pending = append(pending, c)
		}
		if len(pending) >= judgeStep || len(missing) == 0 {
			if err := r.commit(ctx, pending); err != nil {
				return err
			}
			pending = nil
		}
	}
	return nil
}

// reconcile takes the flag from servers of our own whose names the upstream does not list any
// more.
func (r *round) reconcile(ctx context.Context) error {
	if r.ledger.Flags[FlagConflict] == 0 {
		return nil
	}
	var all []change
	for _, name := range slices.Clone(r.ledger.Own) {
		if r.conflicts[name] {
			continue
		}
		f, err := r.family(ctx, name, nothing)
		if err != nil {
			return err
		}
		for i := range f.is {
			flag(&f.is[i], FlagConflict, false)
		}
		all = append(all, f.changes(r.ledger.Stamp)...)
	}
	return r.commit(ctx, all)
}
