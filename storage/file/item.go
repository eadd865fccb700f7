package file

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

// A stored item is the version of its write (16 bytes), its end and the time under which it is in
// the bucket expiry (milliseconds since 1970, 8 bytes each, zero for none), the data, and the
// checksum.
const itemHeader = 16 + 8 + 8

type stored struct {
	storage.Item
	ends, queued uint64
}

// decodeItem reads the stored item of a key. Its data is valid during the transaction only.
func decodeItem(key, raw []byte) (stored, error) {
	raw, err := checked(itemBucket, key, raw)
	if err != nil {
		return stored{}, err
	}
	if len(raw) < itemHeader {
		return stored{}, fmt.Errorf("%w: an item has %d bytes", ErrDamaged, len(raw))
	}
	s := stored{ends: binary.BigEndian.Uint64(raw[16:]), queued: binary.BigEndian.Uint64(raw[24:])}
	copy(s.Version[:], raw)
	s.Data = raw[itemHeader:]
	return s, nil
}

// encode returns the value of an item in its bucket, without the checksum.
func (s stored) encode() []byte {
	raw := make([]byte, 0, itemHeader+len(s.Data)+sumSize)
	raw = append(raw, s.Version[:]...)
	raw = binary.BigEndian.AppendUint64(raw, s.ends)
	raw = binary.BigEndian.AppendUint64(raw, s.queued)
	return append(raw, s.Data...)
}

func (s stored) over(now time.Time) bool { return s.ends != 0 && uint64(now.UnixMilli()) >= s.ends }

// present returns the item under a key, over or not, or the zero value.
func present(tx *bolt.Tx, key []byte) (stored, error) {
	raw := tx.Bucket(itemBucket).Get(key)
	if raw == nil {
		return stored{}, nil
	}
	return decodeItem(key, raw)
}

// item returns the live item under a key, or the zero value.
func item(tx *bolt.Tx, key string, now time.Time) (stored, error) {
	s, err := present(tx, []byte(key))
	if err != nil || !s.over(now) {
		return s, err
	}
	return stored{}, nil
}

// expiryKey is a time followed by the key of an item.
func expiryKey(at uint64, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(key)), at), key...)
}

// enqueue puts the key of an item into the bucket expiry.
func enqueue(tx *bolt.Tx, at uint64, key []byte) error {
	return putValue(tx, expiryBucket, expiryKey(at, key), nil)
}

// store puts an item. Most items are written again before they end, each time with a later end, so
// the bucket expiry keeps the first end and the sweep looks for the present one then.
func store(tx *bolt.Tx, key string, s stored) error {
	name := []byte(key)
	before, err := present(tx, name)
	if err != nil {
		return err
	}
	if s.queued = before.queued; s.ends != 0 && (s.queued == 0 || s.ends < s.queued) {
		s.queued = s.ends
		if err := enqueue(tx, s.queued, name); err != nil {
			return err
		}
	}
	return putValue(tx, itemBucket, name, s.encode())
}

// remove removes an item. Its place in the queue is removed with it.
func remove(tx *bolt.Tx, key string) error {
	name := []byte(key)
	s, err := present(tx, name)
	if err != nil {
		return err
	}
	if s.queued != 0 {
		if err := dropValue(tx, expiryBucket, expiryKey(s.queued, name)); err != nil {
			return err
		}
	}
	return dropValue(tx, itemBucket, name)
}
