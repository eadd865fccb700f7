package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gatehouse.example/storage"
	"gatehouse.example/storage/transfer"
)

// errDead is the error of every write of a process that died.
var errDead = errors.New("the process is dead")

// life is how many writes a process makes before it dies.
type life struct {
	left atomic.Int64
	// last means that its last write takes place, without an answer.
	last bool
}

func (l *life) write(do func() error) error {
	switch left := l.left.Add(-1); {
	case left > 0:
		return do()
	case left == 0 && l.last:
		_ = do()
	}
	return errDead
}

// mortal is a store as it is seen by a process that dies.
type mortal struct {
	storage.IndexLister
	life *life
}

func (m mortal) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	err = m.life.write(func() (err error) {
		item, err = m.IndexLister.Put(ctx, put)
		return err
	})
	return item, err
}

func (m mortal) Delete(ctx context.Context, key string) error {
	return m.life.write(func() error { return m.IndexLister.Delete(ctx, key) })
}

func (m mortal) IndexAdd(ctx context.Context, index, entry string) error {
	return m.life.write(func() error { return m.IndexLister.IndexAdd(ctx, index, entry) })
}

// TestDiesAnywhere: a copy that dies at any of its writes is refused as a whole at both sides from
// its first write on, goes on when it is run again, and is then as if it had never died.
func TestDiesAnywhere(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		for n := 1; ; n++ {
			finished := false
			t.Run(fmt.Sprintf("%d writes, the last takes place: %t", n, last), func(t *testing.T) { finished = dieAt(t, n, last) })
			if finished {
				if n < 20 {
					t.Errorf("the whole copy is %d writes", n)
				}
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

// dieAt lets a copy die at its n-th write and runs it again. It reports whether the copy was
// finished before.
func dieAt(t *testing.T, n int, last bool) (finished bool) {
	from, to := openRedis(t, now), openRedis(t, now)
	leftOut := fillGolden(t, from, "../testdata/records-v2.json")
	l := &life{last: last}
	l.left.Store(int64(n))
	first, err := transfer.Copy(t.Context(), between(mortal{from, l}, mortal{to, l}))
	if err != nil && !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	if err == nil {
		return true
	}
	marked := wantRefused(t, from, to)
	if marked && !first.Marked && !(last && n == 1) {
		t.Error("the source is marked, and the summary does not say so")
	}
	again, err := transfer.Copy(t.Context(), between(from, to))
	var refused *transfer.MarkedError
	if errors.As(err, &refused) && refused.Done && last { // only the reply to the last write of all was lost
		err = nil
	}
	if err != nil {
		t.Fatalf("the copy does not go on: %v", err)
	}
	if n > 2 && refused == nil && !again.Resumed {
		t.Error("the copy began anew")
	}
	wantSame(t, contents(t, from), contents(t, to), leftOut...)
	if _, err := transfer.Guard(t.Context(), to); err != nil {
		t.Errorf("the target is refused afterwards: %v", err)
	}
	if _, err := transfer.Guard(t.Context(), from); !errors.As(err, &refused) || !refused.Done || refused.Target {
		t.Errorf("the source afterwards: %v", err)
	}
	return false
}

// wantRefused wants a target with anything in it to be refused, unless it is complete, and the source
// to be refused then. It reports whether the source is.
func wantRefused(t *testing.T, from, to storage.IndexLister) bool {
	t.Helper()
	var source, target *transfer.MarkedError
	_, err := transfer.Guard(t.Context(), from)
	errors.As(err, &source)
	_, err = transfer.Guard(t.Context(), to)
	errors.As(err, &target)
	if there := contents(t, to); len(there) > 0 && (source == nil || target == nil && !source.Done) {
		t.Errorf("with %d records and lists at the target the source is refused with %v, the target with %v", len(there), source, target)
	}
	return source != nil
}

// TestStalledRun: a run that another one has overtaken writes nothing more, so that nothing comes
// back that a server of the target has ended.
func TestStalledRun(t *testing.T) {
	t.Parallel()
	const groups = 600
	for name, at := range map[string]int{"among its records": 1, "among its lists": groups + 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := openRedis(t, now), openRedis(t, now)
			s := newStore(t, from, records())
			for i := range groups {
				if err := s.CreateGroup(t.Context(), storage.Group{Name: fmt.Sprintf("group-%03d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			o := between(paged{from}, to)
			stalled := false
			o.Progress = func(p transfer.Progress) {
				if p.Stage != transfer.Copying || p.Done < at || stalled {
					return
				}
				stalled = true
				if done := mustCopy(t, between(from, to)); !done.Resumed || done.Records["group"].Count != groups {
					t.Errorf("the other run: %+v", done)
				}
				emptied(t, to)
			}
			if _, err := transfer.Copy(t.Context(), o); !errors.Is(err, transfer.ErrTaken) {
				t.Errorf("the stalled run: %v", err)
			}
			if back := contents(t, to); !stalled || len(back) > 0 {
				t.Errorf("%d records and lists are back", len(back))
			}
		})
	}
}

// TestOvertakenRun: a run writes nothing more and ends nothing as soon as another one has taken its copy
// over, also while that one is under way.
func TestOvertakenRun(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]transfer.Stage{"while it copies": transfer.Copying, "while it checks": transfer.Checking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to, stop := filled(t), openRedis(t, now), errors.New("stop")
			err := interrupted(t, from, to, at, func() {
				if done, err := transfer.Copy(t.Context(), between(from, failing{to, stop})); !errors.Is(err, stop) || !done.Resumed {
					t.Errorf("the other run: %v, %+v", err, done)
				}
			})
			if !errors.Is(err, transfer.ErrTaken) {
				t.Errorf("the run that was overtaken: %v", err)
			}
			if lists := names(t, to.Indexes); at == transfer.Copying && len(lists) > 0 {
				t.Errorf("it has written %q", lists)
			}
			if _, err := transfer.Guard(t.Context(), to); err == nil {
				t.Error("the target can be used, and the other run may write to it")
			}
			mustCopy(t, between(from, to))
		})
	}
}

// interrupted runs a copy, and something else when a stage has begun.
func interrupted(t *testing.T, from, to storage.IndexLister, at transfer.Stage, other func()) error {
	t.Helper()
	o, done := between(from, to), false
	o.Progress = func(p transfer.Progress) {
		if p.Stage == at && !done {
			done = true
			other()
		}
	}
	_, err := transfer.Copy(t.Context(), o)
	if !done {
		t.Errorf("nothing happened in the stage %v", at)
	}
	return err
}

// TestUndoneMeanwhile: a run whose mark at the source is removed does not end: the source is used again, and
// what its servers write is not at the target.
func TestUndoneMeanwhile(t *testing.T) {
	t.Parallel()
	from, to := filled(t), openRedis(t, now)
	err := interrupted(t, from, to, transfer.Checking, func() {
		if _, err := transfer.Undo(t.Context(), from); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, transfer.ErrTaken) {
		t.Errorf("the copy: %v", err)
	}
	if _, err := transfer.Guard(t.Context(), from); err != nil {
		t.Errorf("the source is refused again: %v", err)
	}
	if _, err := transfer.Guard(t.Context(), to); err == nil {
		t.Error("the target can be used too")
	}
}

// TestPerhapsMarked: a source counts as marked if nobody knows whether it is.
func TestPerhapsMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done, err := transfer.Copy(t.Context(), between(silent{filled(t)}, openRedis(t, now)))
		if !errors.Is(err, storage.ErrUncertain) || !done.Marked {
			t.Errorf("%v, marked: %t", err, done.Marked)
		}
	})
}

