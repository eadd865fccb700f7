package file

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

// A stored item is the version of its write (16 bytes), its end and the time under which it is in
// the bucket expiry (milliseconds since 1970, 8 bytes each, zero for none), and the data.
const itemHeader = 16 + 8 + 8

type stored struct {
	storage.Item
	ends, queued uint64
}

// decodeItem reads a stored item. Its data is valid during the transaction only.
func decodeItem(raw []byte) (stored, error) {
	if len(raw) < itemHeader {
		return stored{}, fmt.Errorf("storage/file: %w: an item has %d bytes", storage.ErrRecord, len(raw))
	}
	s := stored{ends: binary.BigEndian.Uint64(raw[16:]), queued: binary.BigEndian.Uint64(raw[24:])}
	copy(s.Version[:], raw)
	s.Data = raw[itemHeader:]
	return s, nil
}

func (s stored) encode() []byte {
	raw := make([]byte, 0, itemHeader+len(s.Data))
	raw = append(raw, s.Version[:]...)
	raw = binary.BigEndian.AppendUint64(raw, s.ends)
	raw = binary.BigEndian.AppendUint64(raw, s.queued)
	return append(raw, s.Data...)
}

func (s stored) over(now time.Time) bool { return s.ends != 0 && uint64(now.UnixMilli()) >= s.ends }

// item returns the live item under a key, or the zero value.
func item(tx *bolt.Tx, key string, now time.Time) (stored, error) {
	raw := tx.Bucket(itemBucket).Get([]byte(key))
	if raw == nil {
		return stored{}, nil
	}
	s, err := decodeItem(raw)
	if err != nil || !s.over(now) {
		return s, err
	}
	return stored{}, nil
}

// queuedItem returns the time under which the item of a key is queued, over or not.
func queuedItem(tx *bolt.Tx, key string) uint64 {
	s, err := decodeItem(tx.Bucket(itemBucket).Get([]byte(key)))
	if err != nil {
		return 0
	}
	return s.queued
}

// expiryKey is a time followed by the key of an item.
func expiryKey(at uint64, key string) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(key)), at), key...)
}

// store puts an item. Most items are written again before they end, each time with a later end, so
// the bucket expiry keeps the first end and the sweep looks for the present one then.
func store(tx *bolt.Tx, key string, s stored) error {
	s.queued = queuedItem(tx, key)
	if s.ends != 0 && (s.queued == 0 || s.ends < s.queued) {
		s.queued = s.ends
		if err := tx.Bucket(expiryBucket).Put(expiryKey(s.queued, key), nil); err != nil {
			return err
		}
	}
	return tx.Bucket(itemBucket).Put([]byte(key), s.encode())
}

// remove removes an item. Its place in the queue is removed with it.
func remove(tx *bolt.Tx, key string) error {
	if queued := queuedItem(tx, key); queued != 0 {
		if err := tx.Bucket(expiryBucket).Delete(expiryKey(queued, key)); err != nil {
			return err
		}
	}
	return tx.Bucket(itemBucket).Delete([]byte(key))
}
