package trail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Follow calls found for the last lines of a file that are selected, and then for those that are
// added, until it or wait returns an error, which Follow returns. Wait is called whenever there is
// nothing new. A file that was renamed is read to its end, and then the one that took its place.
// The error wraps [ErrUnread] if the file has lines at the beginning, and none of a trail.
func Follow(f Filter, path string, last int, wait func() error, found func(Line) error) error {
	w := &follower{path: path}
	if err := w.open(); err != nil {
		return err
	}
	defer func() { _ = w.in.Close() }()
	var recent []Line
	if err := w.read(func(l Line) error {
		if f.Matches(l) {
			recent = append(recent, l)
			recent = recent[max(len(recent)-last, 0):]
		}
		return nil
	}); err != nil {
		return err
	}
	if err := w.seen.result(path); err != nil && w.seen.good == 0 {
		return err
	}
	for _, l := range recent {
		if err := found(l); err != nil {
			return err
		}
	}
	for {
		if err := wait(); err != nil {
			return err
		}
		if err := w.more(func(l Line) error {
			if !f.Matches(l) {
				return nil
			}
			return found(l)
		}); err != nil {
			return err
		}
	}
}

// follower reads a file that grows.
type follower struct {
	path string
	in   *os.File
	rest []byte // the part of a line that is not whole yet
	seen unread // how many lines could be read
}

func (w *follower) open() error {
	in, err := openToRead(w.path)
	if err != nil {
		return fmt.Errorf("trail: %w", err)
	}
	w.in, w.rest, w.seen = in, nil, unread{}
	return nil
}

// more reads what was added, also in a file that took the place of this one.
func (w *follower) more(do func(Line) error) error {
	mine, err := w.in.Stat()
	if err != nil {
		return fmt.Errorf("trail: %w", err)
	}
	there, err := os.Stat(w.path)
	replaced := err == nil && !os.SameFile(mine, there) // before the reading: nothing is added after it
	if err := w.read(do); err != nil || !replaced {
		return err
	}
	old := w.in
	if err := w.open(); err != nil {
		return err
	}
	_ = old.Close()
	return w.read(do)
}

// chunk is how much is read at once, in bytes.
const chunk = 256 << 10

// read reads to the end.
func (w *follower) read(do func(Line) error) error {
	buffer := make([]byte, chunk)
	for {
		n, err := w.in.Read(buffer)
		w.rest = append(w.rest, buffer[:n]...)
		for {
			line, after, whole := bytes.Cut(w.rest, []byte("\n"))
			if !whole {
				break
			}
			w.rest = after
			l, err := parse(line)
			if w.seen.count(placed{Line: l, size: len(line), err: err}); err != nil {
				continue
			}
			if err := do(l); err != nil {
				return err
			}
		}
		if len(w.rest) > maxLine {
			w.rest = nil // it is no line of a trail
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("trail: %w", err)
		}
	}
}
