package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"time"

	"gatehouse.example/storage"
)

// content is what a check learns about a file.
type content struct {
	format  string
	lineage storage.Lineage
	copied  time.Time // of a backup; see [Contents]
	items   int64
	seed    maphash.Seed
	entries tally // of what the bucket entries has
	counted tally // of what the bucket counts says
	index   []byte
	n       int64
	digest  digest // of what the buckets have
	last    digest // of what was written

	digested bool // it has one
}

// tally is the number of entries of indexes, whatever their order.
type tally struct {
	lists   int64
	entries int64
	indexes uint64
}

func (c *content) add(t *tally, index []byte, n int64) {
	t.lists++
	t.entries += n
	t.indexes += maphash.Bytes(c.seed, binary.BigEndian.AppendUint64(bytes.Clone(index), uint64(n)))
}

// progress is told how much of a check is done, in bytes.
type progress func(done, total int64)

// verify checks a file that is not written meanwhile.
func verify(opened *os.File, told progress) (*content, error) {
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	r, err := readRoots(opened, info.Size())
	if err != nil {
		return nil, err
	}
	used := int64(r.pages * r.pageSize)
	readAhead(opened, used, func(done int64) { told(done, 2*used) })
	c, w := &content{seed: maphash.MakeSeed()}, newWalker(opened, r)
	w.told = func(done int64) { told(used+done, 2*used) }
	parts, err := w.parts()
	if err != nil {
		return nil, err
	}
	if err := c.checkMeta(w, parts); err != nil {
		return nil, err
	}
	for name, check := range map[string]func(element) error{
		string(itemBucket): c.checkItem, string(expiryBucket): checkSum(expiryBucket),
		string(entryBucket): c.checkEntry, string(countBucket): c.checkCount,
	} {
		value, there := parts[name]
		if !there {
			return nil, damaged("the part %s is missing", name)
		}
		if err := w.bucket(value, c.summed([]byte(name), check)); err != nil {
			return nil, fmt.Errorf("%w (in the part %s)", err, name)
		}
	}
	c.endIndex()
	if c.entries != c.counted {
		return nil, damaged("the numbers of entries are wrong")
	}
	if err := w.free(); err != nil {
		return nil, err
	}
	if c.digest != c.last {
		return nil, damaged("a part of it is of an earlier time: the disk lost a write, or a copy was put back")
	}
	return c, nil
}

// summed checks the values of a bucket and adds them to the digest.
func (c *content) summed(bucket []byte, check func(element) error) func(element) error {
	return func(e element) error {
		c.digest.add(hashOf(bucket, e.key, e.value))
		return check(e)
	}
}

// readAhead reads a file once in its order on the disk, so that the walk, in the order of the tree,
// finds it in memory. Errors are left to the walk.
func readAhead(file io.ReaderAt, size int64, told func(done int64)) {
	if size > 8<<30 {
		return
	}
	buffer := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(buffer)) {
		if _, err := file.ReadAt(buffer[:min(size-at, int64(len(buffer)))], at); err != nil {
			return
		}
		told(at)
	}
}

// parts returns the buckets of the file.
func (w *walker) parts() (map[string][]byte, error) {
	parts := map[string][]byte{}
	err := w.walk(w.root.top, 0, nil, nil, func(e element) error {
		if e.flags&bucketFlag == 0 || len(parts) > len(buckets) {
			return errForeign
		}
		parts[string(e.key)] = bytes.Clone(e.value)
		return nil
	})
	return parts, err
}

var errForeign = errors.New("it belongs to another program")

// checkMeta checks the format, and reads the lineage.
func (c *content) checkMeta(w *walker, parts map[string][]byte) error {
	value, there := parts[string(metaBucket)]
	if !there {
		return errForeign
	}
	var unreadable error // in a later format, it may be only different
	err := w.bucket(value, func(e element) error {
		unreadable = cmp.Or(unreadable, c.aboutFile(e))
		return nil
	})
	switch {
	case err != nil:
		return err
	case c.format != "" && c.format != string(currentFormat):
		return fmt.Errorf("its format %.40q is not known to this program", c.format)
	case unreadable != nil:
		return unreadable
	case c.format == "":
		return damaged("its format is missing")
	case c.lineage == "":
		return damaged("its lineage is missing")
	case !c.digested:
		return damaged("its digest is missing")
	}
	return nil
}

// aboutFile reads an element of the bucket meta.
func (c *content) aboutFile(e element) (err error) {
	switch {
	case bytes.Equal(e.key, formatKey):
		c.format = string(e.value)
	case bytes.Equal(e.key, lineageKey):
		var lineage []byte
		lineage, err = checked(metaBucket, e.key, e.value)
		c.lineage = storage.Lineage(lineage)
	case bytes.Equal(e.key, digestKey):
		c.digested = true
		c.last, err = decodeDigest(e.value)
	case bytes.Equal(e.key, backupKey):
		c.copied, err = decodeMark(e.value)
	}
	return err
}

// checkItem checks an item. Its error names the kind of record, but never whose it is.
func (c *content) checkItem(e element) error {
	c.items++
	if _, err := decodeItem(e.key, e.value); err != nil {
		return fmt.Errorf("%w, under a key that begins with %.40q", err, kindOf(e.key))
	}
	return nil
}

// kindOf returns the beginning of a key, up to the id of its record.
func kindOf(key []byte) []byte {
	_, rest, _ := bytes.Cut(key, []byte(":"))
	_, id, found := bytes.Cut(rest, []byte(":"))
	if !found {
		return nil
	}
	return key[:len(key)-len(id)]
}

func checkSum(bucket []byte) func(element) error {
	return func(e element) error {
		_, err := checked(bucket, e.key, e.value)
		return err
	}
}

// checkEntry checks an entry of an index. Those of one index follow each other.
func (c *content) checkEntry(e element) error {
	if _, err := checked(entryBucket, e.key, e.value); err != nil {
		return err
	}
	if len(e.key) < 2 || len(e.key) < 2+int(binary.BigEndian.Uint16(e.key)) {
		return damaged("an entry has %d bytes", len(e.key))
	}
	if index := e.key[2 : 2+int(binary.BigEndian.Uint16(e.key))]; !bytes.Equal(index, c.index) {
		c.endIndex()
		c.index = append(c.index[:0], index...)
	}
	c.n++
	return nil
}

func (c *content) endIndex() {
	if c.n > 0 {
		c.add(&c.entries, c.index, c.n)
	}
	c.n = 0
}

func (c *content) checkCount(e element) error {
	n, err := decodeCount(e.key, e.value)
	if err == nil {
		c.add(&c.counted, e.key, n)
	}
	return err
}
