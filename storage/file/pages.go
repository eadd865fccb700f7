package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of bbolt's pages, in the byte order of the machine. Each page begins with its number
// (8 bytes), its kind (2), the number of its elements (2), and the number of pages that it
// continues on (4).
const (
	pageHeader   = 16
	elementSize  = 16
	branchPage   = 0x01
	leafPage     = 0x02
	rootPage     = 0x04
	freePage     = 0x10
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	rootSize     = 64
	bucketHeader = 16
	bucketFlag   = 0x01
)

var order = binary.NativeEndian

// damaged returns an [ErrDamaged].
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// root is one of the two roots of the file, of which the one with the higher number counts.
type root struct {
	pageSize, top, free, pages, number uint64
	torn                               bool // it was being written when the machine crashed
	clean                              bool // the file was closed: both roots lead to the same state
}

// readRoot reads the root in a slot. Without a checksum that fits, it is torn: it was being written
// when the machine crashed. A root of which more is wrong than that is damaged.
func readRoot(file io.ReaderAt, at int64, slot uint64) (r root, err error) {
	page := make([]byte, pageHeader+rootSize)
	if _, err := file.ReadAt(page, at); err != nil {
		return root{}, damaged("it ends before root %d", slot)
	}
	body := page[pageHeader:]
	if order.Uint32(body) != boltMagic {
		return root{}, damaged("it does not begin like a store: it is another program's, or its beginning was overwritten")
	}
	if v := order.Uint32(body[4:]); v != boltVersion {
		return root{}, fmt.Errorf("version %d of its layout is not known to this program", v)
	}
	if order.Uint64(page) != slot || order.Uint16(page[8:]) != rootPage || order.Uint32(body[12:]) != 0 {
		return root{}, damaged("root %d is not a root", slot)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(body[:56])
	return root{
		pageSize: uint64(order.Uint32(body[8:])), top: order.Uint64(body[16:]), free: order.Uint64(body[32:]),
		pages: order.Uint64(body[40:]), number: order.Uint64(body[48:]), torn: hash.Sum64() != order.Uint64(body[56:]),
	}, nil
}

// readRoots returns the root that counts.
func readRoots(file io.ReaderAt, size int64) (root, error) {
	first, err := readRoot(file, 0, 0)
	if err != nil {
		return root{}, err
	}
	pageSize := first.pageSize
	if pageSize < 1024 || pageSize > 1<<16 || pageSize&(pageSize-1) != 0 {
		return root{}, damaged("its pages have %d bytes", pageSize)
	}
	second, err := readRoot(file, int64(pageSize), 1)
	if err != nil {
		return root{}, err
	}
	counts, err := countingRoot(first, second)
	if err == nil && (counts.pages < 4 || counts.pages > uint64(size)/pageSize) {
		err = damaged("it has %d bytes, and its %d pages of %d need more", size, counts.pages, pageSize)
	}
	return counts, err
}

// rootsFollow reports whether one of two roots is of the transaction after the other, as each
// transaction writes the slot of its parity. In a copy that bbolt makes of an open file, the first
// slot has the later root whatever its parity, so the second one may be written a transaction late.
func rootsFollow(first, second root) bool {
	late := second.number%2 == 0 && first.number == second.number+2
	return first.number+1 == second.number || second.number+1 == first.number || late
}

// countingRoot returns the later of two roots that is not torn.
func countingRoot(first, second root) (root, error) {
	switch {
	case first.torn && second.torn:
		return root{}, damaged("both roots are torn")
	case second.pageSize != first.pageSize:
		return root{}, damaged("its roots differ in the size of pages")
	case first.torn:
		return second, nil
	case second.torn:
		return first, nil
	case !rootsFollow(first, second):
		return root{}, damaged("its roots are %d and %d: the disk lost a write, or a copy was put back", first.number, second.number)
	}
	clean := first.top == second.top
	if second.number > first.number {
		first = second
	}
	first.clean = clean
	return first, nil
}

// element is an element of a page: of a branch, the first key and the number of the page below; of
// a leaf, a key and its value.
type element struct {
	key, value []byte
	flags      uint32
	below      uint64
}

// elements returns the elements of a branch or leaf. bbolt writes keys and values one after the
// other behind the elements, so each one's place is known.
func elements(page []byte) (func(yield func(element, error) bool), bool) {
	kind, n := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	leaf := kind == leafPage
	return func(yield func(element, error) bool) {
		next := uint64(pageHeader + n*elementSize)
		if next > uint64(len(page)) {
			yield(element{}, damaged("a page has %d elements", n))
			return
		}
		var before []byte
		for i := range n {
			at := pageHeader + i*elementSize
			e, end, err := readElement(page, at, next, leaf)
			if err == nil && i > 0 && bytes.Compare(before, e.key) >= 0 {
				err = damaged("the keys of a page are not in order")
			}
			if !yield(e, err) || err != nil {
				return
			}
			before, next = e.key, end
		}
	}, leaf
}

func readElement(page []byte, at int, want uint64, leaf bool) (e element, end uint64, err error) {
	head := page[at : at+elementSize]
	var place, keySize, valueSize uint64
	if leaf {
		e.flags = order.Uint32(head)
		place, keySize, valueSize = uint64(order.Uint32(head[4:])), uint64(order.Uint32(head[8:])), uint64(order.Uint32(head[12:]))
	} else {
		place, keySize = uint64(order.Uint32(head)), uint64(order.Uint32(head[4:]))
		e.below = order.Uint64(head[8:])
	}
	place += uint64(at)
	end = place + keySize + valueSize
	if place != want || keySize == 0 || end > uint64(len(page)) || e.flags&^bucketFlag != 0 {
		return element{}, 0, damaged("an element of a page is not where it belongs")
	}
	e.key, e.value = page[place:place+keySize:place+keySize], page[place+keySize:end:end]
	return e, end, nil
}
