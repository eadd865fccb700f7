package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
)

// held is a store whose IndexAdd begins and then waits.
type held struct {
	storage.Backend
	begun, goOn chan struct{}
}

func (h held) IndexAdd(ctx context.Context, index, entry string) error {
	h.begun <- struct{}{}
	<-h.goOn
	return h.Backend.IndexAdd(ctx, index, entry)
}

// TestCloseWaits: a request that was begun is answered although the server is being closed, and
// nobody else is served meanwhile. Close returns after it.
func TestCloseWaits(t *testing.T) {
	onLinux(t)
	t.Parallel()
	path, b := openFile(t)
	h := held{b, make(chan struct{}), make(chan struct{})}
	server, err := local.Serve(path, h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered, closed := make(chan error, 1), make(chan error, 1)
	go func() { answered <- c.IndexAdd(t.Context(), "index", "entry") }()
	<-h.begun
	go func() { closed <- server.Close() }()
	for { // until nothing listens
		other, err := local.Open(t.Context(), path)
		if errors.Is(err, local.ErrNoServer) {
			break
		}
		if err == nil {
			_ = other.Close()
		}
	}
	select {
	case err := <-closed:
		t.Error("it was closed before the request ended: ", err)
	case err := <-answered:
		t.Error("the request ended at once: ", err)
	default:
	}
	close(h.goOn)
	if err := <-answered; err != nil {
		t.Error("the request: ", err)
	}
	if err := <-closed; err != nil {
		t.Error("the end: ", err)
	}
	if n, err := b.IndexLen(t.Context(), "index"); n != 1 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}

// TestCloseIsBounded: a request that does not end keeps nobody from closing the server. Its outcome
// is unknown.
func TestCloseIsBounded(t *testing.T) {
	onLinux(t)
	t.Parallel()
	path, b := openFile(t)
	h := held{b, make(chan struct{}), make(chan struct{})}
	defer close(h.goOn)
	server, err := local.ServeHasty(path, h, 4, time.Hour, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() { answered <- c.IndexAdd(t.Context(), "index", "entry") }()
	<-h.begun
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-answered; !errors.Is(err, storage.ErrUncertain) {
		t.Errorf("the request returned %v", err)
	}
}

func connect(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(path+".socket", "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestConnectionsAreBounded: with as many connections as there may be, the next one is answered when
// one of them ends.
func TestConnectionsAreBounded(t *testing.T) {
	onLinux(t)
	t.Parallel()
	path, b := openFile(t)
	server, err := local.ServeHasty(path, b, 2, time.Hour, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	first, second := connect(t, path), connect(t, path)
	// They are accepted in their order, so a third one waits.
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if c, err := local.Open(soon, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third connection: %v, %v", c, err)
	}
	_ = first.Close()
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.IndexAdd(t.Context(), "index", "entry"), c.Close(), second.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}

// TestSlowRequest: a request that does not come to its end is given up, wherever it stops, and
// nothing is done.
func TestSlowRequest(t *testing.T) {
	onLinux(t)
	t.Parallel()
	path, b := openFile(t)
	server, err := local.ServeHasty(path, b, 8, 50*time.Millisecond, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	body := local.PackAdd("index", "entry")
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: store\r\nContent-Length: %d\r\n", local.OperationPath, len(body))
	for _, sent := range []string{"", head, head + "\r\n", head + "\r\n" + string(body[:len(body)-1])} {
		conn := connect(t, path)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil || strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("after %q: %q, %v", sent, answer, err)
		}
	}
	if n, err := b.IndexLen(t.Context(), "index"); n != 0 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}

// TestSilentServer: whoever listens and does not answer is not taken for nobody.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	path, _ := openFile(t)
	if err := os.Mkdir(path+".socket", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(path+".socket", "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := local.Open(soon, path); err == nil || errors.Is(err, local.ErrNoServer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it returned %v", err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	if _, err := local.Open(t.Context(), path); err == nil || errors.Is(err, local.ErrNoServer) || !strings.Contains(err.Error(), "unless its own user or root asks") {
		t.Errorf("a server that hangs up: %v", err)
	}
}

// TestLongPath: the path of the file may be as long as a path may be, although that of a socket may
// not.
func TestLongPath(t *testing.T) {
	onLinux(t)
	t.Parallel()
	for _, n := range []int{20, 100, 107, 200} {
		folder := filepath.Join(t.TempDir(), strings.Repeat("a", n))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "db")
		b, err := file.Open(file.Options{Path: path, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		server, err := local.Serve(path, b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := local.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.IndexAdd(t.Context(), "index", "entry"), c.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(path + ".socket"); len(left) != 0 || err != nil {
			t.Errorf("%d: what is left: %v, %v", n, left, err)
		}
		if _, err := local.Open(t.Context(), path); !errors.Is(err, local.ErrNoServer) {
			t.Errorf("%d: without a server: %v", n, err)
		}
	}
}

// TestLongPathElsewhere: on a system without shortcuts, a path that is too long is a sentence.
func TestLongPathElsewhere(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, n := range []int{local.Longest, local.Longest + 1} {
		folder := filepath.Join(top, strings.Repeat("a", n-len(top+"//store")))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		address, err := local.AddressElsewhere(folder)
		if long := n > local.Longest; (err != nil) != long || !long && address != filepath.Join(folder, "store") {
			t.Errorf("%d: %q, %v", n, address, err)
		}
		if want := fmt.Sprintf("has %d bytes, and this system allows %d: give the file a shorter path", n, local.Longest); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("it said %q, without %q", err, want)
		}
	}
}
