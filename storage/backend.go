package storage

import (
	"context"
	"time"
)

// Version is the operation id of the write that made the present item: 16 random bytes. The zero
// Version means that there is no item.
type Version [16]byte

// Item is a stored value.
type Item struct {
	Data    []byte
	Version Version
}

// Condition is what must hold for a [Put] to happen. The zero Condition is [Absent], so a Put
// without a condition never overwrites an item.
type Condition struct {
	any     bool
	version Version
}

var (
	// Absent holds if there is no item under the key.
	Absent = Condition{}
	// Always holds: an item that is there is replaced.
	Always = Condition{any: true}
)

// Unchanged returns the condition that the item under the key has this version. For the zero
// Version it is [Absent].
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

	// Listed are index entries of the item. They are added before it is written, and stay when it
	// is not: an entry without an item is harmless, an item without its entry could not be found.
	Listed []Listing
	// On, if set, is the lineage that must answer: on another one nothing is written and Put
	// returns [ErrLineage].
	On Lineage
	// Confirmation says that the item was read with Operation as its version, and only has to be
	// confirmed by the copies that could take over. Where there are none, nothing is sent.
	Confirmation bool
	// Forgettable lets the write be answered before a replica has it, where there are replicas: a
	// failover may lose it.
	Forgettable bool
}

// Listing is an entry of an index.
type Listing struct{ Index, Entry string }

// Lineage names one uninterrupted history of the database. Another copy that takes over begins a
// new one, and may lack the last writes of the one before; so does a backup that becomes a store. It
// is empty where no copy can take over.
type Lineage string

// Room is how much memory a database has left.
type Room int

const (
	// RoomEnough means that every write may go on, or that the room is unknown.
	RoomEnough Room = iota
	// RoomTight means that the rest is reserved for what exists already, such as refreshing,
	// redeeming and revoking. New clients are refused.
	RoomTight
	// RoomNone means that the database refuses writes, or is about to.
	RoomNone
)

// Backend is the narrow interface that a database driver implements. Every method is safe for
// concurrent use and returns when its context ends; one that cannot hang may finish what it
// began. storagetest.TestBackend is the contract in executable form.
type Backend interface {
	// Get returns the item under key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Item, error)

	// GetMany returns the items under keys in the order of the keys, and the zero Item for each
	// that is not there. It is one round trip, or one to each server that has some of the keys.
	// Each item is as [Backend.Get] would have returned it at some time during the call, which
	// need not be the same for all. A value that is not an item is an error for all, but another kind
	// of value than items have may be as if it were not there: a write finds it.
	GetMany(ctx context.Context, keys []string) ([]Item, error)

	// Put applies one write atomically and returns the item that is there afterwards. In this
	// order: if the item already carries put.Operation as its version, the write has happened
	// before and Put succeeds without a change; if put.On is set and another lineage answers, Put
	// returns [ErrLineage]; if put.If holds, Data is stored under put.Operation; otherwise Put
	// returns [ErrConflict] together with the item that is there (zero if there is none). When
	// the outcome is unknown, because a reply is late or lost, or because a copy that may take
	// over does not have the write yet, Put returns [ErrUncertain]: sending the same write again
	// settles it. No implementation repeats a write by itself.
	Put(ctx context.Context, put Put) (Item, error)

	// Lineage returns the lineage that answers now. It costs nothing where it is empty.
	Lineage(ctx context.Context) (Lineage, error)

	// Delete removes the item under key. It is not an error if there is none.
	Delete(ctx context.Context, key string) error

	// IndexAdd adds an entry to the ordered index. Adding an entry twice is one entry.
	IndexAdd(ctx context.Context, index, entry string) error

	// IndexRemove removes an entry from the index. It is not an error if it is not there.
	IndexRemove(ctx context.Context, index, entry string) error

	// IndexPage returns up to limit entries in ascending byte order that are strictly greater
	// than after ("" starts at the beginning). The cost does not grow with the length of the
	// index.
	IndexPage(ctx context.Context, index, after string, limit int) ([]string, error)

	// IndexPageBefore returns up to limit entries in descending byte order that are strictly less
	// than before ("" starts at the end). It costs what IndexPage does.
	IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error)

	// IndexLen returns how many entries the index has. The cost does not grow with them.
	IndexLen(ctx context.Context, index string) (int, error)

	// Room returns how much room is left, by the last measurement of the backend. It costs no
	// round trip. A write for which there is none is [ErrFull].
	Room() Room

	// Scan returns some keys of items that begin with prefix, and the cursor to go on from: "" at
	// the end, as at the beginning. Limit is the wanted number of keys; there may be more or
	// fewer. A key that exists all the time is returned at least once, a key that is added or
	// removed meanwhile may be. Indexes are not returned. A cursor is valid in this process only.
	Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error)

	// Count applies one operation to the counts of a pool: see [Counting]. It is one round trip, and
	// is not repeated. After an error that wraps [ErrUncertain] it may have been applied.
	Count(ctx context.Context, c Counting) (Counted, error)

	// Close releases connections. No method may be called afterwards.
	Close() error
}
