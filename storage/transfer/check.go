package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/storage"
)

// check reads both stores again, and compares number and digest of each kind.
func (r *run) check(ctx context.Context) error {
	total := r.out.total()
	r.done = 0
	records, err := r.compareRecords(ctx, total)
	if err != nil {
		return err
	}
	lists, err := r.compareLists(ctx, total)
	if err != nil {
		return err
	}
	if err := r.findMore(ctx); err != nil {
		return err
	}
	r.out.Records, r.out.Lists = records, lists
	return nil
}

// compareRecords returns the tallies of the records at the target that are at the source too.
// Of a record that is over by now, nothing is expected.
func (r *run) compareRecords(ctx context.Context, total int) (tallies, error) {
	source, target := tallies{}, tallies{}
	for page, err := range r.records(ctx) {
		if err != nil {
			return nil, err
		}
		page = carried(page)
		keys := make([]string, len(page))
		for i, one := range page {
			keys[i] = one.key
		}
		items, err := read(ctx, r.to, keys)
		if err != nil {
			return nil, err
		}
		for i, one := range page {
			there := items[i].Version != storage.Version{}
			if !there && r.over(one.key, one.item) {
				continue
			}
			source.addItem(one.key, one.item)
			if there {
				target.addItem(one.key, items[i])
			}
		}
		r.progress(Checking, len(page), total)
	}
	return target, differ("record", source, target)
}

// over reports whether nothing is left of an item by now.
func (r *run) over(key string, item storage.Item) bool {
	in, err := r.store.Inspect(key, item)
	return err == nil && in.Over
}

// compareLists returns the tallies of the entries at the target of the indexes of the source. Both
// sides of an index are read one after the other, so it does not matter if a scan names it twice.
func (r *run) compareLists(ctx context.Context, total int) (tallies, error) {
	source, target := tallies{}, tallies{}
	for names, err := range pages(ctx, r.from.Indexes) {
		if err != nil {
			return nil, err
		}
		for _, index := range names {
			before := target[kindOf(index)].Count
			if err := errors.Join(source.addIndex(ctx, r.from, index), target.addIndex(ctx, r.to, index)); err != nil {
				return nil, err
			}
			r.progress(Checking, target[kindOf(index)].Count-before, total)
		}
	}
	return target, differ("entry", source, target)
}

// addIndex adds the entries of an index.
func (t tallies) addIndex(ctx context.Context, b storage.Backend, index string) error {
	for page, err := range entries(ctx, b, index) {
		if err != nil {
			return err
		}
		for _, entry := range page {
			t.addEntry(index, entry)
		}
	}
	return nil
}

// findMore returns an error if the target has a record or an index that the source does not have.
func (r *run) findMore(ctx context.Context) error {
	for keys, err := range pages(ctx, r.to.Scan) {
		if err == nil {
			err = r.findMoreRecords(ctx, keys)
		}
		if err != nil {
			return err
		}
	}
	for names, err := range pages(ctx, r.to.Indexes) {
		if err != nil {
			return err
		}
		for _, index := range names {
			if n, err := r.from.IndexLen(ctx, index); err != nil || n == 0 {
				return cmp.Or(err, fmt.Errorf("%w: it has a list of the kind %s that the source does not have", ErrDiffers, kindOf(index)))
			}
		}
	}
	return nil
}

// findMoreRecords returns an error if one of some records of the target is not at the source. One
// that is over may be gone there.
func (r *run) findMoreRecords(ctx context.Context, keys []string) error {
	items, err := read(ctx, r.from, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if items[i].Version != (storage.Version{}) {
			continue
		}
		switch item, err := r.to.Get(ctx, key); {
		case errors.Is(err, storage.ErrNotFound) || err == nil && r.over(key, item):
		case err != nil:
			return err
		default:
			return fmt.Errorf("%w: it has a record of the kind %s that the source does not have", ErrDiffers, kindOf(key))
		}
	}
	return nil
}

// differ returns an error that names the first kind of which the target has another number or
// digest than the source. It has no kind that the source does not have.
func differ(what string, source, target tallies) error {
	for _, kind := range slices.Sorted(maps.Keys(source)) {
		if s, t := source[kind], target[kind]; s != t {
			return fmt.Errorf("%w: %s kind %s: %d at the source, %d at the target%s", ErrDiffers, what, kind, s.Count, t.Count, contentOnly(s, t))
		}
	}
	return nil
}

func contentOnly(s, t Tally) string {
	if s.Count == t.Count {
		return ", with another content"
	}
	return ""
}
