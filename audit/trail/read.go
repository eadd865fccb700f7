package trail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxLine is the greatest size of a line, in bytes. No event makes one that is nearly as long.
const maxLine = 1 << 20

// placed is a line with the place where it stands.
type placed struct {
	Line
	number int // of the line in its file, from 1
	size   int // in bytes, without the line end
	err    error
	// begun says that a line which cannot be read is the last one, without a line end, and begins
	// like a line of a trail: it is being written, or a process ended in the middle of it.
	begun bool
}

// Lines returns the lines of a file one after another; those that cannot be read are left out. It
// checks nothing: see [Verify].
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for l, err := range linesOf(r) {
			if err == nil && l.err != nil {
				continue
			}
			if err != nil {
				err = fmt.Errorf("trail: %w", err)
			}
			if !yield(l.Line, err) {
				return
			}
		}
	}
}

// linesOf returns every line of a file, also those that cannot be read. The error is one of the
// reader, after which nothing follows.
func linesOf(r io.Reader) iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			raw, err := wholeLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(placed{number: number}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if len(raw) == 0 && err != nil {
				return
			}
			l := placed{number: number, size: len(bytes.TrimSuffix(raw, []byte("\n")))}
			l.Line, l.err = parse(bytes.TrimSuffix(raw, []byte("\n")))
			l.begun = l.err != nil && err != nil && bytes.HasPrefix([]byte(lineStart), raw[:min(len(raw), len(lineStart))])
			if !yield(l, nil) || err != nil {
				return
			}
		}
	}
}

// wholeLine reads a line. Of one that is too long it returns the first part.
func wholeLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// first returns the first readable line of a file.
func first(path string) (Line, error) {
	f, err := openTrail(path)
	if err != nil {
		return Line{}, err
	}
	defer f.Close()
	for l, err := range linesOf(f) {
		switch {
		case err != nil:
			return Line{}, fmt.Errorf("%s: %w", path, err)
		case l.err == nil:
			return l.Line, nil
		}
	}
	return Line{}, errForeign
}
