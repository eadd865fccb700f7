package message

import (
	"errors"
	"slices"
	"sync"
)

var (
	// ErrIDReused reports that the requester has used the id of a request before.
	ErrIDReused = errors.New("message: the id of the request was used before")
	// ErrTooManyIDs reports that no more ids can be stored: the client should start a new
	// session, or wait until some of its requests are answered.
	ErrTooManyIDs = errors.New("message: too many ids")
)

// SessionIDs stores the ids that one requester used in one session. Up to revision 2025-11-25
// of the protocol an id must not be used a second time in a session. The zero value is ready for
// use, and safe for concurrent use.
//
// Consecutive integers, as most clients send them, take the space of one id.
type SessionIDs struct {
	// Max bounds the number of stored runs of integers and other ids. 0 means 16384.
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

// Use stores the id of a request. It returns [ErrIDReused] if the id was used before, and
// [ErrTooManyIDs] if there is no space for it. It returns an error for the zero ID.
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

// useNumber adds n to the run before it or after it, joins both runs, or adds a new run.
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

// InFlight stores the ids of the unanswered requests of one requester. From revision 2026-07-28
// of the protocol on, a request must not have the id of another unanswered one. The requester
// can use it to recognise responses to its requests. The zero value is ready for use, and safe
// for concurrent use.
type InFlight struct {
	// Max bounds the number of unanswered requests. 0 means 1024.
	Max int

	mu  sync.Mutex
	ids map[ID]bool
}

const defaultInFlight = 1 << 10

// Begin stores the id of a request. It returns [ErrIDReused] if a request with this id is
// unanswered, and [ErrTooManyIDs] if there are Max unanswered requests. It returns an error for
// the zero ID.
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

// End removes the id of a request that was answered or given up, and reports whether it was
// stored.
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