// silent is a store that never says what became of a record.
type silent struct{ storage.IndexLister }

func (silent) Put(context.Context, storage.Put) (storage.Item, error) {
	return storage.Item{}, storage.ErrUncertain
}

// emptied removes everything from a store.
func emptied(t *testing.T, b storage.IndexLister) {
	t.Helper()
	for _, key := range names(t, b.Scan) {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range names(t, b.Indexes) {
		entries, err := b.IndexPage(t.Context(), index, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if err := b.IndexRemove(t.Context(), index, entry); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// paged is a store that is scanned in small pages.
type paged struct{ storage.IndexLister }

func (p paged) Scan(ctx context.Context, prefix, cursor string, limit int) ([]string, string, error) {
	all, _, err := p.IndexLister.Scan(ctx, prefix, "", limit)
	at := 0
	if cursor != "" {
		_, _ = fmt.Sscan(cursor, &at)
	}
	if at+100 >= len(all) || err != nil {
		return all[min(at, len(all)):], "", err
	}
	return all[at : at+100], fmt.Sprint(at + 100), nil
}

// hesitant is a store that carries every write out, and says so only when it is sent again.
type hesitant struct {
	storage.IndexLister
	asked *sync.Map
}

func (h hesitant) uncertain(write string, err error) error {
	if _, again := h.asked.LoadOrStore(write, true); again || err != nil {
		return err
	}
	return storage.ErrUncertain
}

func (h hesitant) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	item, err := h.IndexLister.Put(ctx, put)
	return item, h.uncertain(fmt.Sprintf("%s %x", put.Key, put.Operation), err)
}

func (h hesitant) Delete(ctx context.Context, key string) error {
	return h.uncertain("delete "+key, h.IndexLister.Delete(ctx, key))
}

func (h hesitant) IndexAdd(ctx context.Context, index, entry string) error {
	return h.uncertain(index+" "+entry, h.IndexLister.IndexAdd(ctx, index, entry))
}

// TestLostReplies: a write whose outcome is not known is sent again, and is one write.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to, asked := openRedis(t, now), openRedis(t, now), new(sync.Map)
		leftOut := fillGolden(t, from, "../testdata/records-v2.json")
		mustCopy(t, between(hesitant{from, asked}, hesitant{to, asked}))
		wantSame(t, contents(t, from), contents(t, to), leftOut...)
		if _, err := transfer.Undo(t.Context(), hesitant{from, new(sync.Map)}); err != nil {
			t.Error(err)
		}
	})
}
