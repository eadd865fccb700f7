package transfer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/transfer"
)

// forgetful is a store of which one read fails.
type forgetful struct {
	storage.IndexLister
	left *atomic.Int64
}

func (f forgetful) read(do func() error) error {
	if f.left.Add(-1) == 0 {
		return errDead
	}
	return do()
}

func (f forgetful) Get(ctx context.Context, key string) (item storage.Item, err error) {
	err = f.read(func() (err error) { item, err = f.IndexLister.Get(ctx, key); return err })
	return item, err
}

func (f forgetful) GetMany(ctx context.Context, keys []string) (items []storage.Item, err error) {
	err = f.read(func() (err error) { items, err = f.IndexLister.GetMany(ctx, keys); return err })
	return items, err
}

func (f forgetful) Scan(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error) {
	err = f.read(func() (err error) { names, next, err = f.IndexLister.Scan(ctx, prefix, cursor, limit); return err })
	return names, next, err
}

func (f forgetful) Indexes(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error) {
	err = f.read(func() (err error) { names, next, err = f.IndexLister.Indexes(ctx, prefix, cursor, limit); return err })
	return names, next, err
}

func (f forgetful) IndexPage(ctx context.Context, index, after string, limit int) (page []string, err error) {
	err = f.read(func() (err error) { page, err = f.IndexLister.IndexPage(ctx, index, after, limit); return err })
	return page, err
}

func (f forgetful) IndexLen(ctx context.Context, index string) (n int, err error) {
	err = f.read(func() (err error) { n, err = f.IndexLister.IndexLen(ctx, index); return err })
	return n, err
}

// TestReadsFailAnywhere: a copy of which any single read fails, at either side, ends with its error,
// is not taken for whole, and goes on when it is run again.
func TestReadsFailAnywhere(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		from, to, left := openRedis(t, now), openRedis(t, now), &atomic.Int64{}
		leftOut := fillGolden(t, from, "../testdata/records-v2.json")
		left.Store(n)
		_, err := transfer.Copy(t.Context(), between(forgetful{from, left}, forgetful{to, left}))
		if err == nil {
			if n < 40 || left.Load() <= 0 {
				t.Errorf("the copy is whole although read %d failed", n)
			}
			return
		}
		if !errors.Is(err, errDead) {
			t.Fatalf("read %d failed, and the copy with %v", n, err)
		}
		wantRefused(t, from, to)
		mustCopy(t, between(from, to))
		wantSame(t, contents(t, from), contents(t, to), leftOut...)
	}
}

// TestStages: each stage after the wait ends with everything that there is.
func TestStages(t *testing.T) {
	t.Parallel()
	o := between(filled(t), openRedis(t, now))
	last, order := map[transfer.Stage]transfer.Progress{}, []transfer.Stage{}
	o.Progress = func(p transfer.Progress) {
		if _, before := last[p.Stage]; !before {
			order = append(order, p.Stage)
		}
		last[p.Stage] = p
	}
	done, total := mustCopy(t, o), 0
	for _, all := range []map[string]transfer.Tally{done.Records, done.Lists} {
		for _, tally := range all {
			total += tally.Count
		}
	}
	counted := last[transfer.Counting].Done
	if want := total + done.Codes + done.Over; counted != want || total == 0 || last[transfer.Counting].Total != 0 {
		t.Errorf("counted %+v, want %d", last[transfer.Counting], want)
	}
	for _, stage := range []transfer.Stage{transfer.Copying, transfer.Checking} {
		if last[stage].Done != total || last[stage].Total != total {
			t.Errorf("%s ends with %+v, want %d", stage, last[stage], total)
		}
	}
	if want := []transfer.Stage{transfer.Waiting, transfer.Counting, transfer.Copying, transfer.Checking}; !slices.Equal(order, want) {
		t.Errorf("the stages are %v", order)
	}
}

// TestMarkedErrorSaysWhichSideItIs: which side it is, of what, and since when.
func TestMarkedErrorSaysWhichSideItIs(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 22, 0, 0, 0, time.FixedZone("", -4*3600))
	for want, e := range map[string]transfer.MarkedError{
		"this store is only a part of redis://a: the copy that began at 2026-03-02T02:00:00Z is not finished": {Target: true, Other: "redis://a", Since: since},
		"this store was copied to redis://a at 2026-03-02T02:00:00Z and is not used any more":                 {Done: true, Other: "redis://a", Since: since},
		"this store is being copied to redis://a since 2026-03-02T02:00:00Z and is not used meanwhile":        {Other: "redis://a", Since: since},
	} {
		if e.Error() != want || !errors.Is(&e, storage.ErrUnavailable) {
			t.Errorf("%v, want %s", &e, want)
		}
	}
}
