package redistest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// patience bounds a wait for an event that comes by itself.
const patience = 20 * time.Second

// until waits until check returns true.
func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %v", what, patience)
		}
	}
}

// echo is a server that returns what it receives, and counts it.
type echo struct {
	listener net.Listener
	running  sync.WaitGroup
	mu       sync.Mutex
	got      int
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener}
	e.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.running.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.got += n
		e.mu.Unlock()
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (e *echo) received() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

// dial connects through the proxy and checks that the server answers.
func dial(t *testing.T, p *redistest.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := exchange(conn, patience); err != nil {
		t.Fatalf("a new connection: %v", err)
	}
	return conn
}

// exchange sends one byte and waits for its echo.
func exchange(conn net.Conn, within time.Duration) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	return receive(conn, within)
}

func receive(conn net.Conn, within time.Duration) error {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// moment is long enough for an echo over loopback without faults.
const moment = 200 * time.Millisecond

func TestProxyLatency(t *testing.T) {
	for _, d := range []redistest.Direction{redistest.Requests, redistest.Replies} {
		e := startEcho(t)
		p := redistest.StartProxy(t, e.listener.Addr().String())
		old := dial(t, p)
		p.Latency(d, 10*time.Millisecond, 0)
		p.Latency(d, 300*time.Millisecond, 100*time.Millisecond) // replaces
		for _, conn := range []net.Conn{old, dial(t, p)} {
			start := time.Now()
			if err := exchange(conn, patience); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < 200*time.Millisecond {
				t.Errorf("direction %d: an exchange took %v; want 200 to 400ms", d, took)
			}
		}
		p.Latency(d, time.Hour, 0)
		before := e.received()
		if err := exchange(old, moment); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("direction %d: an exchange under a delay of an hour: %v", d, err)
		}
		if arrived := e.received() > before; arrived != (d == redistest.Replies) {
			t.Errorf("direction %d: the request arrived: %t", d, arrived)
		}
		p.Clear()
		if err := receive(old, patience); err != nil {
			t.Errorf("direction %d: the delayed byte after Clear: %v", d, err)
		}
		if err := exchange(old, patience); err != nil {
			t.Errorf("direction %d: an exchange after Clear: %v", d, err)
		}
	}
}

// TestProxyLate: a request that was sent arrives, also if its client has given up.
func TestProxyLate(t *testing.T) {
	e := startEcho(t)
	p := redistest.StartProxy(t, e.listener.Addr().String())
	conn := dial(t, p)
	p.Latency(redistest.Requests, 300*time.Millisecond, 0)
	if _, err := conn.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if got := e.received(); got != 1 {
		t.Errorf("%d bytes have arrived; want the first one", got)
	}
	until(t, "the late request", func() bool { return e.received() == 5 })
}

func TestProxyBlackHole(t *testing.T) {
	for _, d := range []redistest.Direction{redistest.Requests, redistest.Replies} {
		e := startEcho(t)
		p := redistest.StartProxy(t, e.listener.Addr().String())
		torn, idle := dial(t, p), dial(t, p)
		before := e.received()
		p.BlackHole(d)
		for range 2 {
			if err := exchange(torn, moment); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("direction %d: an exchange with a black hole: %v; want silence", d, err)
			}
		}
		if arrived := e.received() - before; (d == redistest.Replies) != (arrived == 2) || (d == redistest.Requests) != (arrived == 0) {
			t.Errorf("direction %d: %d of 2 requests arrived", d, arrived)
		}
		p.Clear()
		if err := exchange(torn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("direction %d: after Clear, a connection that has lost something: %v; want it closed", d, err)
		}
		if err := exchange(idle, patience); err != nil {
			t.Errorf("direction %d: after Clear, a connection that has lost nothing: %v", d, err)
		}
		dial(t, p)
	}
}

func TestProxyReset(t *testing.T) {
	e := startEcho(t)
	p := redistest.StartProxy(t, e.listener.Addr().String())
	conns := []net.Conn{dial(t, p), dial(t, p)}
	p.Reset()
	for _, conn := range conns {
		if err := receive(conn, patience); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after Reset a read returned %v; want a reset", err)
		}
	}
	dial(t, p)
}

