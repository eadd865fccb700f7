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

// Searching looks at names only, and those of all servers are in the memory of each process,
// about fifty bytes of each: one text in lower case, in the order of the names. It is read
// from a list of the catalogue when somebody searches for the first time, and then what was
// added since. Names of servers that are deleted, or that were never committed, may be in it:
// it says where to look, and the catalogue says what is there.

const (
	// maxNames is how many bytes of names are kept. Of a larger catalogue none are.
	maxNames = 64 << 20
	// maxSearched is how many bytes of names one request looks at.
	maxSearched = 8 << 20
	// namesWait is how long a request waits for the names, namesTime how long reading them
	// may take.
	namesWait = 700 * time.Millisecond
	namesTime = time.Minute
)

// nameSep ends a name in the text. No name has it.
const nameSep = '\n'

// nameList is an index of names. It does not change.
type nameList struct {
	key       string // of the catalogue that it is of
	committed uint64
	stamp     time.Time // up to which updates it has all names

	text   string // in lower case
	starts []uint32
	odd    map[int]string // names that are not in lower case

	tooMany bool // to be kept, so that there is none of them
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

// search is the way of one request through the index.
type search struct {
	*nameList
	text string // in lower case
	left int    // bytes that may be looked at
}

// next returns the first name from a name on that has the text, or the one at which the
// request has looked at enough.
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
		return s.name(s.of(start + at)), true
	}
	s.left -= len(window)
	if start+len(window) == len(s.nameList.text) {
		return "", false
	}
	return s.name(s.of(start + len(window))), true
}

// of returns which name has a place in the text.
func (l *nameList) of(place int) int {
	return sort.Search(len(l.starts), func(i int) bool { return int(l.starts[i]) > place }) - 1
}

// nameIndex keeps the index of names current.
type nameIndex struct {
	catalogue *catalogue.Catalogue
	list      atomic.Pointer[nameList]
	reading   chan struct{} // has something in it while somebody reads
}

func newNameIndex(c *catalogue.Catalogue) *nameIndex {
	return &nameIndex{catalogue: c, reading: make(chan struct{}, 1)}
}

// at returns the index as of a state of the catalogue, or nil if it is not there within a
// moment. It is read all the same, for those who come later.
func (x *nameIndex) at(ctx context.Context, st catalogue.State) *nameList {
	if l := x.list.Load(); l.holds(st) {
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
	if l := x.list.Load(); l.holds(st) {
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

// holds reports whether the index has all names of a state.
func (l *nameList) holds(st catalogue.State) bool {
	return l != nil && l.key == string(st.CursorKey) && (l.tooMany || l.committed >= st.Committed)
}

var errManyNames = errors.New("registry: there are too many names for an index of them")

// read brings the index to a state at least.
func (x *nameIndex) read(ctx context.Context, st catalogue.State) {
	was := x.list.Load()
	if was.holds(st) {
		return
	}
	// What was added since has a later time of update.
	stamp := registry.ParseProgress(st.Progress).Stamp
	since := time.Time{}
	if was != nil && was.key == string(st.CursorKey) && !stamp.Before(was.stamp) {
		since = was.stamp
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
		same := *was
		same.committed, same.stamp = st.Committed, stamp
		x.list.Store(&same)
		return
	default:
		names = append(was.all(), names...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	l := newNameList(names)
	l.key, l.committed, l.stamp = string(st.CursorKey), st.Committed, stamp
	x.list.Store(l)
}

// added returns the names that were added since, sorted.
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
