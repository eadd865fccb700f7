package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/transfer"
)

const issuer = "https://issuer.example.com"

// now is the time at which the records of storage/testdata were written.
func now() time.Time { return time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC) }

// records are the settings of the servers that wrote the records of storage/testdata.
func records() storage.Options {
	return storage.Options{Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now}
}

const markKey = "gatehouse:copy:mark"

// openFile opens a new store in a file.
func openFile(t testing.TB, now func() time.Time) storage.IndexLister {
	t.Helper()
	b, err := file.Open(file.Options{Path: filepath.Join(t.TempDir(), "gatehouse.db"), Create: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// openRedis opens a new store in the Redis inside this process.
func openRedis(t testing.TB, now func() time.Time) storage.IndexLister {
	t.Helper()
	b, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.(storage.IndexLister)
}

func newStore(t testing.TB, b storage.Backend, o storage.Options) *storage.Store {
	t.Helper()
	s, err := storage.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// between returns the arguments of a copy.
func between(from, to storage.IndexLister) transfer.Options {
	return transfer.Options{
		From: transfer.Side{Name: "file:gatehouse.db", Backend: from}, To: transfer.Side{Name: "redis://127.0.0.1:6379", Backend: to},
		Records: records(),
	}
}

func mustCopy(t testing.TB, o transfer.Options) transfer.Summary {
	t.Helper()
	done, err := transfer.Copy(t.Context(), o)
	if err != nil {
		t.Fatalf("Copy: %v", err)
	}
	return done
}

// contents returns everything in a store but the mark: each item by its key, each entry by its
// index.
func contents(t testing.TB, b storage.IndexLister) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range names(t, b.Scan) {
		item, err := b.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = fmt.Sprintf("%x %x", item.Version, item.Data)
	}
	for _, index := range names(t, b.Indexes) {
		entries, err := b.IndexPage(t.Context(), index, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		all[index] = fmt.Sprintf("%q", entries)
	}
	return all
}

func names(t testing.TB, list func(context.Context, string, string, int) ([]string, string, error)) (all []string) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := list(t.Context(), storage.KeyPrefix, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			return slices.DeleteFunc(all, func(name string) bool { return name == markKey })
		}
	}
}

// wantSame compares the contents of two stores, except for what a copy leaves out.
func wantSame(t testing.TB, source, target map[string]string, leftOut ...string) {
	t.Helper()
	for name, value := range source {
		if left := slices.Contains(leftOut, name); left && target[name] != "" || !left && target[name] != value {
			t.Errorf("%s is %.80s at the source and %.80s at the target", name, value, target[name])
		}
	}
	for name := range target {
		if source[name] == "" {
			t.Errorf("%s is at the target only", name)
		}
	}
}

// golden is a record of storage/testdata.
type golden struct {
	Kind    string          `json:"kind"`
	Key     string          `json:"key"`
	Data    []byte          `json:"data"`
	Version []byte          `json:"version"`
	Want    json.RawMessage `json:"want"`
	Over    bool            `json:"over"`
}

// fillGolden stores the records of one file of storage/testdata and some lists. It returns the
// keys of those that a copy leaves out.
func fillGolden(t testing.TB, b storage.Backend, path string) (leftOut []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(g golden) bool { return g.Kind == "keyset" }) {
		all = append(all, golden{Key: "gatehouse:keyset:signing", Data: []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00{\"keys\":[]}")})
	}
	for i, g := range all {
		put := storage.Put{Key: g.Key, Data: g.Data, Operation: storage.Version{byte(i + 1)}}
		copy(put.Operation[:], g.Version)
		put.Listed = []storage.Listing{{Index: "gatehouse:" + g.Kind + "s:all", Entry: g.Key}, {Index: "gatehouse:everything:\xff\x00", Entry: g.Key}}
		if _, err := b.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		var grant struct{ State string }
		if g.Kind == "grant" && json.Unmarshal(g.Want, &grant) == nil && grant.State == "code" || g.Over && longOver(g.Data) {
			leftOut = append(leftOut, g.Key)
		}
	}
	return leftOut
}

// longOver reports whether a record ended more than a minute ago.
func longOver(data []byte) bool {
	end := int64(0)
	for _, b := range data[1:9] {
		end = end<<8 | int64(b)
	}
	return end != 0 && end+60_000 <= now().UnixMilli()
}

// TestGoldenRoundTrip: records of every kind and form get from a file to Redis and from there into
// another file, byte for byte with their versions, and so does every list.
func TestGoldenRoundTrip(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../testdata/*.json")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%q, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			from, through, to := openFile(t, now), openRedis(t, now), openFile(t, now)
			leftOut := fillGolden(t, from, path)
			there := mustCopy(t, between(from, through))
			wantSame(t, contents(t, from), contents(t, through), leftOut...)
			if there.Codes+there.Over != len(leftOut) || there.Unverified != 0 || there.Resumed {
				t.Errorf("%d codes and %d records that are over were left out, want %q; %+v", there.Codes, there.Over, leftOut, there)
			}
			back := mustCopy(t, between(through, to))
			wantSame(t, contents(t, through), contents(t, to))
			a, b := summed(t, there.Records, there.Lists), summed(t, back.Records, back.Lists)
			if a != b {
				t.Errorf("the digests are\n%s there and\n%s back", a, b)
			}
		})
	}
}

// summed returns tallies as JSON.
func summed(t testing.TB, all ...map[string]transfer.Tally) string {
	t.Helper()
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"digest":"`) {
		t.Errorf("%s has no digest", data)
	}
	return string(data)
}

// TestLifetimes: a record lives at the target exactly as long as it would at the source, and one
// without an end has none.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	at := now()
	clock := func() time.Time { return at }
	o := records()
	o.Now = clock
	from, through, to := openFile(t, clock), openRedis(t, clock), openFile(t, clock)
	s := newStore(t, from, o)
	if err := errors.Join(s.TakeOnce(t.Context(), "purpose", "value", at.Add(time.Hour)), s.CreateUser(t.Context(), storage.User{Name: "ada"})); err != nil {
		t.Fatal(err)
	}
	once := names(t, from.Scan)[slices.IndexFunc(names(t, from.Scan), func(key string) bool { return strings.HasPrefix(key, "gatehouse:once:") })]
	copyAt := func(a, b storage.IndexLister) transfer.Summary {
		c := between(a, b)
		c.Records = o
		return mustCopy(t, c)
	}
	at = at.Add(20 * time.Minute)
	copyAt(from, through)
	at = at.Add(20 * time.Minute)
	copyAt(through, to)
	for _, c := range []struct {
		since time.Duration
		there bool
	}{{time.Hour - time.Second, true}, {time.Hour + 59*time.Second, true}, {time.Hour + 63*time.Second, false}} {
		at = now().Add(c.since)
		for name, b := range map[string]storage.Backend{"the source": from, "Redis": through, "the file": to} {
			if _, err := b.Get(t.Context(), once); (err == nil) != c.there {
				t.Errorf("%v after it was written the record at %s: %v", c.since, name, err)
			}
		}
	}
	at = now().Add(1000 * time.Hour)
	for _, b := range []storage.Backend{through, to} {
		if _, err := newStore(t, b, o).User(t.Context(), "ada"); err != nil {
			t.Errorf("the person is gone: %v", err)
		}
	}
}

// TestOverIsLeftOut: what is over at the source, and only not removed yet, is not copied.
func TestOverIsLeftOut(t *testing.T) {
	t.Parallel()
	from, to := openRedis(t, now), openFile(t, now)
	s := newStore(t, from, records())
	if err := errors.Join(s.CreateUser(t.Context(), storage.User{Name: "ada"}), s.TakeOnce(t.Context(), "purpose", "value", now().Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	o := between(from, to)
	o.Records.Now = func() time.Time { return now().Add(62 * time.Second) }
	done := mustCopy(t, o)
	if done.Over != 1 || done.Records["once"].Count != 0 || done.Records["user"].Count != 1 {
		t.Errorf("%+v", done)
	}
}
