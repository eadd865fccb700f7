// Package journal writes to a store while the store may die at any time, keeps a journal of what was
// acknowledged, and compares a store with it afterwards. It is for tests of storage/file.
package journal

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
)

// writers is how many write at once, keys how many items they share. A value repeats its version so
// often that some need more than one page.
const (
	writers = 8
	keys    = 24
	index   = "all"
)

// Writer is a load of conditional writes. Each is announced in the journal before it is made and
// confirmed afterwards, a line each.
type Writer struct {
	Backend storage.Backend
	Out     io.Writer

	mu   sync.Mutex
	once atomic.Int64 // the next item that is written once, like a code that is redeemed
}

// Run writes until the first write fails, and returns its error, or until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w.once.Store(time.Now().UnixNano())
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := w.write(ctx); err != nil {
					stop(err)
				}
			}
		})
	}
	for range 2 {
		all.Go(func() { w.watch(ctx, stop) })
	}
	all.Wait()
	return context.Cause(ctx)
}

// watch reads while others write: what it was told must be there afterwards.
func (w *Writer) watch(ctx context.Context, stop func(error)) {
	saw := map[string]storage.Version{}
	for ctx.Err() == nil {
		key := fmt.Sprintf("key/%d", mathrand.IntN(keys))
		switch item, err := w.Backend.Get(ctx, key); {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			stop(err)
		case item.Version != saw[key]:
			saw[key] = item.Version
			w.line(fmt.Sprintf("saw %s %x\n", key, item.Version))
		}
		runtime.Gosched()
	}
}

func (w *Writer) write(ctx context.Context) error {
	switch mathrand.IntN(8) {
	case 0: // something that ends soon, and is removed in the background
		return w.put(ctx, storage.Put{Key: "short/" + rand.Text(), Data: make([]byte, 300), TTL: time.Millisecond})
	case 1: // many want to be the first
		return w.swap(ctx, fmt.Sprintf("once/%d", w.once.Add(1)/writers))
	case 2:
		return w.Backend.IndexRemove(ctx, index, "gone "+rand.Text())
	}
	return w.swap(ctx, fmt.Sprintf("key/%d", mathrand.IntN(keys)))
}

func (w *Writer) put(ctx context.Context, put storage.Put) error {
	_, _ = rand.Read(put.Operation[:]) // never fails
	_, err := w.Backend.Put(ctx, put)
	return err
}

// swap replaces the item under a key if nobody else does.
func (w *Writer) swap(ctx context.Context, key string) error {
	present, err := w.Backend.Get(ctx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	put := storage.Put{Key: key, If: storage.Unchanged(present.Version)}
	_, _ = rand.Read(put.Operation[:]) // never fails
	name := hex.EncodeToString(put.Operation[:])
	put.Data, put.Listed = value(name), []storage.Listing{{Index: index, Entry: name}}
	line := fmt.Sprintf("%s %x %s\n", key, present.Version, name)
	w.line("try " + line)
	switch _, err := w.Backend.Put(ctx, put); {
	case errors.Is(err, storage.ErrConflict):
		return nil
	case err != nil:
		return err
	}
	w.line("did " + line)
	return nil
}

func value(name string) []byte {
	return []byte(strings.Repeat(name, 1+int(name[0])%16*int(name[1])%16))
}

func (w *Writer) line(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.Out, line) // whoever reads has ended the process, or is about to
}

// Journal is what was tried, what was acknowledged, and what was read.
type Journal struct {
	before map[string]string          // version → the one that it was to replace
	known  map[string]map[string]bool // key → versions that somebody was told of
	winner map[string]string          // key and version → what replaced it
	count  int
}

// New returns an empty journal.
func New() *Journal {
	return &Journal{before: map[string]string{}, known: map[string]map[string]bool{}, winner: map[string]string{}}
}

// told adds a version that somebody was told of: it must be there from now on, or what came after it.
func (j *Journal) told(key, version string) {
	if strings.Trim(version, "0") == "" {
		return // there was none
	}
	if j.known[key] == nil {
		j.known[key] = map[string]bool{}
	}
	j.known[key][version] = true
}

// Acknowledged returns how many writes were acknowledged.
func (j *Journal) Acknowledged() int { return j.count }

// Read adds lines of a [Writer] until the end. The last line may be cut off. Two writes that
// replaced the same item are an error. Other lines are returned.
func (j *Journal) Read(in io.Reader) (others []string, err error) {
	lines := bufio.NewReader(in)
	for {
		line, end := lines.ReadString('\n')
		if end != nil {
			return others, err
		}
		f := strings.Fields(line)
		switch {
		case len(f) == 4 && f[0] == "try":
			j.before[f[3]] = f[2]
			j.told(f[1], f[2])
		case len(f) == 4 && f[0] == "did":
			j.count++
			j.told(f[1], f[3])
			if other, both := j.winner[f[1]+f[2]]; both {
				err = fmt.Errorf("%s: both %s and %s replaced %s", f[1], other, f[3], f[2])
			}
			j.winner[f[1]+f[2]] = f[3]
		case len(f) == 3 && f[0] == "saw":
			j.told(f[1], f[2])
		default:
			others = append(others, strings.TrimSpace(line))
		}
	}
}

// Check compares a store with the journal: under each key is the last item that was acknowledged or
// read, or one that was tried after it, and every index entry is there.
func (j *Journal) Check(ctx context.Context, b storage.Backend) error {
	listed, err := entries(ctx, b)
	if err != nil {
		return err
	}
	for key, versions := range j.known {
		item, err := b.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("%s: %w, after %d versions that were known", key, err, len(versions))
		}
		name := hex.EncodeToString(item.Version[:])
		if string(item.Data) != string(value(name)) {
			return fmt.Errorf("%s: version %s has another one's value", key, name)
		}
		past := map[string]bool{}
		for at, known := name, true; known && !past[at]; at, known = j.previous(at) {
			past[at] = true
		}
		for v := range versions {
			if !past[v] {
				return fmt.Errorf("%s: %s was acknowledged or read, and %s, which is there, does not come after it", key, v, name)
			}
			if !listed[v] {
				return fmt.Errorf("%s: the entry of %s is lost", key, v)
			}
		}
	}
	return nil
}

func (j *Journal) previous(version string) (string, bool) {
	before, known := j.before[version]
	return before, known
}

func entries(ctx context.Context, b storage.Backend) (map[string]bool, error) {
	all, last := map[string]bool{}, ""
	for {
		page, err := b.IndexPage(ctx, index, last, 1000)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, entry := range page {
			all[entry] = true
		}
		last = page[len(page)-1]
	}
	if n, err := b.IndexLen(ctx, index); err != nil || n != len(all) {
		return nil, fmt.Errorf("the index has %d entries, and its number is %d: %w", len(all), n, err)
	}
	return all, nil
}
