package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"gatehouse.example/storage"
)

// paper is what records are printed on as they come. It ends complete, or because
// something failed.
type paper[R any] interface {
	print(R) error
	end(complete bool) error
}

// paperFor is a JSON array for programs, or a table for people. The head and the lines
// of a table have tabs between their columns.
func paperFor[R any](w io.Writer, asJSON bool, head string, line func(R) string) paper[R] {
	if asJSON {
		return array[R]{&jsonArray{w: w}}
	}
	t := &table[R]{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), line: line}
	fmt.Fprintln(t.w, head)
	return t
}

// array is not closed when something failed, so that no program takes it for all of the
// records.
type array[R any] struct{ *jsonArray }

func (a array[R]) print(r R) error { return a.add(r) }

func (a array[R]) end(complete bool) error {
	if !complete {
		return nil
	}
	return a.close()
}

// table aligns its columns over a hundred rows at a time, and keeps no more.
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

// unreadable counts records of a kind that cannot be read, so that one does not hide the
// others.
type unreadable struct {
	kind  string
	count int
	first error
}

// without counts such an error and forgives it.
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
	return fmt.Errorf("%s passed over: %w", counted(u.count, u.kind), u.first)
}
