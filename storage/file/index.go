package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// entryKey is the length of an index's name (2 bytes), the name, and the entry. So the entries of
// one index follow each other in order, and no index begins another one.
func entryKey(index, entry string) ([]byte, error) {
	if len(index) == 0 || len(index)+len(entry)+2 > bolt.MaxKeySize {
		return nil, fmt.Errorf("storage/file: an index of %d bytes cannot have an entry of %d", len(index), len(entry))
	}
	key := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(index)+len(entry)), uint16(len(index)))
	return append(append(key, index...), entry...), nil
}

func addEntry(tx *bolt.Tx, index, entry string) error {
	key, err := entryKey(index, entry)
	if err != nil {
		return err
	}
	if tx.Bucket(entryBucket).Get(key) != nil {
		return nil
	}
	if err := putValue(tx, entryBucket, key, nil); err != nil {
		return err
	}
	return count(tx, index, +1)
}

func removeEntry(tx *bolt.Tx, index, entry string) error {
	key, err := entryKey(index, entry)
	if err != nil {
		return err
	}
	if tx.Bucket(entryBucket).Get(key) == nil {
		return nil
	}
	if err := dropValue(tx, entryBucket, key); err != nil {
		return err
	}
	return count(tx, index, -1)
}

// count adds to the number of entries of an index, which is not there when it is zero.
func count(tx *bolt.Tx, index string, by int64) error {
	n, err := countOf(tx, index)
	if err != nil {
		return err
	}
	if n += by; n <= 0 {
		return dropValue(tx, countBucket, []byte(index))
	}
	return putValue(tx, countBucket, []byte(index), binary.BigEndian.AppendUint64(make([]byte, 0, 8+sumSize), uint64(n)))
}

func countOf(tx *bolt.Tx, index string) (int64, error) {
	key := []byte(index)
	raw := tx.Bucket(countBucket).Get(key)
	if raw == nil {
		return 0, nil
	}
	return decodeCount(key, raw)
}

func decodeCount(index, raw []byte) (int64, error) {
	raw, err := checked(countBucket, index, raw)
	if err != nil {
		return 0, err
	}
	if len(raw) != 8 {
		return 0, fmt.Errorf("%w: a number has %d bytes", ErrDamaged, len(raw))
	}
	return int64(binary.BigEndian.Uint64(raw)), nil
}

// entryOf returns the entry of a key, after the prefix of its index.
func entryOf(prefix, key, value []byte) (string, error) {
	if _, err := checked(entryBucket, key, value); err != nil {
		return "", err
	}
	return string(key[len(prefix):]), nil
}

// IndexAdd adds an entry to an index.
func (b *Backend) IndexAdd(ctx context.Context, index, entry string) error {
	if _, err := entryKey(index, entry); err != nil {
		return err
	}
	return b.change(ctx, func(tx *bolt.Tx) error { return addEntry(tx, index, entry) })
}

// IndexRemove removes an entry from an index.
func (b *Backend) IndexRemove(ctx context.Context, index, entry string) error {
	if _, err := entryKey(index, entry); err != nil {
		return err
	}
	return b.changeAnyway(ctx, func(tx *bolt.Tx) error { return removeEntry(tx, index, entry) })
}

// IndexPage returns up to limit entries after one; see [storage.Backend].
func (b *Backend) IndexPage(ctx context.Context, index, after string, limit int) (page []string, err error) {
	prefix, err := entryKey(index, "")
	if err != nil {
		return nil, err
	}
	from, err := entryKey(index, after)
	if err != nil {
		return nil, err
	}
	err = b.view(ctx, func(tx *bolt.Tx) error {
		cursor := tx.Bucket(entryBucket).Cursor()
		key, value := cursor.Seek(from)
		if bytes.Equal(key, from) {
			key, value = cursor.Next()
		}
		page, err = entriesFrom(key, value, prefix, limit, cursor.Next)
		return err
	})
	return page, err
}

// IndexPageBefore returns up to limit entries before one, from the end; see [storage.Backend].
func (b *Backend) IndexPageBefore(ctx context.Context, index, before string, limit int) (page []string, err error) {
	prefix, err := entryKey(index, "")
	if err != nil {
		return nil, err
	}
	end := following(prefix)
	if before != "" {
		if end, err = entryKey(index, before); err != nil {
			return nil, err
		}
	}
	err = b.view(ctx, func(tx *bolt.Tx) error {
		cursor := tx.Bucket(entryBucket).Cursor()
		last := cursor.Prev
		if key, _ := cursor.Seek(end); key == nil {
			last = cursor.Last
		}
		key, value := last()
		page, err = entriesFrom(key, value, prefix, limit, cursor.Prev)
		return err
	})
	return page, err
}

// entriesFrom returns the entries of an index from a key on, in the order of next.
func entriesFrom(key, value, prefix []byte, limit int, next func() (key, value []byte)) (page []string, err error) {
	for bytes.HasPrefix(key, prefix) && len(page) < limit {
		entry, err := entryOf(prefix, key, value)
		if err != nil {
			return nil, err
		}
		page = append(page, entry)
		key, value = next()
	}
	return page, nil
}

// following returns the first string in byte order after all that begin with a prefix. The first
// byte of an [entryKey] is never the greatest one, so there always is such a string.
func following(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	for i := len(next) - 1; ; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
}

// IndexLen returns how many entries an index has.
func (b *Backend) IndexLen(ctx context.Context, index string) (n int, err error) {
	err = b.view(ctx, func(tx *bolt.Tx) error {
		of, err := countOf(tx, index)
		n = int(of)
		return err
	})
	return n, err
}

// Scan returns some keys of items; the cursor is the last of them.
func (b *Backend) Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error) {
	return b.keysIn(ctx, itemBucket, prefix, cursor, limit)
}

// Indexes returns some names of indexes as [Backend.Scan] does keys; see [storage.IndexLister].
func (b *Backend) Indexes(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error) {
	return b.keysIn(ctx, countBucket, prefix, cursor, limit)
}

// keysIn returns some keys of a bucket; the cursor is the last of them.
func (b *Backend) keysIn(ctx context.Context, bucket []byte, prefix, cursor string, limit int) (keys []string, next string, err error) {
	err = b.view(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		from := max(prefix, cursor)
		key, _ := c.Seek([]byte(from))
		if cursor != "" && string(key) == cursor {
			key, _ = c.Next()
		}
		for ; bytes.HasPrefix(key, []byte(prefix)) && key != nil; key, _ = c.Next() {
			if len(keys) >= max(limit, 1) {
				next = keys[len(keys)-1]
				return nil
			}
			keys = append(keys, string(key))
		}
		return nil
	})
	return keys, next, err
}
