package listener

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"gatehouse.example/internal/abilities"
)

// pieceBytes is how much of an answer over HTTP/2 has to find room in the window of its client at a
// time: that of a frame.
const pieceBytes = 16 << 10

// windowed returns a handler that resets a stream of HTTP/2 whose client opens no window for an
// answer that waits, for the time of stall. Nothing is written to the connection meanwhile, so it is
// not for [limitedConn.Write] to see (RFC 9113 section 10.5: an endpoint can be made to hold what it
// may not send). A quiet stream has no answer that waits.
func windowed(next http.Handler, stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		s := &stream{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
		next.ServeHTTP(s.able.Around(s, w, false), r)
		_ = s.control.SetWriteDeadline(time.Now().Add(stall)) // net/http sends the rest of its buffer after this
	})
}

// stream is the answer to a request of HTTP/2.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	able    abilities.Writer
}

// within resets the stream if do takes longer than its client may let it wait.
func (s *stream) within(do func() error) error {
	reset := make(chan struct{})
	timer := time.AfterFunc(s.stall, func() {
		defer close(reset)
		_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !timer.Stop() {
			<-reset // the handler must not end before, and the writer with it
		}
	}()
	return do()
}

// Write writes in pieces, each of which has its time.
func (s *stream) Write(p []byte) (written int, err error) {
	for first := true; err == nil && (first || written < len(p)); first = false {
		err = s.within(func() error {
			n, err := s.ResponseWriter.Write(p[written:min(len(p), written+pieceBytes)])
			written += n
			return err
		})
	}
	return written, err
}

// FlushError flushes.
func (s *stream) FlushError() error { return s.within(s.control.Flush) }

// CopyFrom is never called: a stream of HTTP/2 has no ReadFrom.
func (s *stream) CopyFrom(src io.Reader) (int64, error) { return io.Copy(s, src) }

// TakeOver is never called: a stream of HTTP/2 cannot be taken over.
func (s *stream) TakeOver() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}
