package middleware

import (
	"bufio"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"
)

// writer returns the ResponseWriter that the handler gets. It has the optional interfaces of the
// one inside, except for http.Hijacker in front of a server of the protocol: on a connection that
// was taken over, the guard would neither see messages nor bind sessions. A response that the
// guard never changes goes to the writer of the listener itself.
func (o *response) writer() http.ResponseWriter {
	if !o.strict && !o.readsStreams() && !o.ends() {
		return o.ResponseWriter
	}
	return o.able.Around(o, o.ResponseWriter, !o.guard.policy.reads && o.guard.sessions == nil)
}

// ends reports whether the response ends with the token.
func (o *response) ends() bool { return o.guard.ends && o.token != nil }

// writerOnly hides all methods but Write from io.Copy.
type writerOnly struct{ io.Writer }

// CopyFrom implements the interface of abilities.Layer: a response that is forwarded as it is
// comes from a file without a copy in memory, if the listener can do that.
func (o *response) CopyFrom(src io.Reader) (int64, error) {
	if !o.began {
		o.WriteHeader(http.StatusOK)
	}
	if o.body == nil {
		return o.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	}
	return io.Copy(writerOnly{o.body}, src)
}

// TakeOver implements the interface of abilities.Layer. With Config.EndStreams the connection
// ends with the token: nothing else would end it, because its handler may have returned.
func (o *response) TakeOver() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(o.ResponseWriter).Hijack()
	if err != nil || !o.ends() {
		return conn, buffered, err
	}
	ending := &endingConn{Conn: conn}
	ending.timer = time.AfterFunc(math.MaxInt64, ending.end) // never: the timer must be in its place before it fires
	ending.timer.Reset(o.guard.lifeOf(o.token))
	return ending, buffered, nil
}

// endingConn is a connection that ends at a time.
type endingConn struct {
	net.Conn
	timer *time.Timer
	once  sync.Once
	err   error
}

func (c *endingConn) end() { _ = c.Close() } // nobody waits for the error

// Close implements net.Conn.
func (c *endingConn) Close() error {
	c.once.Do(func() {
		c.timer.Stop()
		c.err = c.Conn.Close()
	})
	return c.err
}
