package storage

import (
	"context"
	"time"
)

// Version is the operation id of the write that made an item what it is: 16 random
// bytes. The zero Version means that there is no item.
type Version [16]byte

// Item is a stored value.
type Item struct {
	Data    []byte
	Version Version
}

// Condition is what must hold for a [Put] to happen. The zero Condition is
// [Absent], so a forgotten condition never overwrites anything.
type Condition struct {
	any     bool
	version Version
}

var (
	// Absent: there is no item under the key.
	Absent = Condition{}
	// Always: whatever is there is replaced.
	Always = Condition{any: true}
)

// Unchanged: the item under the key has this version. Unchanged of the zero Version
// is [Absent].
func Unchanged(v Version) Condition { return Condition{version: v} }

// Any reports whether the condition is [Always].
func (c Condition) Any() bool { return c.any }

// Version returns the version that must be there, zero for none.
func (c Condition) Version() Version { return c.version }

// Put is one conditional write. Two calls with the same Operation are one write.
type Put struct {
	Key       string
	Data      []byte
	If        Condition
	Operation Version       // never zero; becomes the item's version
	TTL       time.Duration // zero keeps the item until it is deleted
}

// Backend is the narrow interface that a database driver implements. Every method is
// safe for concurrent use and returns when its context ends; one that cannot hang may
// finish what it began. storagetest.TestBackend
// is the contract in executable form.
type Backend interface {
	// Get returns the item under key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Item, error)

	// Put applies one write atomically and returns the item that is there afterwards.
	// In this order: if the item already carries put.Operation as its version, the
	// write has happened before and Put succeeds without doing anything; if put.If
	// holds, Data is stored under put.Operation; otherwise Put returns [ErrConflict]
	// together with the item that is there (zero if there is none). When the outcome
	// cannot be known, because a reply is late or lost, Put returns [ErrUncertain].
	// No implementation repeats a write by itself.
	Put(ctx context.Context, put Put) (Item, error)

	// Take removes and returns the item under key. Of many callers exactly one gets
	// it, the others get [ErrNotFound].
	Take(ctx context.Context, key string) (Item, error)

	// Delete removes the item under key. It is not an error if there is none.
	Delete(ctx context.Context, key string) error

	// IndexAdd puts entry into the ordered index. Adding an entry twice is one entry.
	IndexAdd(ctx context.Context, index, entry string) error

	// IndexRemove takes entry out of the index. It is not an error if it is not there.
	IndexRemove(ctx context.Context, index, entry string) error

	// IndexPage returns up to limit entries in ascending byte order that are strictly
	// greater than after ("" starts at the beginning). The cost does not grow with the
	// length of the index.
	IndexPage(ctx context.Context, index, after string, limit int) ([]string, error)

	// Close releases connections. No method may be called afterwards.
	Close() error
}
