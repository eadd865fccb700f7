// Package redistest starts a real redis-server process for tests.
//
// The server listens on a free loopback port, keeps nothing on disk and ends with the
// test. A machine without redis-server fails the test: nothing is skipped.
//
// Example:
//
//	backend, err := redis.Open(ctx, redis.Options{URL: redistest.StartServer(t)})
package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startTime is how long a server may take until it answers.
const startTime = 10 * time.Second

// StartServer starts a redis-server and returns its redis:// URL. Further arguments go
// to the server as they are, for example "--requirepass", "secret".
func StartServer(t testing.TB, args ...string) (url string) {
	t.Helper()
	return "redis://" + start(t, func(host, port string) []string {
		return append([]string{
			"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
		}, args...)
	})
}

// StartSentinel starts a sentinel that watches the server at a redis:// URL under name,
// and returns its redis+sentinel:// URL. Its own vote is enough for a failover.
func StartSentinel(t testing.TB, name, server string) (url string) {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(server, "redis://"))
	if err != nil {
		t.Fatalf("redistest: %q is not redis://host:port", server)
	}
	return "redis+sentinel://" + start(t, func(ownHost, ownPort string) []string {
		dir := t.TempDir()
		config := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("bind %s\nport %s\ndir %s\nsentinel monitor %s %s %s 1\n", ownHost, ownPort, dir, name, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		return []string{config, "--sentinel"}
	}) + "/" + name
}

// start runs redis-server on a free address and returns the address.
func start(t testing.TB, args func(host, port string) []string) (addr string) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redistest: %v: install redis-server to run this test", err)
	}
	// Another process may take the port between the choice and the start.
	for range 3 {
		addr := freeAddress(t)
		host, port, _ := net.SplitHostPort(addr)
		if run(t, exec.Command(binary, args(host, port)...), addr) {
			return addr
		}
	}
	t.Fatal("redistest: redis-server did not start; its output is above")
	return ""
}

// run starts cmd and reports whether it answers at addr. The process ends with the test.
func run(t testing.TB, cmd *exec.Cmd, addr string) bool {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	if answers(addr, ended) {
		t.Cleanup(stop)
		return true
	}
	stop()
	t.Logf("redistest: %s:\n%s", cmd, output.String())
	return false
}

// answers waits until the server at addr answers, or has ended.
func answers(addr string, ended <-chan struct{}) bool {
	deadline := time.Now().Add(startTime)
	for time.Now().Before(deadline) {
		if ping(addr) == nil {
			break
		}
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	select {
	case <-ended: // somebody else answered at this address
		return false
	default:
		return time.Now().Before(deadline)
	}
}

// ping accepts every reply that a ready server gives, including one that asks for a
// password.
func ping(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("redistest: not ready: %s", strings.TrimSpace(line))
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
