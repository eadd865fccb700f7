package file_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

const pageSize = 4096

// everything is what a store has.
type everything struct {
	Items   map[string]storage.Item
	Entries map[string][]string
	Lens    map[string]int
}

// contentOf reads a store to the end.
func contentOf(t testing.TB, b storage.Backend) (everything, error) {
	all := everything{map[string]storage.Item{}, map[string][]string{}, map[string]int{}}
	cursor := ""
	for {
		keys, next, err := b.Scan(t.Context(), "", cursor, 1000)
		if err != nil {
			return all, err
		}
		items, err := b.GetMany(t.Context(), keys)
		if err != nil {
			return all, err
		}
		for i, key := range keys {
			all.Items[key] = items[i]
		}
		if cursor = next; next == "" {
			break
		}
	}
	for i := range 3 {
		index := fmt.Sprint("index ", i)
		page, err := b.IndexPage(t.Context(), index, "", 10000)
		n, countErr := b.IndexLen(t.Context(), index)
		if err := errors.Join(err, countErr); err != nil {
			return all, err
		}
		all.Entries[index], all.Lens[index] = page, n
	}
	return all, nil
}

// samples is how many items a sample has: no more than every kind of page needs, because tests copy
// the file for each damage.
const samples = 200

// sample makes a file with every kind of page: roots, free pages, branches, leaves, and values that
// take more than a page.
func sample(t testing.TB, path string) everything {
	t.Helper()
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range samples {
		go func() {
			put := storage.Put{Key: fmt.Sprint("key ", i), Data: bytes.Repeat([]byte{byte(i)}, 100+i%7*50), Operation: storage.Version{1, byte(i), byte(i >> 8)}}
			put.Listed = []storage.Listing{{Index: fmt.Sprint("index ", i%3), Entry: fmt.Sprint("a long entry, so that there are many pages, ", i)}}
			if i%3 == 0 {
				put.TTL = time.Hour
			}
			if i%50 == 0 {
				put.Data = bytes.Repeat(put.Data, 100)
			}
			_, err := b.Put(t.Context(), put)
			if i%4 == 0 {
				err = errors.Join(err, b.Delete(t.Context(), put.Key))
			}
			errs <- err
		}()
	}
	for range samples {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	all, err := contentOf(t, b)
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// damages are the ways to damage a page of a file.
var damages = map[string]func(data, page []byte){
	"zeroed":             func(_, page []byte) { clear(page) },
	"its end zeroed":     func(_, page []byte) { clear(page[len(page)/2:]) },
	"its middle zeroed":  func(_, page []byte) { clear(page[512:1024]) },
	"its header zeroed":  func(_, page []byte) { clear(page[:16]) },
	"random":             func(_, page []byte) { fillRandomly(page) },
	"random behind":      func(_, page []byte) { fillRandomly(page[16:]) },
	"one bit":            func(_, page []byte) { page[mathrand.IntN(len(page))] ^= 1 << mathrand.IntN(8) },
	"one bit of header":  func(_, page []byte) { page[mathrand.IntN(16)] ^= 1 << mathrand.IntN(8) },
	"one bit of element": func(_, page []byte) { page[16+mathrand.IntN(64)] ^= 1 << mathrand.IntN(8) },
	"another page":       func(data, page []byte) { copy(page, anyPage(data)) },
	"another page that says it is this one": func(data, page []byte) {
		id := bytes.Clone(page[:8])
		copy(page, anyPage(data))
		copy(page, id)
	},
	"an item that says it is a bucket": func(_, page []byte) { page[16] |= 1 },
	"a branch to itself": func(_, page []byte) {
		id := binary.NativeEndian.Uint64(page)
		clear(page[8:])
		page[8], page[10] = 1, 1 // a branch with one element
		binary.NativeEndian.PutUint32(page[16:], 16)
		binary.NativeEndian.PutUint32(page[20:], 1)
		binary.NativeEndian.PutUint64(page[24:], id)
	},
}

func fillRandomly(into []byte) {
	for i := range into {
		into[i] = byte(mathrand.Uint32())
	}
}

func anyPage(data []byte) []byte {
	at := mathrand.IntN(len(data)/pageSize) * pageSize
	return data[at : at+pageSize]
}

// TestDamaged: whatever page is damaged in whatever way, opening says so and names the file, or
// nothing that counts was damaged. It never hangs, and no content is another one.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory(t), "gatehouse.db")
	want := sample(t, path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good = good[:binary.NativeEndian.Uint64(good[16+40:])*pageSize] // behind that, nothing was written
	free, found, harmless := freePages(t, good), 0, 0
	for page := range len(good) / pageSize {
		if page > 20 && mathrand.IntN(4) > 0 || free[page] && mathrand.IntN(8) > 0 {
			continue // enough of each kind are left
		}
		for name, damage := range damages {
			data := bytes.Clone(good)
			damage(good, data[page*pageSize:(page+1)*pageSize])
			if wasFound(t, path, data, want, fmt.Sprint("page ", page, ", ", name)) {
				found++
			} else {
				harmless++
			}
			if t.Failed() {
				return
			}
		}
	}
	for size := 0; size < len(good); size += 1 + size/7 {
		wasFound(t, path, bytes.Clone(good[:size]), want, fmt.Sprint("cut to ", size))
	}
	t.Log("damage found ", found, " times; it was in free space ", harmless, " times")
	if found < harmless {
		t.Error("too little of the file counts")
	}
}

// wasFound reports whether the damage was found. If not, the content must be as before.
func wasFound(t *testing.T, path string, data []byte, want everything, what string) bool {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	err := file.Verify(path)
	if err == nil || mathrand.IntN(20) == 0 {
		var b *file.Backend
		if b, err = file.Open(file.Options{Path: path, Create: true}); err == nil {
			got, err := contentOf(t, b)
			if err := errors.Join(err, b.Close()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the content is another one (%v)", what, err)
			}
			return false
		}
		if after, readErr := os.ReadFile(path); readErr != nil || !bytes.Equal(after, data) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	if !errors.Is(err, file.ErrDamaged) && !strings.Contains(err.Error(), "not known") && !strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), path) {
		t.Errorf("%s: %v", what, err)
	}
	return true
}

// TestDamagedWhileOpen: what is overwritten under a server is an error of the read that meets it.
func TestDamagedWhileOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory(t), "gatehouse.db")
	want := sample(t, path)
	b, err := file.Open(file.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The values: every item is damaged, and nothing else is.
	hit := 0
	for key, item := range want.Items {
		at := bytes.Index(data, append([]byte(key), item.Version[:]...))
		for at >= 0 && at+len(key)+40 < len(data) {
			data[at+len(key)+33] ^= 1
			hit++
			next := bytes.Index(data[at+1:], append([]byte(key), item.Version[:]...))
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	overwrite(t, path, data)
	for key := range want.Items {
		if got, err := b.Get(t.Context(), key); !errors.Is(err, file.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Fatalf("Get(%q) returned %d bytes, %v", key, len(got.Data), err)
		}
		put := storage.Put{Key: key, If: storage.Always, Operation: storage.Version{9}}
		if _, err := b.Put(t.Context(), put); !errors.Is(err, file.ErrDamaged) {
			t.Fatalf("Put over a damaged item: %v", err)
		}
	}
	// All but the roots, then all.
	clear(data[2*pageSize:])
	overwrite(t, path, data)
	if _, err := b.Get(t.Context(), "key 1"); !errors.Is(err, file.ErrDamaged) {
		t.Errorf("Get without pages: %v", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, getErr := b.Get(t.Context(), "key 1")
		ended <- errors.Join(getErr, b.Delete(t.Context(), "key 1"), b.Close())
	}()
	if err := <-ended; err == nil {
		t.Error("a file that was cut to nothing is used")
	}
}

// overwrite writes into a file, which stays the same one.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(data, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
