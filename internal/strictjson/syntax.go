package strictjson

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
)

// errSyntax ends a walk through what is not JSON (RFC 8259). What is wrong and where is found out by
// encoding/json.
var errSyntax = errors.New("not JSON")

// enter moves past the opening bracket and reports whether the object or array has elements.
func (w *walker) enter(closing byte) (bool, error) {
	// RFC 8259 section 9: an implementation may set limits on the depth of nesting.
	if len(w.path) >= w.maxDepth {
		return false, w.fail(ErrTooDeep, "more than "+strconv.Itoa(w.maxDepth)+" levels")
	}
	w.pos++
	w.space()
	return !w.take(closing), nil
}

// next moves past a comma or the closing bracket and reports whether it was a comma.
func (w *walker) next(closing byte) (bool, error) {
	w.space()
	switch {
	case w.take(','):
		return true, nil
	case w.take(closing):
		return false, nil
	}
	return false, errSyntax
}

// peek returns the next byte, and 0, which begins nothing, at the end.
func (w *walker) peek() byte {
	if w.pos < len(w.data) {
		return w.data[w.pos]
	}
	return 0
}

// take moves past c if it is next.
func (w *walker) take(c byte) bool {
	if w.pos < len(w.data) && w.data[w.pos] == c {
		w.pos++
		return true
	}
	return false
}

func (w *walker) space() {
	for w.pos < len(w.data) {
		switch w.data[w.pos] {
		case ' ', '\t', '\r', '\n':
			w.pos++
		default:
			return
		}
	}
}

// scalar moves past a value that is neither a string nor has elements.
func (w *walker) scalar() bool {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(w.data)-w.pos >= len(word) && string(w.data[w.pos:w.pos+len(word)]) == word {
			w.pos += len(word)
			return true
		}
	}
	w.take('-')
	if !w.take('0') && !w.digits() || w.take('.') && !w.digits() {
		return false
	}
	if w.take('e') || w.take('E') {
		if !w.take('+') {
			w.take('-')
		}
		return w.digits()
	}
	return true
}

// digits moves past one digit or more.
func (w *walker) digits() bool {
	begin := w.pos
	for '0' <= w.peek() && w.peek() <= '9' {
		w.pos++
	}
	return w.pos > begin
}

// text moves past a string and returns the bytes between its quotes.
func (w *walker) text() (raw []byte, escaped bool, err error) {
	if !w.take('"') {
		return nil, false, errSyntax
	}
	for begin := w.pos; ; w.pos++ {
		for w.pos < len(w.data) && plain(w.data[w.pos]) {
			w.pos++
		}
		switch w.peek() {
		case '"':
			w.pos++
			return w.data[begin : w.pos-1], escaped, nil
		case '\\':
			escaped = true
			if err := w.escape(); err != nil {
				return nil, true, err
			}
		default: // a control character, or the end
			return nil, escaped, errSyntax
		}
	}
}

// plain reports whether a byte of a string stands for itself.
func plain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' }

// escape moves past a backslash, to the last byte of what belongs to it.
func (w *walker) escape() error {
	w.pos++
	switch c := w.peek(); {
	case c == 'u':
		return w.codePoint()
	case bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0:
		return errSyntax
	}
	return nil
}

// codePoint moves past the digits of a \u escape, or of two that are a pair, to the last digit. They
// must be a Unicode scalar value.
func (w *walker) codePoint() error {
	unit, ok := w.hex()
	if !ok {
		return errSyntax
	}
	if !utf16.IsSurrogate(unit) {
		return nil
	}
	if w.pos+2 < len(w.data) && w.data[w.pos+1] == '\\' && w.data[w.pos+2] == 'u' {
		w.pos += 2
		second, ok := w.hex()
		if !ok {
			return errSyntax
		}
		if utf16.DecodeRune(unit, second) != '\uFFFD' {
			return nil
		}
	}
	// RFC 7493 section 2.1: strings MUST NOT include code points that identify surrogates.
	return w.fail(ErrText, "a lone surrogate")
}

// hex moves to the last of the four digits that follow.
func (w *walker) hex() (unit rune, ok bool) {
	if w.pos+4 >= len(w.data) {
		return 0, false
	}
	for _, c := range w.data[w.pos+1 : w.pos+5] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	w.pos += 4
	return unit, true
}
