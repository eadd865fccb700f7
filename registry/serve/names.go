package serve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
)

// A search compares names only. Each process keeps the names of all servers in memory, about
// fifty bytes per name, as one text in lower case, sorted by name. The first search reads them
// from a list of the catalogue, later searches read the names added since. The text may have
// names of servers that are deleted or were never committed: it only selects the positions at
// which the catalogue is read.

const (
	// maxNames is the limit of the names in memory, in bytes. Above it there is no index.
	maxNames = 64 << 20
	// maxSearched is the number of bytes of names that one request compares.
	maxSearched = 8 << 20
	// namesWait is the longest wait of a request for the names, namesTime the time limit for
	// reading them.
	namesWait = 700 * time.Millisecond
	namesTime = time.Minute
)

// nameSep ends a name in the text. It occurs in no name.
const nameSep = '\n'

// nameList is an immutable index of names.
type nameList struct {
	key       string // the cursor key of the catalogue, which identifies it
	committed uint64
	stamp     time.Time // the index has all names added up to this update time

	text   string // in lower case
	starts []uint32
	odd    map[int]string // names that are not in lower case

	tooMany bool // the names exceed maxNames, so the index is empty
}

// newNameList returns an index of sorted names.
func newNameList(names []string) *nameList {
	size := len(names)
	for _, name := range names {
		size += len(name)
	}
	var text strings.Builder
	text.Grow(size)
	l := &nameList{starts: make([]uint32, 0, len(names)), odd: map[int]string{}}
	for i, name := range names {
		l.starts = append(l.starts, uint32(text.Len()))
		lower := strings.ToLower(name)
		if lower != name {
			l.odd[i] = name
		}
		text.WriteString(lower)
		text.WriteByte(nameSep)
	}
	l.text = text.String()
	return l
}

func (l *nameList) name(i int) string {
	if name, ok := l.odd[i]; ok {
		return name
	}
	end := len(l.text)
	if i+1 < len(l.starts) {
		end = int(l.starts[i+1])
	}
	return l.text[l.starts[i] : end-1]
}

func (l *nameList) all() []string {
	names := make([]string, len(l.starts))
	for i := range names {
		names[i] = l.name(i)
	}
	return names
}

// search is the search of one request in the index.
type search struct {
	*nameList
	text string // in lower case
	left int    // bytes that may still be compared
}

// next returns the first name not before from that contains the text. If the limit of compared
// bytes is reached first, it returns the name at that position.
func (s *search) next(from string) (string, bool) {
	first := sort.Search(len(s.starts), func(i int) bool { return s.name(i) >= from })
	if first == len(s.starts) || strings.ContainsRune(s.text, nameSep) {
		return "", false
	}
	start := int(s.starts[first])
	window := s.nameList.text[start:min(start+max(s.left, 0), len(s.nameList.text))]
	at := strings.Index(window, s.text)
	if at >= 0 {
		s.left -= at
		return s.name(s.index(start + at)), true
	}
	s.left -= len(window)
	if start+len(window) == len(s.nameList.text) {
		return "", false
	}
	return s.name(s.index(start + len(window))), true
}

// index returns the index of the name at a byte offset of the text.
func (l *nameList) index(place int) int {
	return sort.Search(len(l.starts), func(i int) bool { return int(l.starts[i]) > place }) - 1
}

// nameIndex keeps the index of names current.
type nameIndex struct {
	catalogue *catalogue.Catalogue
	list      atomic.Pointer[nameList]
	reading   chan struct{} // a semaphore of one for reading names
}

func newNameIndex(c *catalogue.Catalogue) *nameIndex {
	return &nameIndex{catalogue: c, reading: make(chan struct{}, 1)}
}

// forState returns an index with the names of a state of the catalogue, or nil if it is not
// ready within namesWait. Reading continues in the background for later requests.
func (x *nameIndex) forState(ctx context.Context, st catalogue.State) *nameList {
	if l := x.list.Load(); l.covers(st) {
		return l.usable()
	}
	ctx, cancel := context.WithTimeout(ctx, namesWait)
	defer cancel()
	select {
	case x.reading <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-x.reading; close(done) }()
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), namesTime)
		defer cancel()
		x.read(detached, st)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	if l := x.list.Load(); l.covers(st) {
		return l.usable()
	}
	return nil
}

func (l *nameList) usable() *nameList {
	if l.tooMany {
		return nil
	}
	return l
}

// covers reports whether the index has all names of a state.
func (l *nameList) covers(st catalogue.State) bool {
	return l != nil && l.key == string(st.CursorKey) && (l.tooMany || l.committed >= st.Committed)
}

var errManyNames = errors.New("registry: there are too many names for an index")

// read updates the index to a state, unless it covers that state already.
func (x *nameIndex) read(ctx context.Context, st catalogue.State) {
	previous := x.list.Load()
	if previous.covers(st) {
		return
	}
	// Names added since have a later update time.
	stamp := registry.ParseProgress(st.Progress).Stamp
	since := time.Time{}
	if previous != nil && previous.key == string(st.CursorKey) && !stamp.Before(previous.stamp) {
		since = previous.stamp
	}
	names, err := x.added(ctx, since)
	if errors.Is(err, errManyNames) {
		x.list.Store(&nameList{key: string(st.CursorKey), tooMany: true})
	}
	if err != nil {
		return
	}
	switch {
	case since.IsZero():
	case len(names) == 0:
		same := *previous
		same.committed, same.stamp = st.Committed, stamp
		x.list.Store(&same)
		return
	default:
		names = append(previous.all(), names...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	l := newNameList(names)
	l.key, l.committed, l.stamp = string(st.CursorKey), st.Committed, stamp
	x.list.Store(l)
}

// added returns the names added since a time, sorted.
func (x *nameIndex) added(ctx context.Context, since time.Time) ([]string, error) {
	known := x.list.Load()
	var names []string
	last, size := "", 0
	err := x.catalogue.Names(ctx, since, func(name string) {
		if name == last || size > maxNames || !since.IsZero() && known.has(name) {
			return
		}
		last = name
		names, size = append(names, strings.Clone(name)), size+len(name)
	})
	if size > maxNames {
		err = cmp.Or(err, errManyNames)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func (l *nameList) has(name string) bool {
	_, found := sort.Find(len(l.starts), func(i int) int { return strings.Compare(name, l.name(i)) })
	return found
}