func TestProxyResetOn(t *testing.T) {
	for _, d := range []redistest.Direction{redistest.Requests, redistest.Replies} {
		e := startEcho(t)
		p := redistest.StartProxy(t, e.listener.Addr().String())
		conn, idle := dial(t, p), dial(t, p)
		before := e.received()
		p.ResetOn(d)
		if err := exchange(conn, patience); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("direction %d: an exchange returned %v; want a reset", d, err)
		}
		if arrived := e.received() > before; arrived != (d == redistest.Replies) {
			t.Errorf("direction %d: the request arrived: %t", d, arrived)
		}
		p.Clear()
		if err := exchange(idle, patience); err != nil {
			t.Errorf("direction %d: after Clear, a connection that was idle: %v", d, err)
		}
	}
}

func TestProxyCut(t *testing.T) {
	e := startEcho(t)
	p := redistest.StartProxy(t, e.listener.Addr().String())
	conn := dial(t, p)
	for range 3 {
		addr := p.Addr
		p.Cut()
		p.Cut() // changes nothing
		if err := receive(conn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after Cut a read returned %v; want the end", err)
		}
		if other, err := net.Dial("tcp", addr); err == nil {
			other.Close()
			t.Error("after Cut somebody listens")
		}
		p.Restore()
		p.Restore() // changes nothing
		if p.Addr != addr {
			t.Errorf("the address was %s, is %s", addr, p.Addr)
		}
		conn = dial(t, p)
	}
}

// TestProxyWithoutServer: a connection while the server is away is closed, and one after its
// return works.
func TestProxyWithoutServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	p := redistest.StartProxy(t, listener.Addr().String())
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := receive(conn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read without a server returned %v; want the end", err)
	}
}

// TestProxyGoroutines: after Close no goroutine is left, whatever bytes and faults there were.
func TestProxyGoroutines(t *testing.T) {
	for name, fault := range map[string]func(*redistest.Proxy){
		"none":              func(*redistest.Proxy) {},
		"latency":           func(p *redistest.Proxy) { p.Latency(redistest.Requests, 20*time.Millisecond, 20*time.Millisecond) },
		"held requests":     func(p *redistest.Proxy) { p.Latency(redistest.Requests, time.Hour, 0) },
		"held replies":      func(p *redistest.Proxy) { p.Latency(redistest.Replies, time.Hour, 0) },
		"requests lost":     func(p *redistest.Proxy) { p.BlackHole(redistest.Requests) },
		"replies lost":      func(p *redistest.Proxy) { p.BlackHole(redistest.Replies) },
		"reset":             (*redistest.Proxy).Reset,
		"reset on requests": func(p *redistest.Proxy) { p.ResetOn(redistest.Requests) },
		"reset on replies":  func(p *redistest.Proxy) { p.ResetOn(redistest.Replies) },
		"cut":               (*redistest.Proxy).Cut,
		"many": func(p *redistest.Proxy) {
			for range 5 {
				p.Latency(redistest.Requests, 5*time.Millisecond, 5*time.Millisecond)
				p.Latency(redistest.Replies, 5*time.Millisecond, 0)
				p.BlackHole(redistest.Replies)
				p.Clear()
				p.Reset()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := startEcho(t)
			before := runtime.NumGoroutine()
			p := redistest.StartProxy(t, e.listener.Addr().String())
			var running sync.WaitGroup
			stop := make(chan struct{})
			for range 20 {
				running.Go(func() { chatter(p.Addr, stop) })
			}
			until(t, "traffic", func() bool { return e.received() > 1000 })
			fault(p)
			time.AfterFunc(moment, func() { close(stop) })
			<-stop
			p.Close()
			p.Close() // changes nothing
			running.Wait()
			until(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// chatter sends without waiting for the echo, over one connection after the other.
func chatter(addr string, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		_ = conn.SetDeadline(time.Now().Add(moment))
		for range 200 {
			if _, err := conn.Write([]byte("a few bytes")); err != nil {
				break
			}
		}
		conn.Close()
		reading.Wait()
	}
}

// TestProxyHangUp: when the server closes the connection in the middle of a long request, the
// rest of the request does not block.
func TestProxyHangUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := runtime.NumGoroutine()
	p := redistest.StartProxy(t, listener.Addr().String())
	p.Latency(redistest.Requests, moment, 0) // everything is sent when the first bytes arrive
	client, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := receive(server, patience); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := receive(client, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client read %v; want the end", err)
	}
	p.Close()
	until(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}
