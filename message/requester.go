package message

import (
	"errors"
	"slices"
	"sync"
)

var (
	// ErrIDReused says that the requester has used the id of a request before.
	ErrIDReused = errors.New("message: the id of the request was used before")
	// ErrTooManyIDs says that no more ids can be remembered. A session should begin anew;
	// a requester should wait until some of its requests are answered.
	ErrTooManyIDs = errors.New("message: too many ids")
)

// SessionIDs remembers the ids that one requester used in one session. Up to revision
// 2025-11-25 of the protocol an id must not be used a second time before the session ends.
// The zero value is ready. It may be used from several goroutines.
//
// Integers that follow each other, as most clients send them, take the room of one.
type SessionIDs struct {
	// Max bounds what is remembered: runs of integers, and other ids. 0 means 16384.
	Max int

	mu    sync.Mutex
	runs  []run // in order, with a gap between any two
	other map[ID]bool
}

// run is the integers from first to last.
type run struct {
	first, last int64
}

const defaultSessionIDs = 1 << 14

// Use takes note of the id of a request. It returns [ErrIDReused] for one that was used
// before, and [ErrTooManyIDs] rather than forget any. It refuses the zero ID.
func (s *SessionIDs) Use(id ID) error {
	if id.IsZero() {
		return errors.New("message: there is no id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := id.Int64(); ok {
		return s.useNumber(n)
	}
	switch {
	case s.other[id]:
		return ErrIDReused
	case s.full():
		return ErrTooManyIDs
	case s.other == nil:
		s.other = map[ID]bool{}
	}
	s.other[id] = true
	return nil
}

func (s *SessionIDs) full() bool {
	return len(s.runs)+len(s.other) >= orDefault(s.Max, defaultSessionIDs)
}

// useNumber makes n part of the run before it, of the run behind it, of both as one, or a
// run of its own.
func (s *SessionIDs) useNumber(n int64) error {
	at, found := slices.BinarySearchFunc(s.runs, n, func(r run, n int64) int {
		switch {
		case r.last < n:
			return -1
		case r.first > n:
			return 1
		}
		return 0
	})
	follows := at > 0 && s.runs[at-1].last+1 == n
	precedes := at < len(s.runs) && n+1 == s.runs[at].first
	switch {
	case found:
		return ErrIDReused
	case follows && precedes:
		s.runs[at-1].last = s.runs[at].last
		s.runs = slices.Delete(s.runs, at, at+1)
	case follows:
		s.runs[at-1].last = n
	case precedes:
		s.runs[at].first = n
	case s.full():
		return ErrTooManyIDs
	default:
		s.runs = slices.Insert(s.runs, at, run{n, n})
	}
	return nil
}

// InFlight knows the requests of one requester that wait for an answer. From revision
// 2026-07-28 of the protocol on, an id must not be that of another such request. On the
// requester's own side it tells answers to its requests from those that nobody waits for.
// The zero value is ready. It may be used from several goroutines.
type InFlight struct {
	// Max bounds how many requests may wait. 0 means 1024.
	Max int

	mu  sync.Mutex
	ids map[ID]bool
}

const defaultInFlight = 1 << 10

// Begin takes note of a request. It returns [ErrIDReused] when one with this id waits for
// its answer, and [ErrTooManyIDs] when too many do. It refuses the zero ID.
func (f *InFlight) Begin(id ID) error {
	if id.IsZero() {
		return errors.New("message: there is no id")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ids[id]:
		return ErrIDReused
	case len(f.ids) >= orDefault(f.Max, defaultInFlight):
		return ErrTooManyIDs
	case f.ids == nil:
		f.ids = map[ID]bool{}
	}
	f.ids[id] = true
	return nil
}

// End takes note of the answer to a request, or that nobody waits for it any more. It says
// whether the request was waiting.
func (f *InFlight) End(id ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	waited := f.ids[id]
	delete(f.ids, id)
	return waited
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}
