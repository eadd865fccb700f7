// Package redistest runs real Redis processes for tests, and breaks them on command.
//
// [Start] runs one server, which can be killed, restarted over its files, paused, and made the
// replica of another. [StartSentinels] runs sentinels for such servers, [StartCluster] a cluster
// whose slots can be moved, [StartProxy] a proxy with faults in front of any of them.
//
// Everything listens on loopback and ends with the test, paused processes included. When the test
// has failed, the end of each server's output is logged. On a machine without redis-server (7.0
// or newer) the test fails: nothing is skipped. A method that cannot do its work fails the test
// as well.
//
// Example:
//
//	server := redistest.Start(t, redistest.Config{Persistent: true})
//	backend, err := redis.Open(ctx, redis.Options{URL: server.URL()})
//	...
//	server.Restart() // kill -9, then read the append-only file
package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// startTime is how long a server may take to answer for the first time, on a busy machine.
	startTime = 30 * time.Second
	// settleTime is how long servers may take to agree.
	settleTime = 60 * time.Second
	// host is the address of all listeners.
	host = "127.0.0.1"
)

// Config describes a server to start. The zero value is a server that keeps nothing on disk.
type Config struct {
	// Persistent makes the server write to disk before it answers (appendonly yes, appendfsync
	// always), so that Kill and Restart lose nothing. Set it for tests of restarts.
	Persistent bool
	// ReplicaOf makes the server a replica. Start returns when the replica is in step.
	ReplicaOf *Server
	// Through is the address at which a replica reaches ReplicaOf, for example that of a Proxy;
	// if empty, that of the server. See [Server.Replicate].
	Through string
	// Args are further arguments of redis-server, for example "--requirepass", "secret".
	Args []string
}

// Server is one redis-server. Its methods may be called from any goroutine of the test,
// but only one of them at a time may start or stop the process.
type Server struct {
	// Addr is host:port, the same after each restart.
	Addr string

	t      testing.TB
	binary string
	dir    string
	args   []string
	client *goredis.Client
	adjust func() error // run for each new process, nil for nothing

	mu      sync.Mutex
	process *process // nil when none runs
	over    bool     // the test has ended
}

// process is a child process and the channel that is closed at its end.
type process struct {
	*os.Process
	ended chan struct{}
}

// StartServer starts a server that keeps nothing on disk and returns its redis:// URL.
func StartServer(t testing.TB, args ...string) (url string) {
	t.Helper()
	return Start(t, Config{Args: args}).URL()
}

// Start starts a server and returns when it answers.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s := launch(t, c.settings())
	if c.ReplicaOf != nil {
		s.Replicate(c.ReplicaOf, c.Through)
	}
	return s
}

// settings returns the lines of the server's file, to which it also writes later changes: a
// replica stays one when it is restarted, and a promoted one stays a primary. A replica that was
// filled over a file is in step at once, otherwise only after up to a second.
func (c Config) settings() string {
	text := "save \"\"\nrepl-diskless-sync no\n"
	if c.Persistent {
		text += "appendonly yes\nappendfsync always\n"
	}
	for _, arg := range c.Args {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			text += "\n" + name
		} else {
			text += " " + strconv.Quote(arg)
		}
	}
	return text + "\n"
}

// launch starts redis-server at a free address with these settings and flags.
func launch(t testing.TB, settings string, flags ...string) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redistest: %v: install redis-server to run this test", err)
	}
	// Another process may take the port between the choice and the start.
	for range 3 {
		s := newServer(t, binary, settings, flags)
		if err = s.run(); err == nil {
			return s
		}
		t.Logf("redistest: %v\n%s", err, s.output())
	}
	t.Fatal("redistest: redis-server did not start; its output is above")
	return nil
}

func newServer(t testing.TB, binary, settings string, flags []string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddress(t), t: t, binary: binary, dir: t.TempDir()}
	file := filepath.Join(s.dir, "settings")
	s.args = append([]string{file}, flags...)
	_, port, _ := net.SplitHostPort(s.Addr)
	settings += fmt.Sprintf("bind %s\nport %s\ndir %s\n", host, port, strconv.Quote(s.dir))
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.client = newClient(s.Addr)
	t.Cleanup(s.end)
	return s
}

// URL returns the redis:// URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client returns a plain client of the server, for a test that reads the database directly. It
// sends no password.
func (s *Server) Client() *goredis.Client { return s.client }

// Kill ends the process with SIGKILL and waits for its end. It does nothing if the process does
// not run.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.process != nil {
		_ = s.process.Kill() // fails only when it has ended
		<-s.process.ended
		s.process = nil
	}
}

// ended reports whether no process runs.
func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process == nil
}

// Restart starts the process again, killing it first if it runs: the same port, the same
// directory. It returns when the server answers and has read its files. A former replica is one
// again, and a primary that was superseded meanwhile is still a primary.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatalf("redistest: restart: %v\n%s", err, s.output())
	}
}

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.t.Fatalf("redistest: %v to %s, which does not run", sig, s.Addr)
	}
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v to %s: %v", sig, s.Addr, err)
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errors.New("the test has ended")
	}
	cmd := exec.Command(s.binary, s.args...)
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process = &process{cmd.Process, make(chan struct{})}
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait()
	}(s.process.ended)
	if err := s.awaitAnswer(); err != nil {
		s.kill()
		return fmt.Errorf("%s: %w", cmd, err)
	}
	if s.adjust != nil {
		return s.adjust()
	}
	return nil
}

// awaitAnswer waits until the process answers, or has ended.
func (s *Server) awaitAnswer() error {
	deadline := time.Now().Add(startTime)
	for {
		err := ping(s.Addr)
		select {
		case <-s.process.ended: // also when another process answered at this address
			return errors.New("it has ended")
		default:
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ping accepts every reply of a ready server, including an error that asks for a password. A
// server that is loading its files is not ready.
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
	return fmt.Errorf("not ready: %s", strings.TrimSpace(line))
}

// end is called at the end of the test.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.kill()
	_ = s.client.Close()
	if s.t.Failed() {
		s.t.Logf("redistest: the output of %s ends with\n%s", s.Addr, s.output())
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "output") }

// output returns the end of the server's output, over all its starts.
func (s *Server) output() string {
	const most = 4 << 10
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// await polls until check returns nil, and fails the test with its last error.
func await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("redistest: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reserved holds the UDP socket of each port that [FreeAddress] has returned.
var reserved sync.Map

// FreeAddress returns an address of loopback, host and port, on which nothing listens, for a test's
// own server. The port is below those that systems give to outgoing connections. Otherwise such a
// connection could take the port of a server between two starts, or connect to itself in the
// server's place. No port is given twice, by this process or by another one that runs at the same time:
// while a server is down, those that knew it would find a server of another test in its place.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := net.JoinHostPort(host, strconv.Itoa(15000+rand.IntN(17000)))
		if !reserve(addr) {
			continue
		}
		if listener, err := net.Listen("tcp", addr); err == nil {
			_ = listener.Close()
			return addr
		}
	}
	t.Fatal("redistest: no free port")
	return ""
}

// reserve takes an address until the process ends, unless it is taken. It is the UDP side of the port that
// is taken, which no server of a test uses.
func reserve(addr string) bool {
	socket, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	reserved.Store(addr, socket) // one that is forgotten would be closed
	return true
}

// newClient returns a plain client. It leaves out a handshake that only some hosted servers
// support.
func newClient(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone},
	})
}
