package middleware

import "bytes"

// eventLines takes a stream of events apart into lines, as all readers do (HTML standard,
// section 9.2.6): a line ends with LF, with CR or with both, and a byte order mark before the
// first one is none of its characters. Wherever a stream is read here, it is read by this.
type eventLines struct {
	cr   bool // whether the last line ended with CR, so that LF is part of its end
	seen bool // whether a line was seen
}

// next returns what comes of a line, whether the line ends with it, and the rest. Of what it
// gets there must be something.
func (l *eventLines) next(p []byte) (part []byte, ends bool, rest []byte) {
	if l.cr && p[0] == '\n' {
		p = p[1:]
	}
	end := len(p)
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		end = i
	}
	if i := bytes.IndexByte(p[:end], '\r'); i >= 0 {
		end = i
	}
	if l.cr = end < len(p) && p[end] == '\r'; end == len(p) {
		return p, false, nil
	}
	return p[:end], true, p[end+1:]
}

// text returns the characters of a line, of which there is the beginning at least.
func (l *eventLines) text(line []byte) []byte {
	if l.seen {
		return line
	}
	l.seen = true
	return bytes.TrimPrefix(line, []byte("\ufeff"))
}

// fieldOf takes a line apart into a name and a value. A comment has no name, and a line
// without a colon no value.
func fieldOf(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte(":"))
	return name, bytes.TrimPrefix(value, []byte(" "))
}
