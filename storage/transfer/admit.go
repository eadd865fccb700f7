package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"gatehouse.example/storage"
)

// open makes sure that the keys are those of the source, if it has a key set.
func (r *run) open(ctx context.Context) error {
	set, err := r.store.KeySet(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case errors.Is(err, storage.ErrRecord):
		return fmt.Errorf("%w: %w", ErrKeys, err)
	case err != nil:
		return err
	}
	for _, k := range set.Keys {
		if len(k.Private) == 0 {
			continue
		}
		if _, err := r.store.OpenKey(k.ID, k.Private); err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
	}
	return nil
}

// admit reads the marks, and decides whether this copy may begin or go on.
func (r *run) admit(ctx context.Context) (err error) {
	if r.source, err = readMark(ctx, r.from); err != nil {
		return err
	}
	if r.target, err = readMark(ctx, r.to); err != nil {
		return err
	}
	r.out.Marked = r.source != nil && r.source.Role == roleSource
	if err := r.judge(r.source, r.target); err != nil {
		return err
	}
	if r.out.Resumed = r.target != nil; r.out.Resumed {
		return nil
	}
	return r.begins(ctx)
}

// judge returns an error if one of the marks is that of another copy, or of one that was finished.
func (r *run) judge(source, target *mark) error {
	switch {
	case source != nil && (source.Role != roleSource || source.Other != r.To.Name || source.Done && target == nil):
		return source.refusal()
	case target != nil && (target.Role != roleTarget || source == nil || source.Copy != target.Copy):
		return target.refusal()
	}
	return nil
}

// begins returns an error unless there is something to copy and nothing in its way.
func (r *run) begins(ctx context.Context) error {
	if empty, err := isEmpty(ctx, r.from); err != nil || empty {
		return cmp.Or(err, ErrEmpty)
	}
	if empty, err := isEmpty(ctx, r.to); err != nil || !empty {
		return cmp.Or(err, ErrNotEmpty)
	}
	return nil
}

// isEmpty reports whether a store has neither records nor lists, except marks.
func isEmpty(ctx context.Context, b storage.IndexLister) (bool, error) {
	for _, names := range []namesOf{b.Scan, b.Indexes} {
		for page, err := range pages(ctx, names) {
			if err != nil || len(page) > 0 {
				return false, err
			}
		}
	}
	return true, nil
}
