package authz

import (
	"bytes"
	"io"
	"net/http"
)

// begun is the body of a request of which the beginning was read, as much as a form may have.
type begun struct {
	read  []byte // what was read
	next  int    // where the next Read begins
	whole bool   // there is no more
	rest  io.ReadCloser
}

// roomAhead bounds the memory that is kept for a body before anything of it has arrived.
const roomAhead = 4 << 10

// begin reads the beginning of a body. A later read returns the error of this one again.
func begin(r *http.Request) *begun {
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(r.ContentLength, 0), roomAhead)) + bytes.MinRead)
	n, err := buffer.ReadFrom(io.LimitReader(r.Body, maxForm+1))
	return &begun{read: buffer.Bytes(), whole: err == nil && n <= maxForm, rest: r.Body}
}

// Read implements [io.Reader].
func (b *begun) Read(p []byte) (int, error) {
	if b.next == len(b.read) {
		return b.rest.Read(p)
	}
	n := copy(p, b.read[b.next:])
	b.next += n
	return n, nil
}

// Close implements [io.Closer].
func (b *begun) Close() error { return b.rest.Close() }

// wholeBody reads what is left of the body of a form. A body that is longer than a form may be is an
// error.
func wholeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if b, ok := r.Body.(*begun); ok && b.whole {
		left := b.read[b.next:]
		b.next = len(b.read)
		return left, nil
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
}
