package middleware

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// mayCross reports whether the answer to a request may have a list that another request asked for, and that
// the policy changes. Many servers find the stream of a result by the id of its request alone, so a client
// that uses an id twice at once in a session gets the first result in the answer to the second request.
func (g *Guard) mayCross(r *http.Request) bool {
	return len(r.Header[sessionHeader]) > 0 && slices.ContainsFunc(lists[:], g.filters)
}

// listWatch looks for a list in a message as it comes, without keeping the message.
type listWatch struct {
	found bool // whether the result has a member that the policy may change

	depth, outer    int // how many objects and arrays are open, and how many of them are around the message
	within, escaped bool
	text            []byte // the last string outside of the members of a result, or its beginning
	result          bool   // whether the member of the message is its result
}

// maxWatchedName is more than the size of any name that is looked for, in bytes.
const maxWatchedName = 32

// scan reads the next part of a message, and reports whether a list was found in the parts so far.
func (w *listWatch) scan(g *Guard, part []byte) bool {
	for _, c := range part {
		switch {
		case w.found:
			return true
		case w.within:
			w.inside(c)
		default:
			w.outside(g, c)
		}
	}
	return w.found
}

// inside reads a byte of a string.
func (w *listWatch) inside(c byte) {
	switch {
	case w.escaped:
		w.escaped = false
	case c == '"':
		w.within = false
		return
	case c == '\\':
		w.escaped = true
	}
	if w.depth-w.outer <= 2 && len(w.text) < maxWatchedName {
		w.text = append(w.text, c)
	}
}

// outside reads a byte that is in no string.
func (w *listWatch) outside(g *Guard, c byte) {
	switch c {
	case '"':
		w.within, w.text = true, w.text[:0]
	case '{', '[':
		if c == '[' && w.depth == 0 {
			w.outer = 1 // a batch
		}
		w.depth++
	case '}', ']':
		w.depth--
	case ':':
		w.member(g)
	}
}

// member reads the name of a member. One with an escape may be any.
func (w *listWatch) member(g *Guard) {
	escapes := bytes.IndexByte(w.text, '\\') >= 0
	switch w.depth - w.outer {
	case 1:
		w.result = escapes || strings.EqualFold(string(w.text), "result")
	case 2:
		w.found = w.result && (escapes || g.changes(string(w.text)))
	}
}

// changes reports whether the policy may change a member of a result.
func (g *Guard) changes(member string) bool {
	for _, l := range lists {
		if strings.EqualFold(member, l.member) && g.filters(l) {
			return true
		}
	}
	return strings.EqualFold(member, completionMember) && g.filters(resourceList)
}
