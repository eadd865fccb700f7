package middleware

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/fingerprint"
)

// defaultCachedTokens is the default of [Config.CachedTokens].
const defaultCachedTokens = 8192

// digest identifies a token, or something else that must not be derived from it: a
// fingerprint, or a SHA-256 where the text has several parts.
type digest = fingerprint.Print

// ways is the number of places for an entry.
const ways = 4

// memory is a set-associative cache of values by digest, with a fixed size and an end for each
// value. It has no locks: places are read and written atomically, and of two concurrent writes
// to one place, one value is lost and has to be computed again.
//
// A nil memory is always empty.
type memory[V any] struct {
	places []atomic.Pointer[entry[V]] // rows of ways places
	ways   uint64
}

type entry[V any] struct {
	id    digest
	until time.Time
	used  atomic.Bool // since the last put into its row
	value V
}

// newMemory returns a cache of at most size values, nil for a size below one.
func newMemory[V any](size int) *memory[V] {
	if size < 1 {
		return nil
	}
	width := min(size, ways)
	return &memory[V]{places: make([]atomic.Pointer[entry[V]], size/width*width), ways: uint64(width)}
}

// row returns the places for a digest.
func (m *memory[V]) row(id digest) []atomic.Pointer[entry[V]] {
	rows := uint64(len(m.places)) / m.ways
	first := binary.LittleEndian.Uint64(id[:]) % rows * m.ways
	return m.places[first : first+m.ways]
}

// get returns the value of a digest, nil if there is none or its end is before now. The value
// is shared: do not change it.
func (m *memory[V]) get(id digest, now time.Time) *V {
	if m == nil {
		return nil
	}
	row := m.row(id)
	for i := range row {
		e := row[i].Load()
		if e == nil || e.id != id || now.After(e.until) {
			continue
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		return &e.value
	}
	return nil
}

// put stores a value until a time. In a full row it replaces one that was not used since the
// last put, if there is one.
func (m *memory[V]) put(id digest, value V, now, until time.Time) {
	if m == nil {
		return
	}
	row := m.row(id)
	m.place(row, id, now).Store(&entry[V]{id: id, until: until, value: value})
}

// place returns the place for a new value: that of the digest itself, else an empty one or one
// whose value has ended, else one whose value was not used since the last put, else one that
// the digest selects.
func (m *memory[V]) place(row []atomic.Pointer[entry[V]], id digest, now time.Time) *atomic.Pointer[entry[V]] {
	free, unused := -1, -1
	for i := range row {
		switch e := row[i].Load(); {
		case e != nil && e.id == id:
			return &row[i]
		case e == nil || now.After(e.until):
			free = i
		case !e.used.Swap(false):
			unused = i
		}
	}
	if free >= 0 {
		return &row[free]
	}
	if unused >= 0 {
		return &row[unused]
	}
	return &row[uint64(id[8])%m.ways]
}
