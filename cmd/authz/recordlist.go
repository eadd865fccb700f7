package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"gatehouse.example/storage"
)

// recordList prints records while they are read. Its end is complete unless an error ended it.
type recordList[R any] interface {
	print(R) error
	end(complete bool) error
}

// newRecordList returns a list that is a JSON array or a table. The head and the lines of a
// table have tabs between their columns.
func newRecordList[R any](w io.Writer, asJSON bool, head string, line func(R) string) recordList[R] {
	if asJSON {
		return array[R]{&jsonArray{w: w}}
	}
	t := &table[R]{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), line: line}
	fmt.Fprintln(t.w, head)
	return t
}

// array is a JSON array. After an error it is not closed, so that no program takes it for
// complete.
type array[R any] struct{ *jsonArray }

func (a array[R]) print(r R) error { return a.add(r) }

func (a array[R]) end(complete bool) error {
	if !complete {
		return nil
	}
	return a.close()
}

// table aligns its columns over rowsAligned rows at a time, which bounds its memory.
type table[R any] struct {
	w    *tabwriter.Writer
	line func(R) string
	rows int
}

const rowsAligned = 100

func (t *table[R]) print(r R) error {
	fmt.Fprintln(t.w, t.line(r))
	if t.rows++; t.rows%rowsAligned == 0 {
		return t.w.Flush()
	}
	return nil
}

func (t *table[R]) end(complete bool) error {
	if !complete && t.rows == 0 {
		return nil
	}
	return t.w.Flush()
}

// unreadable counts records of a kind that cannot be read, so that one of them does not end the
// list.
type unreadable struct {
	kind  string
	count int
	first error
}

// without returns nil for an error about a record that cannot be read, and counts it. Every
// other error is returned.
func (u *unreadable) without(err error) error {
	if !errors.Is(err, storage.ErrRecord) {
		return err
	}
	u.count++
	u.first = cmp.Or(u.first, err)
	return nil
}

func (u *unreadable) error() error {
	if u.count == 0 {
		return nil
	}
	return fmt.Errorf("%s skipped: %w", counted(u.count, u.kind), u.first)
}
