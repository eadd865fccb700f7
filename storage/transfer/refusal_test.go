package transfer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
	"gatehouse.example/storage/transfer"
)

// filled returns a store with a person and a signing key.
func filled(t testing.TB) storage.IndexLister {
	t.Helper()
	b := openRedis(t, now)
	fillGolden(t, b, "../testdata/records-v2.json")
	return b
}

// TestRefusedBefore: a copy that must not begin marks and writes nothing.
func TestRefusedBefore(t *testing.T) {
	t.Parallel()
	other := records()
	other.MasterKeys = [][]byte{make([]byte, 32)}
	elsewhere := records()
	elsewhere.Issuer = "https://another.example.com"
	for name, c := range map[string]struct {
		from, to storage.IndexLister
		records  storage.Options
		want     error
	}{
		"an empty source":               {openRedis(t, now), openRedis(t, now), records(), transfer.ErrEmpty},
		"another master key":            {filled(t), openRedis(t, now), other, transfer.ErrKeys},
		"another issuer":                {filled(t), openRedis(t, now), elsewhere, transfer.ErrKeys},
		"no master key":                 {filled(t), openRedis(t, now), storage.Options{Issuer: issuer}, transfer.ErrKeys},
		"a target with records":         {filled(t), filled(t), records(), transfer.ErrNotEmpty},
		"a target with a list":          {filled(t), listed(t), records(), transfer.ErrNotEmpty},
		"a source from before seals":    {plain(t), openRedis(t, now), other, transfer.ErrKeys},
		"a source without its key set":  {without(t, "gatehouse:keyset:signing"), openRedis(t, now), records(), transfer.ErrKeys},
		"a source with a strange mark":  {strange(t), openRedis(t, now), records(), storage.ErrRecord},
		"a target that does not answer": {filled(t), down{openRedis(t, now)}, records(), errDead},
	} {
		t.Run(name, func(t *testing.T) {
			before, there := contents(t, c.from), contents(t, c.to)
			o := between(c.from, c.to)
			o.Records = c.records
			done, err := transfer.Copy(t.Context(), o)
			if !errors.Is(err, c.want) || done.Marked {
				t.Errorf("%v, marked: %t; want %v", err, done.Marked, c.want)
			}
			wantSame(t, before, contents(t, c.from))
			wantSame(t, there, contents(t, c.to))
			if _, err := transfer.Guard(t.Context(), c.from); err != nil && !errors.Is(err, storage.ErrRecord) {
				t.Errorf("the source is marked: %v", err)
			}
		})
	}
}

func listed(t testing.TB) storage.IndexLister {
	b := openRedis(t, now)
	if err := b.IndexAdd(t.Context(), "gatehouse:users:all", "ada"); err != nil {
		t.Fatal(err)
	}
	return b
}

func plain(t testing.TB) storage.IndexLister {
	b := openRedis(t, now)
	fillGolden(t, b, "../testdata/keyset-v1-states.json")
	return b
}

func without(t testing.TB, key string) storage.IndexLister {
	b := filled(t)
	if err := errors.Join(b.Delete(t.Context(), key), b.IndexAdd(t.Context(), "gatehouse:users:all", "ann")); err != nil {
		t.Fatal(err)
	}
	return b
}

