package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// silent returns an address that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	p := newProxy(t, "")
	p.set(swallow)
	return p.addr
}

// What a proxy does with the bytes of a client.
const (
	pass    = iota // everything goes through
	swallow        // requests are lost, and the client is not notified
	mute           // requests arrive, replies are lost
	hangUp         // requests arrive, then the connection is closed
	reset          // requests are lost and the connection is closed
)

// proxy is a proxy between a client and a server that loses messages on command.
type proxy struct {
	addr   string
	server string
	mode   atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), server: server}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.keep(conn)
			running.Go(func() { p.serve(conn, &running) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		running.Wait()
	})
	return p
}

func (p *proxy) set(mode int32) { p.mode.Store(mode) }

func (p *proxy) keep(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *proxy) serve(client net.Conn, running *sync.WaitGroup) {
	defer client.Close()
	if p.server == "" {
		_, _ = io.Copy(io.Discard, client)
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.keep(server)
	running.Go(func() { p.replies(client, server) })
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch p.mode.Load() {
		case swallow:
			continue
		case reset:
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) replies(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		switch p.mode.Load() {
		case mute:
			continue
		case hangUp:
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestUncertain: when a write can have reached the server and no reply came, its outcome is
// unknown, whatever the server did; a read is just an error.
func TestUncertain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		mode    int32
		applied bool
	}{
		{"request lost", swallow, false},
		{"reply lost", mute, true},
		{"closed before the reply", hangUp, true},
		{"closed before the request", reset, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			p := newProxy(t, m.Addr())
			b := open(t, redis.Options{URL: "redis://" + p.addr})
			defer b.Close()
			put(t, b, storage.Put{Key: "warm", Operation: storage.Version{1}})

			p.set(test.mode)
			for _, w := range writes(t.Context(), b) {
				start := time.Now()
				if err := w.do(); !errors.Is(err, storage.ErrUncertain) {
					t.Errorf("%s returned error %v; want %v", w.what, err, storage.ErrUncertain)
				}
				if took := time.Since(start); took > operationWithin {
					t.Errorf("%s took %v", w.what, took)
				}
			}
			_, err := b.Get(t.Context(), "warm")
			if items, err := b.GetMany(t.Context(), []string{"warm", "k"}); err == nil || items != nil || errors.Is(err, storage.ErrUncertain) {
				t.Errorf("GetMany returned %d items, %v; want an error of no kind", len(items), err)
			}
			if err == nil || errors.Is(err, storage.ErrUncertain) || errors.Is(err, storage.ErrNotFound) {
				t.Errorf("Get returned error %v; want one of no kind", err)
			}
			if applied := m.Exists("k"); applied != test.applied {
				t.Errorf("the write was applied: %t; want %t", applied, test.applied)
			}
			p.set(pass)
			if _, err := b.Get(t.Context(), "warm"); err != nil {
				t.Errorf("Get after the fault: %v", err)
			}
			put(t, b, storage.Put{Key: "k", Operation: storage.Version{1}}) // the same operation
		})
	}
}

// call is one call of a method.
type call struct {
	what string
	do   func() error
}

// writes returns calls of all methods that change the database.
func writes(ctx context.Context, b storage.Backend) []call {
	return []call{
		{"Put", func() error {
			_, err := b.Put(ctx, storage.Put{Key: "k", Operation: storage.Version{1}})
			return err
		}},
		{"Delete", func() error { return b.Delete(ctx, "deleted") }},
		{"IndexAdd", func() error { return b.IndexAdd(ctx, "index", "entry") }},
		{"IndexRemove", func() error { return b.IndexRemove(ctx, "index", "other") }},
	}
}

// TestDeadline: the context's deadline holds, also when it is short.
func TestDeadline(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	p := newProxy(t, m.Addr())
	b := open(t, redis.Options{URL: "redis://" + p.addr})
	defer b.Close()
	p.set(swallow)
	for what, call := range map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := b.Get(ctx, "k"); return err },
		"Put": func(ctx context.Context) error { return writes(ctx, b)[0].do() },
	} {
		quickest := time.Hour // of several, because the machine may stall
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			start := time.Now()
			err := call(ctx)
			cancel()
			if err == nil {
				t.Fatalf("%s succeeded without an answer", what)
			}
			if quickest = min(quickest, time.Since(start)); quickest <= slow {
				break
			}
		}
		if quickest > slow {
			t.Errorf("%s returned after %v; want an error after 50ms", what, quickest)
		}
	}
}

// TestCertain: a write that did not leave the process, or that the server refused, did not
// happen, and its error is not ErrUncertain.
func TestCertain(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	b := open(t, redis.Options{URL: "redis://" + m.Addr()})
	defer b.Close()
	check := func(when string, wanted string) {
		t.Helper()
		for _, w := range writes(t.Context(), b) {
			err := w.do()
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%s: %s returned error %v; want one with %q", when, w.what, err, wanted)
			}
			for _, kind := range []error{storage.ErrUncertain, storage.ErrNotFound, storage.ErrConflict, storage.ErrRecord} {
				if errors.Is(err, kind) {
					t.Errorf("%s: %s returned error %v, which is %v", when, w.what, err, kind)
				}
			}
		}
	}
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"NOAUTH Authentication required.",
		"NOPERM this user has no permissions",
		"MISCONF Redis is configured to save RDB snapshots",
		"NOREPLICAS Not enough good replicas to write.",
		"MASTERDOWN Link with MASTER is down",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"BUSY Redis is busy running a script.",
		"ERR max number of clients reached",
	} {
		m.SetError(reply)
		check("the server answers "+reply, strings.Fields(reply)[0])
	}
	m.SetError("")
	put(t, b, storage.Put{Key: "after", Operation: storage.Version{1}})
	m.Close()
	check("the server is gone", "")
}

// TestRecovery: a server that comes back is used again.
func TestRecovery(t *testing.T) {
	before := runtime.NumGoroutine()
	m := miniredis.RunT(t)
	b := open(t, redis.Options{URL: "redis://" + m.Addr()})
	put(t, b, storage.Put{Key: "k", Operation: storage.Version{1}})
	m.Close()
	for range 100 {
		if _, err := b.Get(t.Context(), "k"); err == nil {
			t.Fatal("Get from a stopped server succeeded")
		}
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := b.Get(t.Context(), "k"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("Get after the server came back: %v", err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	m.Close()
	wantGoroutines(t, before)
}
