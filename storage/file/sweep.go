package file

import (
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The sweep removes items that are over, a few at a time, so that requests never wait for it for
// long. When a step found as many as it may remove, the next one follows at once.
const (
	sweepStep     = 128
	sweepInterval = time.Second
)

// housekeeping measures the disk and sweeps until ctx ends.
func (b *Backend) housekeeping(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.space.measure()
			for more := true; more && ctx.Err() == nil; {
				more = b.sweep(ctx) == sweepStep
			}
		case <-ctx.Done():
			return
		}
	}
}

// sweep looks at the items whose time has come, and returns how many it looked at. An item that was
// written again since is queued anew for its present end.
func (b *Backend) sweep(ctx context.Context) (looked int) {
	due := 0
	now := uint64(b.now().UnixMilli())
	if err := b.view(ctx, func(tx *bolt.Tx) error {
		if key, _ := tx.Bucket(expiryBucket).Cursor().First(); len(key) >= 8 && binary.BigEndian.Uint64(key) <= now {
			due++
		}
		return nil
	}); err != nil || due == 0 {
		return 0
	}
	err := b.change(ctx, func(tx *bolt.Tx) (err error) {
		looked, err = sweepOnce(tx, now)
		return err
	})
	if err != nil {
		return 0
	}
	return looked
}

func sweepOnce(tx *bolt.Tx, now uint64) (looked int, err error) {
	queue := tx.Bucket(expiryBucket)
	var due [][]byte
	cursor := queue.Cursor()
	for key, _ := cursor.First(); len(key) >= 8 && binary.BigEndian.Uint64(key) <= now && len(due) < sweepStep; key, _ = cursor.Next() {
		due = append(due, append([]byte(nil), key...))
	}
	for _, key := range due {
		if err := queue.Delete(key); err != nil {
			return 0, err
		}
		if err := settle(tx, binary.BigEndian.Uint64(key), string(key[8:]), now); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// settle removes an item that is over, or queues it for its present end.
func settle(tx *bolt.Tx, queued uint64, key string, now uint64) error {
	s, err := decodeItem(tx.Bucket(itemBucket).Get([]byte(key)))
	if err != nil || s.queued != queued {
		return nil // it is gone, or queued under another time
	}
	if s.ends != 0 && s.ends <= now {
		return tx.Bucket(itemBucket).Delete([]byte(key))
	}
	if s.queued = s.ends; s.queued != 0 {
		if err := tx.Bucket(expiryBucket).Put(expiryKey(s.queued, key), nil); err != nil {
			return err
		}
	}
	return tx.Bucket(itemBucket).Put([]byte(key), s.encode())
}