func strange(t testing.TB) storage.IndexLister {
	b := filled(t)
	if _, err := b.Put(t.Context(), storage.Put{Key: markKey, Data: []byte(`{"role":"judge"}`), Operation: storage.Version{1}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// down is a store that lists its indexes and nothing else.
type down struct{ storage.IndexLister }

// TestSameStore: a store is not copied to itself, under whatever name.
func TestSameStore(t *testing.T) {
	t.Parallel()
	b := filled(t)
	if _, err := transfer.Copy(t.Context(), between(b, b)); !errors.Is(err, transfer.ErrNotEmpty) {
		t.Errorf("%v", err)
	}
}

// TestMarks: what is marked takes part in no other copy, until it is undone or emptied.
func TestMarks(t *testing.T) {
	t.Parallel()
	from, to, third := filled(t), openRedis(t, now), openRedis(t, now)
	stop := errors.New("stop")
	half := between(from, failing{to, stop})
	if done, err := transfer.Copy(t.Context(), half); !errors.Is(err, stop) || !done.Marked {
		t.Fatalf("%v, marked: %t", err, done.Marked)
	}
	wantMarked := func(what string, o transfer.Options, want transfer.MarkedError) {
		t.Helper()
		var got *transfer.MarkedError
		before := marked(t, o.From.Backend)
		done, err := transfer.Copy(t.Context(), o)
		if !errors.As(err, &got) || got.Target != want.Target || got.Done != want.Done || got.Other != want.Other || done.Marked != before {
			t.Errorf("%s: %v, marked: %t", what, err, done.Marked)
		}
	}
	elsewhere := between(from, third)
	elsewhere.To.Name = "redis://another:6379"
	source, target := transfer.MarkedError{Other: half.To.Name}, transfer.MarkedError{Target: true, Other: half.From.Name}
	wantMarked("from the source to another target", elsewhere, source)
	wantMarked("from another source to the target", between(filled(t), to), target)
	wantMarked("from the target", between(to, third), target)
	wantMarked("from the source to itself", between(from, from), source)
	back := between(to, third)
	back.To.Name = half.From.Name
	wantMarked("from the target to another store with the name of the source", back, target)
	wantMarked("to the source", between(filled(t), from), source)

	if _, err := transfer.Undo(t.Context(), to); err == nil {
		t.Error("the mark of a target was removed")
	}
	if _, err := transfer.Undo(t.Context(), from); err != nil {
		t.Error(err)
	}
	if _, err := transfer.Undo(t.Context(), from); !errors.Is(err, transfer.ErrNotMarked) {
		t.Errorf("the second time: %v", err)
	}
	if _, err := transfer.Guard(t.Context(), from); err != nil {
		t.Errorf("the source cannot be used again: %v", err)
	}
	wantMarked("to the target of a copy that was undone", between(from, to), target)
	if _, err := transfer.Copy(t.Context(), between(from, failing{third, stop})); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	wantMarked("to that target during another copy to a store of its name", between(from, to), target)
	mustCopy(t, between(from, third))
	wantMarked("once more", between(from, openRedis(t, now)), transfer.MarkedError{Done: true, Other: half.To.Name})
	if _, err := transfer.Guard(t.Context(), to); err == nil {
		t.Error("what was copied in part can be used")
	}
}

// marked reports whether a store is the source of a copy.
func marked(t testing.TB, b storage.Backend) bool {
	t.Helper()
	var mark *transfer.MarkedError
	_, err := transfer.Guard(t.Context(), b)
	return errors.As(err, &mark) && !mark.Target
}

// TestDiffers: a program that writes to one of the stores during the copy is noticed at its end.
func TestDiffers(t *testing.T) {
	t.Parallel()
	put := func(b storage.Backend, key string) error {
		data := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, "{}"...)
		_, err := b.Put(t.Context(), storage.Put{Key: key, Data: data, If: storage.Always, Operation: storage.Version{99}})
		return err
	}
	for name, write := range map[string]func(from, to storage.IndexLister) error{
		"a new record at the source":     func(from, _ storage.IndexLister) error { return put(from, "gatehouse:group:new") },
		"a changed record at the source": func(from, _ storage.IndexLister) error { return put(from, "gatehouse:client:client") },
		"a removed record at the source": func(from, _ storage.IndexLister) error { return from.Delete(t.Context(), "gatehouse:user:ann") },
		"a new entry at the source":      func(from, _ storage.IndexLister) error { return from.IndexAdd(t.Context(), "gatehouse:users:all", "x") },
		"a new record at the target":     func(_, to storage.IndexLister) error { return put(to, "gatehouse:group:new") },
		"a changed record at the target": func(_, to storage.IndexLister) error { return put(to, "gatehouse:client:client") },
		"a removed record at the target": func(_, to storage.IndexLister) error { return to.Delete(t.Context(), "gatehouse:user:ann") },
		"a new entry at the target":      func(_, to storage.IndexLister) error { return to.IndexAdd(t.Context(), "gatehouse:users:all", "x") },
		"a new list at the target":       func(_, to storage.IndexLister) error { return to.IndexAdd(t.Context(), "gatehouse:new:all", "x") },
		"a removed entry at the target": func(_, to storage.IndexLister) error {
			return to.IndexRemove(t.Context(), "gatehouse:users:all", "gatehouse:user:ann")
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filled(t), openRedis(t, now)
			o := between(from, to)
			written := false
			o.Progress = func(p transfer.Progress) {
				if p.Stage == transfer.Copying && p.Done == p.Total && !written {
					written = true
					if err := write(from, to); err != nil {
						t.Error(err)
					}
				}
			}
			if _, err := transfer.Copy(t.Context(), o); !errors.Is(err, transfer.ErrDiffers) || !written {
				t.Errorf("%v; written: %t", err, written)
			}
			if _, err := transfer.Guard(t.Context(), to); err == nil {
				t.Error("the target can be used")
			}
		})
	}
}

// TestForeignRecord: a record that came into the target since it was found empty is not replaced.
func TestForeignRecord(t *testing.T) {
	t.Parallel()
	from, to := filled(t), openRedis(t, now)
	o := between(from, to)
	foreign := storage.Put{Key: "gatehouse:client:client", Data: []byte("foreign"), Operation: storage.Version{99}}
	o.Surveyed = func(transfer.Summary) {
		if _, err := to.Put(t.Context(), foreign); err != nil {
			t.Error(err)
		}
	}
	if _, err := transfer.Copy(t.Context(), o); !errors.Is(err, transfer.ErrDiffers) {
		t.Errorf("%v", err)
	}
	if item, err := to.Get(t.Context(), foreign.Key); err != nil || string(item.Data) != "foreign" {
		t.Errorf("it is %q now, %v", item.Data, err)
	}
}

// TestUnknownRecord: a record of a later program ends the copy by its key. One that the keys do not
// open is copied as it is, and counted.
func TestUnknownRecord(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{"\x09\x00\x00\x00\x00\x00\x00\x00\x00{}": "gatehouse:group:new", "short": "gatehouse:group:new", "\x01\x00\x00\x00\x00\x00\x00\x00\x00{}": ""} {
		from, to := filled(t), openRedis(t, now)
		if _, err := from.Put(t.Context(), storage.Put{Key: "gatehouse:group:new", Data: []byte(data), Operation: storage.Version{99}}); err != nil {
			t.Fatal(err)
		}
		o := between(from, to)
		o.Records.MustSeal = true
		done, err := transfer.Copy(t.Context(), o)
		switch {
		case want == "" && (err != nil || done.Unverified != 1 || done.Records["group"].Count != 1):
			t.Errorf("a record without a seal: %v, %+v", err, done)
		case want != "" && (!errors.Is(err, storage.ErrRecord) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want it to name %s", data, err, want)
		}
	}
}

// TestGrantOfLaterProgram: a grant whose body has a version that this program does not know ends a copy
// too, because nothing tells whether its code was redeemed.
func TestGrantOfLaterProgram(t *testing.T) {
	t.Parallel()
	const key = "gatehouse:grant:later"
	from := filled(t)
	item := storage.Item{Data: []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02..."), Version: storage.Version{99}}
	item = storagetest.SealAnew(t, records().MasterKeys[0], issuer, key, item)
	if _, err := from.Put(t.Context(), storage.Put{Key: key, Data: item.Data, Operation: item.Version}); err != nil {
		t.Fatal(err)
	}
	done, err := transfer.Copy(t.Context(), between(from, openRedis(t, now)))
	if !errors.Is(err, storage.ErrRecord) || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v, %+v; want it to name %s", err, done, key)
	}
}

// Get implements [storage.Backend].
func (down) Get(context.Context, string) (storage.Item, error) { return storage.Item{}, errDead }

// failing is a store that takes the mark and no list.
type failing struct {
	storage.IndexLister
	err error
}

// IndexAdd implements [storage.Backend].
func (f failing) IndexAdd(context.Context, string, string) error { return f.err }
