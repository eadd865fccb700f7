package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The sweep removes items that are over, a few at a time, so that requests never wait for it for
// long. When a step found as many as it may remove, the next one follows at once. It shares its
// transactions with requests, so it removes more in each than they can add.
const (
	sweepStep     = 512
	sweepInterval = time.Second
)

// housekeeping looks after the disk and sweeps until ctx ends.
func (b *Backend) housekeeping(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.housekeep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// housekeep looks after the disk before each step of the sweep: after a long time without a server,
// there are steps for minutes.
func (b *Backend) housekeep(ctx context.Context) {
	b.chores.Lock()
	defer b.chores.Unlock()
	for more := true; more && ctx.Err() == nil; {
		b.space.measure()
		if err := b.inPlace(); err != nil {
			b.committer.fail(err)
		}
		more = b.sweep(ctx) == sweepStep
	}
}

// sweep looks at the items whose time has come, and returns how many it looked at. An item that was
// written again since is queued anew for its present end.
func (b *Backend) sweep(ctx context.Context) (looked int) {
	due := false
	now := uint64(b.clock.now().UnixMilli())
	if err := b.view(ctx, func(tx *bolt.Tx) error {
		due = isDue(tx.Bucket(expiryBucket).Cursor().First, now)
		return nil
	}); err != nil || !due {
		return 0
	}
	swept := make(chan int, 1)
	err := b.changeAnyway(ctx, func(tx *bolt.Tx) error {
		n, err := sweepOnce(tx, now)
		select {
		case <-swept: // of an attempt that was undone
		default:
		}
		swept <- n
		return err
	})
	if err != nil {
		return 0
	}
	return <-swept
}

// isDue reports whether a time in the queue has come.
func isDue(first func() (key, value []byte), now uint64) bool {
	key, _ := first()
	return len(key) >= 8 && binary.BigEndian.Uint64(key) <= now
}

func sweepOnce(tx *bolt.Tx, now uint64) (looked int, err error) {
	var due [][]byte
	cursor := tx.Bucket(expiryBucket).Cursor()
	for next := cursor.First; len(due) < sweepStep; next = cursor.Next {
		key, value := next()
		if len(key) < 8 || binary.BigEndian.Uint64(key) > now {
			break
		}
		if _, err := checked(expiryBucket, key, value); err == nil { // what is damaged stays
			due = append(due, bytes.Clone(key))
		}
	}
	for _, key := range due {
		if err := dropValue(tx, expiryBucket, key); err != nil {
			return 0, err
		}
		if err := settle(tx, binary.BigEndian.Uint64(key), key[8:], now); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// settle removes an item that is over, or queues it for its present end. An item that is damaged
// stays, so that whoever reads it is told.
func settle(tx *bolt.Tx, queued uint64, key []byte, now uint64) error {
	s, err := present(tx, key)
	if err != nil || s.queued != queued {
		return nil // it is damaged, gone, or queued under another time
	}
	if s.ends != 0 && s.ends <= now {
		return dropValue(tx, itemBucket, key)
	}
	if s.queued = s.ends; s.queued != 0 {
		if err := enqueue(tx, s.queued, key); err != nil {
			return err
		}
	}
	return putValue(tx, itemBucket, key, s.encode())
}
