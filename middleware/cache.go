package middleware

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// defaultCachedTokens is how many tokens are remembered unless the configuration says more
// or less.
const defaultCachedTokens = 8192

// digest is the SHA-256 of a whole token: every letter of it counts, and nobody can tell
// the token from it.
type digest = [sha256.Size]byte

// digestOf hashes a token. Most tokens fit a buffer that costs nothing.
func digestOf(token string) digest {
	var short [1 << 10]byte
	return sha256.Sum256(append(short[:0], token...))
}

// ways is how many places an entry can be at.
const ways = 4

// memory remembers values by digest, a fixed number of them at most and each until a time
// of its own. Reading takes no lock: places are read and written as a whole, and two that
// write at once lose at worst one of the values, which is then found out again.
//
// A nil memory remembers nothing.
type memory[V any] struct {
	places []atomic.Pointer[entry[V]] // rows of ways places
	ways   uint64
}

type entry[V any] struct {
	id    digest
	until time.Time
	used  atomic.Bool // since somebody last looked for a place in its row
	value V
}

// newMemory returns a memory of at most size values, nil for less than one.
func newMemory[V any](size int) *memory[V] {
	if size < 1 {
		return nil
	}
	width := min(size, ways)
	return &memory[V]{places: make([]atomic.Pointer[entry[V]], size/width*width), ways: uint64(width)}
}

// row returns the places where a digest can be.
func (m *memory[V]) row(id digest) []atomic.Pointer[entry[V]] {
	rows := uint64(len(m.places)) / m.ways
	first := binary.LittleEndian.Uint64(id[:]) % rows * m.ways
	return m.places[first : first+m.ways]
}

// get returns what is remembered at a time, nil if nothing is. It is shared: do not change
// it.
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

// put remembers a value until a time. In a full row it takes the place of one that was not
// used for long.
func (m *memory[V]) put(id digest, value V, now, until time.Time) {
	if m == nil {
		return
	}
	row := m.row(id)
	m.place(row, id, now).Store(&entry[V]{id: id, until: until, value: value})
}

// place chooses where to put a digest: where it is already, where nothing is or something
// that is over, where something is that nobody used since the last time; else anywhere.
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
