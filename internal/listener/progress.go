package listener

import (
	"errors"
	"net"
	"os"
	"time"
)

// unsentBytes is how much of its answers a connection may hold that is not on its way yet. It bounds
// what requests cost whose answers nobody reads, and makes Write return often enough that a slow
// reader is told from one that reads nothing: a client is taken to read nothing if it takes less
// than about half of this in writeTime.
const unsentBytes = 32 << 10

// Write writes for as long as the client takes anything: it ends with [os.ErrDeadlineExceeded] when
// nothing was taken for the time of stall, or at a deadline that was set. A stream that is quiet is
// in no Write. HTTP has no other bound on an answer that may last, and TLS cannot have this one
// above it: its state is lost with the first Write that ends early.
func (g *limitedConn) Write(p []byte) (written int, err error) {
	for {
		if err := g.renew(); err != nil {
			return written, err
		}
		n, err := g.Conn.Write(p[written:])
		if written += n; err == nil || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || g.expired() {
			return written, err
		}
	}
}

// renew gives a Write its time, less if a deadline that was set is before that.
func (g *limitedConn) renew() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = time.Now().Add(g.stall)
	return g.Conn.SetWriteDeadline(g.deadline())
}

// deadline returns the earlier one of the deadline that was set and that of the Write.
func (g *limitedConn) deadline() time.Time {
	if g.set.IsZero() || !g.own.IsZero() && g.own.Before(g.set) {
		return g.own
	}
	return g.set
}

// expired reports whether the deadline that was set has passed.
func (g *limitedConn) expired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.set.IsZero() && !time.Now().Before(g.set)
}

// SetWriteDeadline sets a deadline beside that of progress, also for a Write that is under way.
func (g *limitedConn) SetWriteDeadline(at time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set = at
	return g.Conn.SetWriteDeadline(g.deadline())
}

// SetDeadline sets both deadlines.
func (g *limitedConn) SetDeadline(at time.Time) error {
	if err := g.SetReadDeadline(at); err != nil {
		return err
	}
	return g.SetWriteDeadline(at)
}

// boundUnsent bounds what a connection of TCP holds unsent. It changes nothing where the system
// cannot do that: then a client must take more before it counts as reading.
func boundUnsent(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { setUnsent(fd, unsentBytes) })
		}
	}
}
