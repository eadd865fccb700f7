package file

import (
	"bytes"
	"fmt"
	"io"
)

// maxDepth is more levels than a tree of a file of [maxSize] can have.
const maxDepth = 40

// walker reads every page of a file once. It trusts no number in the file, so it ends.
type walker struct {
	file    io.ReaderAt
	root    root
	seen    []uint64 // one bit for each page
	number  uint64   // of pages that were seen
	buffers [maxDepth][]byte
	told    func(done int64) // is told how many bytes were seen
}

func newWalker(file io.ReaderAt, r root) *walker {
	w := &walker{file: file, root: r, seen: make([]uint64, r.pages/64+1)}
	w.seen[0], w.number = 3, 2 // the roots
	return w
}

// mark marks pages as seen. No page is there twice.
func (w *walker) mark(page, n uint64) error {
	if page < 2 || page >= w.root.pages || n > w.root.pages-page {
		return damaged("page %d does not exist", page)
	}
	for id := page; id < page+n; id++ {
		if bit := uint64(1) << (id % 64); w.seen[id/64]&bit != 0 {
			return damaged("page %d is used twice", id)
		} else {
			w.seen[id/64] |= bit
		}
	}
	if w.number += n; w.told != nil && w.number%1024 < n {
		w.told(int64(w.number * w.root.pageSize))
	}
	return nil
}

// read reads a page with those that it continues on, and marks them.
func (w *walker) read(id uint64, buffer []byte, kinds uint16) ([]byte, error) {
	size := w.root.pageSize
	if id < 2 || id >= w.root.pages {
		return buffer, damaged("page %d does not exist", id)
	}
	if uint64(cap(buffer)) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := w.file.ReadAt(buffer, int64(id*size)); err != nil {
		return buffer, damaged("page %d cannot be read: %v", id, err)
	}
	kind, more := order.Uint16(buffer[8:]), uint64(order.Uint32(buffer[12:]))
	if order.Uint64(buffer) != id || kind&kinds == 0 || kind&(kind-1) != 0 {
		return buffer, damaged("page %d is not what another one says", id)
	}
	if err := w.mark(id, more+1); err != nil {
		return buffer, err
	}
	if more > 0 {
		first := buffer
		buffer = make([]byte, (more+1)*size)
		copy(buffer, first)
		if _, err := w.file.ReadAt(buffer[size:], int64((id+1)*size)); err != nil {
			return buffer, damaged("page %d cannot be read: %v", id+1, err)
		}
	}
	return buffer, nil
}

// walk visits the elements of the leaves below a page in order. Their keys are at least low and,
// if there is a limit, less than high.
func (w *walker) walk(id uint64, depth int, low, high []byte, visit func(element) error) (err error) {
	if depth == maxDepth {
		return damaged("page %d is too deep", id)
	}
	page, err := w.read(id, w.buffers[depth], branchPage|leafPage)
	w.buffers[depth] = page
	if err != nil {
		return err
	}
	all, leaf := elements(page)
	if leaf {
		if err := visitLeaf(all, low, high, visit); err != nil {
			return fmt.Errorf("%w (on page %d)", err, id)
		}
		return nil
	}
	before, n := element{}, 0
	for e, err := range all {
		if err == nil {
			err = within(e.key, low, high)
		}
		if err == nil && n > 0 {
			err = w.walk(before.below, depth+1, before.key, e.key, visit)
		}
		if err != nil {
			return err
		}
		before = e
		n++
	}
	if n == 0 {
		return damaged("page %d leads nowhere", id)
	}
	return w.walk(before.below, depth+1, before.key, high, visit)
}

func visitLeaf(all func(func(element, error) bool), low, high []byte, visit func(element) error) error {
	for e, err := range all {
		if err == nil {
			err = within(e.key, low, high)
		}
		if err == nil {
			err = visit(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func within(key, low, high []byte) error {
	if bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
		return damaged("a key is on the wrong page")
	}
	return nil
}

// bucket visits the elements of a bucket, which a small one has in its value. None is a bucket.
func (w *walker) bucket(value []byte, each func(element) error) error {
	visit := func(e element) error {
		if e.flags != 0 {
			return damaged("a value says that it is a part")
		}
		return each(e)
	}
	if len(value) < bucketHeader {
		return damaged("a part has %d bytes", len(value))
	}
	if top := order.Uint64(value); top != 0 {
		return w.walk(top, 1, nil, nil, visit)
	}
	page := value[bucketHeader:]
	if len(page) < pageHeader || order.Uint16(page[8:]) != leafPage || order.Uint64(page) != 0 {
		return damaged("a small part is not a page")
	}
	all, _ := elements(page)
	return visitLeaf(all, nil, nil, visit)
}

// free marks the free pages. With them, every page is either used or free.
func (w *walker) free() error {
	page, err := w.read(w.root.free, nil, freePage)
	if err != nil {
		return err
	}
	ids, n := page[pageHeader:], uint64(order.Uint16(page[10:]))
	if n == 0xFFFF { // the number is too great for the header
		n, ids = order.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids))/8 {
		return damaged("the list of free pages has %d entries", n)
	}
	for i := range n {
		if err := w.mark(order.Uint64(ids[i*8:]), 1); err != nil {
			return err
		}
	}
	if w.number != w.root.pages {
		return damaged("%d pages are neither used nor free", w.root.pages-w.number)
	}
	return nil
}
