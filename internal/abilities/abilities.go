// Package abilities gives a ResponseWriter that wraps another one the optional interfaces of
// that one: [http.Flusher], [http.Hijacker], [io.ReaderFrom] and the deadlines of
// [http.ResponseController]. A handler that asks by a type assertion gets the same answer as
// without the wrapper, so that it neither fails on a promise nor works without what is there.
//
// The deprecated CloseNotifier is not among them: the context of a request replaces it.
package abilities

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// Layer is a ResponseWriter around another one, without the optional interfaces themselves.
type Layer interface {
	http.ResponseWriter
	// FlushError flushes, and returns the error of the inner writer, which is
	// [http.ErrNotSupported] if that cannot flush.
	FlushError() error
	// CopyFrom is ReadFrom of [io.ReaderFrom]. It is called only if the inner writer has it.
	CopyFrom(src io.Reader) (int64, error)
	// TakeOver is Hijack of [http.Hijacker]. It is called only if the inner writer has it.
	TakeOver() (net.Conn, *bufio.ReadWriter, error)
}

// Writer is the part of a Layer that [Writer.Around] needs. A Layer that has it as a field costs
// no further allocation.
type Writer struct {
	Layer
	inner http.ResponseWriter
}

// Around returns the layer as a ResponseWriter with the optional interfaces of inner. Whether
// inner flushes, and whether its connection can be taken over, is asked as
// [http.ResponseController] does, through Unwrap. ReadFrom must be of inner itself: that of a
// writer further inside would pass by those between. With hijack false, the connection cannot be
// taken over.
func (w *Writer) Around(layer Layer, inner http.ResponseWriter, hijack bool) http.ResponseWriter {
	w.Layer, w.inner = layer, inner
	_, reads := inner.(io.ReaderFrom)
	return w.with(has(inner, isFlusher), reads, hijack && has(inner, isHijacker))
}

// with returns the writer with some of the interfaces.
func (w *Writer) with(flushes, reads, hijacks bool) http.ResponseWriter {
	switch [...]bool{flushes, reads, hijacks} {
	case [...]bool{true, true, true}:
		return all{w}
	case [...]bool{true, true, false}:
		return flushReads{w}
	case [...]bool{true, false, true}:
		return flushHijacks{w}
	case [...]bool{false, true, true}:
		return readHijacks{w}
	case [...]bool{true, false, false}:
		return flushOnly{w}
	case [...]bool{false, true, false}:
		return readsOnly{w}
	case [...]bool{false, false, true}:
		return hijacksOnly{w}
	}
	return w
}

// has reports whether a writer, or one that it wraps, has an ability.
func has(w http.ResponseWriter, ability func(http.ResponseWriter) bool) bool {
	for w != nil {
		if ability(w) {
			return true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = outer.Unwrap()
	}
	return false
}

func isFlusher(w http.ResponseWriter) bool {
	if _, ok := w.(http.Flusher); ok {
		return true
	}
	if _, ok := w.(interface{ isWriter() }); ok {
		return false // ours have FlushError in any case
	}
	_, ok := w.(interface{ FlushError() error })
	return ok
}

func (w *Writer) isWriter() {}

func isHijacker(w http.ResponseWriter) bool {
	_, ok := w.(http.Hijacker)
	return ok
}

// SetReadDeadline is for [http.ResponseController].
func (w *Writer) SetReadDeadline(at time.Time) error { return w.control().SetReadDeadline(at) }

// SetWriteDeadline is for [http.ResponseController].
func (w *Writer) SetWriteDeadline(at time.Time) error { return w.control().SetWriteDeadline(at) }

// EnableFullDuplex is for [http.ResponseController].
func (w *Writer) EnableFullDuplex() error { return w.control().EnableFullDuplex() }

func (w *Writer) control() *http.ResponseController { return http.NewResponseController(w.inner) }

// The types with one, two or three of the interfaces. Each is one pointer, so that none is
// allocated.
type (
	flushOnly    struct{ *Writer }
	readsOnly    struct{ *Writer }
	hijacksOnly  struct{ *Writer }
	flushReads   struct{ *Writer }
	flushHijacks struct{ *Writer }
	readHijacks  struct{ *Writer }
	all          struct{ *Writer }
)

func (w *Writer) flush() { _ = w.FlushError() } // http.Flusher returns no error

// Flush implements http.Flusher.
func (w flushOnly) Flush() { w.flush() }

// Flush implements http.Flusher.
func (w flushReads) Flush() { w.flush() }

// Flush implements http.Flusher.
func (w flushHijacks) Flush() { w.flush() }

// Flush implements http.Flusher.
func (w all) Flush() { w.flush() }

// ReadFrom implements io.ReaderFrom.
func (w readsOnly) ReadFrom(src io.Reader) (int64, error) { return w.CopyFrom(src) }

// ReadFrom implements io.ReaderFrom.
func (w flushReads) ReadFrom(src io.Reader) (int64, error) { return w.CopyFrom(src) }

// ReadFrom implements io.ReaderFrom.
func (w readHijacks) ReadFrom(src io.Reader) (int64, error) { return w.CopyFrom(src) }

// ReadFrom implements io.ReaderFrom.
func (w all) ReadFrom(src io.Reader) (int64, error) { return w.CopyFrom(src) }

// Hijack implements http.Hijacker.
func (w hijacksOnly) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.TakeOver() }

// Hijack implements http.Hijacker.
func (w flushHijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.TakeOver() }

// Hijack implements http.Hijacker.
func (w readHijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.TakeOver() }

// Hijack implements http.Hijacker.
func (w all) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.TakeOver() }
