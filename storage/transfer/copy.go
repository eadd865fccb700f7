package transfer

import (
	"context"
	"errors"
	"fmt"

	"gatehouse.example/storage"
)

// survey counts what there is at the source.
func (r *run) survey(ctx context.Context) error {
	records, lists := tallies{}, tallies{}
	for page, err := range r.records(ctx) {
		if err != nil {
			return err
		}
		for _, one := range page {
			switch {
			case one.Over:
				r.out.Over++
			case one.Code:
				r.out.Codes++
			default:
				records.addItem(one.key, one.item)
			}
			if one.Unverified != nil && !one.Over {
				r.out.Unverified++
			}
		}
		r.progress(Counting, len(page), 0)
	}
	err := r.eachPage(ctx, r.from, func(index string, page []string) error {
		for _, entry := range page {
			lists.addEntry(index, entry)
		}
		r.progress(Counting, len(page), 0)
		return nil
	})
	r.out.Records, r.out.Lists, r.done = records, lists, 0
	return err
}

// eachPage calls visit with every page of every index of a store.
func (r *run) eachPage(ctx context.Context, b storage.IndexLister, visit func(index string, page []string) error) error {
	for names, err := range pages(ctx, b.Indexes) {
		if err != nil {
			return err
		}
		for _, index := range names {
			for page, err := range entries(ctx, b, index) {
				if err == nil {
					err = visit(index, page)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *run) progress(stage Stage, more, total int) {
	r.done += more
	r.Progress(Progress{Stage: stage, Done: r.done, Total: total})
}

// copyRecords writes the records of the source to the target, where none of them is replaced.
func (r *run) copyRecords(ctx context.Context) error {
	total := r.out.total()
	for page, err := range r.records(ctx) {
		if err == nil {
			err = r.holds(ctx)
		}
		page = carried(page)
		if err == nil {
			err = each(ctx, page, r.copyRecord)
		}
		if err != nil {
			return err
		}
		r.progress(Copying, len(page), total)
	}
	return nil
}

// copyRecord writes a record under the operation that wrote it at the source, which its seal binds,
// and by which a record that is there already is known to be the same.
func (r *run) copyRecord(ctx context.Context, one record) error {
	err := settled(ctx, func() error {
		_, err := r.to.Put(ctx, storage.Put{Key: one.key, Data: one.item.Data, If: storage.Absent, Operation: one.item.Version, TTL: one.Left})
		return err
	})
	if errors.Is(err, storage.ErrConflict) {
		return fmt.Errorf("%w: a record of the kind %s is there that this copy did not write", ErrDiffers, one.Kind)
	}
	return err
}

// copyLists adds the entries of every index of the source to the target.
func (r *run) copyLists(ctx context.Context) error {
	total := r.out.total()
	return r.eachPage(ctx, r.from, func(index string, page []string) error {
		if err := r.holds(ctx); err != nil {
			return err
		}
		err := each(ctx, page, func(ctx context.Context, entry string) error {
			return settled(ctx, func() error { return r.to.IndexAdd(ctx, index, entry) })
		})
		r.progress(Copying, len(page), total)
		return err
	})
}
