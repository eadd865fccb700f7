package main

import (
	"errors"
	"slices"
	"sync"
)

// The limits of the memory that clients can use.
const (
	maxPeople   = 10_000
	maxNotes    = 200
	maxNoteSize = 4 << 10
)

var (
	errNoteSize = errors.New("a note has 1 to 4096 bytes")
	errNoteFull = errors.New("there is no room for another note in this demo")
)

// notebook keeps notes per person, in memory.
type notebook struct {
	mu    sync.Mutex
	notes map[string][]string
}

func newNotebook() *notebook { return &notebook{notes: map[string][]string{}} }

// list returns the notes of one person, the oldest first.
func (n *notebook) list(person string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes[person])
}

// add stores a note and returns the number of notes of the person.
func (n *notebook) add(person, text string) (int, error) {
	if text == "" || len(text) > maxNoteSize {
		return 0, errNoteSize
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	mine, known := n.notes[person]
	if len(mine) >= maxNotes || (!known && len(n.notes) >= maxPeople) {
		return 0, errNoteFull
	}
	n.notes[person] = append(mine, text)
	return len(mine) + 1, nil
}
