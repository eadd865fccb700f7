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
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// past is what a file had after each of some transactions, and what is in it after the last.
type past struct {
	images [][]byte
	want   everything
}

// history changes a file, one transaction after the other: items of every size are replaced, made and
// removed, with entries in indexes.
func history(t *testing.T, path string, transactions, keys int) (p past) {
	t.Helper()
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range transactions {
		err := b.Delete(t.Context(), fmt.Sprint("key ", mathrand.IntN(keys)))
		for n := range 3 {
			put := storage.Put{
				Key: fmt.Sprint("key ", mathrand.IntN(keys)), Data: bytes.Repeat([]byte{byte(i)}, 100+mathrand.IntN(3)*3000),
				If: storage.Always, Operation: storage.Version{2, byte(i), byte(n)}, TTL: time.Hour,
				Listed: []storage.Listing{{Index: fmt.Sprint("index ", n), Entry: fmt.Sprint("another entry ", i, n)}},
			}
			_, putErr := b.Put(t.Context(), put)
			err = errors.Join(err, putErr)
		}
		err = errors.Join(err, b.IndexRemove(t.Context(), "index 1", fmt.Sprint("another entry ", i-3, 1)))
		image, readErr := os.ReadFile(path)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		p.images = append(p.images, bytes.Clone(image[:pagesOf(image)*pageSize]))
	}
	if p.want, err = contentOf(t, b); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// uses changes one item of a page of its own, as a code that is issued and redeemed.
func uses(t *testing.T, path string) (p past) {
	t.Helper()
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		err := use(t, b, byte(i))
		image, readErr := os.ReadFile(path)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		p.images = append(p.images, bytes.Clone(image[:pagesOf(image)*pageSize]))
	}
	p.want, err = contentOf(t, b)
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

func use(t *testing.T, b storage.Backend, n byte) error {
	t.Helper()
	put := storage.Put{Key: "code", Data: bytes.Repeat([]byte{n}, 2000), If: storage.Always, Operation: storage.Version{2, n}}
	_, err := b.Put(t.Context(), put)
	return err
}

// freePages returns the numbers of the pages of a file that nothing uses.
func freePages(t *testing.T, image []byte) map[int]bool {
	t.Helper()
	path := filepath.Join(memory(t), "image")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	free := map[int]bool{}
	err = db.View(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			free[id] = page.Type == "free"
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// TestLostWrites: if the disk lost the write of any one page, so that the page of an earlier time is
// in its place, opening says so, unless nothing uses the page. A root that counts is a page as well;
// only the loss of the very last one cannot be told from a crash before that transaction.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	t.Run("one item, whose page fits in the place of a later one", func(t *testing.T) {
		path := filepath.Join(memory(t), "gatehouse.db")
		lostWrites(t, path, uses(t, path))
	})
	t.Run("many pages", func(t *testing.T) {
		path := filepath.Join(memory(t), "gatehouse.db")
		sample(t, path)
		lostWrites(t, path, history(t, path, 8, 100))
	})
}

func lostWrites(t *testing.T, path string, p past) {
	t.Helper()
	now := p.images[len(p.images)-1]
	free, lost, unused := freePages(t, now), 0, 0
	for _, before := range p.images[:len(p.images)-1] {
		for page := range min(pagesOf(now), pagesOf(before)) {
			from, to := page*pageSize, (page+1)*pageSize
			if bytes.Equal(before[from:to], now[from:to]) || free[page] && mathrand.IntN(8) > 0 {
				continue
			}
			data := bytes.Clone(now)
			copy(data[from:to], before[from:to])
			if page == rootThatCounts(now) && number(data, page)+2 == number(now, page) {
				continue // as after a crash before the last transaction
			}
			found := wasFound(t, path, data, p.want, fmt.Sprint("page ", page))
			if harmless := free[page]; found == harmless {
				t.Errorf("page %d, free: %t; found: %t", page, harmless, found)
			}
			if found {
				lost++
			} else {
				unused++
			}
		}
	}
	t.Log(lost, "lost writes found;", unused, "times the page was free")
	if lost < 30 {
		t.Error("too few pages were written")
	}
}

// pagesOf returns how many pages a file has; behind them nothing was written.
func pagesOf(image []byte) int {
	return int(binary.NativeEndian.Uint64(image[rootThatCounts(image)*pageSize+16+40:]))
}

// rootThatCounts returns the number of the root of the last transaction.
func rootThatCounts(image []byte) int {
	if number(image, 0) > number(image, 1) {
		return 0
	}
	return 1
}

// number returns the number of the transaction that wrote a root.
func number(image []byte, slot int) uint64 {
	return binary.NativeEndian.Uint64(image[slot*pageSize+16+48:])
}

// TestLostLastRoot: where the file was closed, the loss of any root loses nothing.
func TestLostLastRoot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory(t), "gatehouse.db")
	p := history(t, path, 2, 100)
	closed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := rootThatCounts(closed)
	// The last two transactions are the last change and the one of closing.
	copy(closed[page*pageSize:(page+1)*pageSize], p.images[1][page*pageSize:])
	if err := os.WriteFile(path, closed, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := file.Open(file.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got, err := contentOf(t, b); err != nil || !reflect.DeepEqual(got, p.want) {
		t.Errorf("the content is another one (%v)", err)
	}
}

// TestCopies: a copy that bbolt makes of a file has its roots in another order. It opens, and so does
// what a crash leaves after the first transactions.
func TestCopies(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	from, copied := filepath.Join(folder, "gatehouse.db"), filepath.Join(folder, "copy")
	for i := range 2 { // an even and an odd number of transactions
		b := openAt(t, folder)
		for n := range i + 1 {
			if err := use(t, b, byte(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		copyFile(t, from, copied)
		c, err := file.Open(file.Options{Path: copied})
		if err != nil {
			t.Fatal(err)
		}
		for n := range byte(3) {
			if err := use(t, c, 10+n); err != nil {
				t.Fatal(err)
			}
			image, err := os.ReadFile(copied)
			if err == nil {
				err = errors.Join(os.WriteFile(copied+".image", image, 0o600), file.Verify(copied+".image"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	db, err := bolt.Open(from, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bolt.Tx) error { return tx.CopyFile(to, 0o600) }); err != nil {
		t.Fatal(err)
	}
}
