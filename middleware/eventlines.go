package middleware

import "bytes"

// eventLines splits a stream of events into lines as clients do (HTML standard, section 9.2.6):
// a line ends with LF, CR or CRLF, and a byte order mark at the beginning of the stream is not
// part of the first line. All code of this package that reads streams uses it.
type eventLines struct {
	cr   bool // whether the last line ended with CR, so that LF is part of its end
	seen bool // whether a line was seen
}

// next splits p, which must not be empty, after the end of the line. It returns the part of the
// line without its end, whether the line ends in p, and the rest of p.
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

// text returns a line, or at least its beginning, without a byte order mark. A line that begins with
// one all the same is a field that no client knows. It becomes a comment: a line before it can have been
// left out, and some clients leave out more than one mark.
func (l *eventLines) text(line []byte) []byte {
	mark := []byte("\ufeff")
	if !l.seen {
		line, l.seen = bytes.TrimPrefix(line, mark), true
	}
	if bytes.HasPrefix(line, mark) {
		return append([]byte(":"), line...)
	}
	return line
}

// fieldOf splits a line into name and value. A comment has no name, and a line without a colon
// no value.
func fieldOf(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte(":"))
	return name, bytes.TrimPrefix(value, []byte(" "))
}
