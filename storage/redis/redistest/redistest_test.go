//go:build e2e

package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/redistest"
)

// read returns the value of a key, "" for none.
func read(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	value, err := s.Client().Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("GET %s at %s: %v", key, s.Addr, err)
	}
	return value
}

func write(t *testing.T, s *redistest.Server, key, value string) {
	t.Helper()
	if err := s.Client().Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("SET %s at %s: %v", key, s.Addr, err)
	}
}

// pid returns the id of the process that answers at the server's address.
func pid(t *testing.T, s *redistest.Server) int {
	t.Helper()
	info, err := s.Client().InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// refused reports whether connections to the address are refused.
func refused(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		conn.Close()
	}
	return err != nil
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		persistent bool
		want       string
	}{{true, "value"}, {false, ""}} {
		t.Run(fmt.Sprintf("persistent=%t", test.persistent), func(t *testing.T) {
			s := redistest.Start(t, redistest.Config{Persistent: test.persistent})
			if s.URL() != "redis://"+s.Addr {
				t.Errorf("the URL is %q, the address %q", s.URL(), s.Addr)
			}
			addr, first := s.Addr, pid(t, s)
			write(t, s, "key", "value")
			s.Kill()
			s.Kill() // changes nothing
			if !refused(addr) {
				t.Error("a server answers after Kill")
			}
			s.Restart()
			second := pid(t, s)
			if got := read(t, s, "key"); got != test.want || second == first || s.Addr != addr {
				t.Errorf("after Restart the server holds %q, want %q; process %d then %d; address %s then %s", got, test.want, first, second, addr, s.Addr)
			}
			s.Restart() // without Kill
			if got := read(t, s, "key"); got != test.want || pid(t, s) == second {
				t.Errorf("after the second Restart the server holds %q, want %q", got, test.want)
			}
		})
	}
}

// TestRestartWhileLoading: Restart returns when the file has been read, not before.
func TestRestartWhileLoading(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{Persistent: true, Args: []string{"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"}})
	pipe := s.Client().Pipeline()
	for i := range 1000 {
		pipe.Set(t.Context(), fmt.Sprint("key ", i), strings.Repeat("x", 100), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.Restart()
	if took := time.Since(start); took < time.Second {
		t.Errorf("reading took %v; this test wants it to take a second", took)
	}
	if n, err := s.Client().DBSize(t.Context()).Result(); n != 1000 || err != nil {
		t.Errorf("the server holds %d keys, %v; want 1000", n, err)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	write(t, s, "key", "value")
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	impatient := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer impatient.Close()
	if value, err := impatient.Get(ctx, "key").Result(); err == nil {
		t.Errorf("a paused server answered %q", value)
	}
	s.Resume()
	if got := read(t, s, "key"); got != "value" {
		t.Errorf("after Resume the server holds %q; want value", got)
	}
}

// TestEnd: a server ends with its test, whatever its state.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*redistest.Server){
		"running": func(*redistest.Server) {},
		"paused":  (*redistest.Server).Pause,
		"killed":  (*redistest.Server).Kill,
	} {
		var process int
		var addr string
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Config{})
			process, addr = pid(t, s), s.Addr
			leave(s)
		})
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", process)); err == nil || !refused(addr) {
			t.Errorf("the server that was %s is still there", name)
		}
	}
}

// TestReplica: writes to the primary arrive at the replica, as fast as the proxy lets them
// through.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Config{})
	write(t, primary, "before", "1")
	direct := redistest.Start(t, redistest.Config{ReplicaOf: primary})
	way := redistest.StartProxy(t, primary.Addr)
	slow := redistest.Start(t, redistest.Config{ReplicaOf: primary, Through: way.Addr})
	for _, replica := range []*redistest.Server{direct, slow} {
		if got := read(t, replica, "before"); got != "1" {
			t.Errorf("a new replica holds %q; want 1", got)
		}
	}
	info, err := primary.Client().Info(t.Context(), "replication").Result()
	for _, replica := range []*redistest.Server{direct, slow} {
		_, port, _ := net.SplitHostPort(replica.Addr)
		if want := "ip=127.0.0.1,port=" + port; err != nil || !strings.Contains(info, want) {
			t.Errorf("the primary does not know a replica at %s: %v\n%s", want, err, info)
		}
	}

	way.Latency(redistest.Replies, time.Hour, 0)
	write(t, primary, "after", "2")
	if n, err := primary.Client().Wait(t.Context(), 2, moment).Result(); n != 1 || err != nil {
		t.Errorf("%d replicas have the write, %v; want 1", n, err)
	}
	if got := read(t, direct, "after"); got != "2" {
		t.Errorf("the direct replica holds %q; want 2", got)
	}
	if got := read(t, slow, "after"); got != "" {
		t.Errorf("the replica behind a delay of an hour holds %q", got)
	}
	way.Clear()
	until(t, "the write at the slow replica", func() bool { return read(t, slow, "after") == "2" })
}

// TestReplicaPinned: a replica behind a proxy can be promoted but not redirected by sentinels,
// also after a restart, until Replicate is called.
func TestReplicaPinned(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Config{})
	way := redistest.StartProxy(t, primary.Addr)
	replica := redistest.Start(t, redistest.Config{ReplicaOf: primary, Through: way.Addr})
	host, port, _ := net.SplitHostPort(primary.Addr)
	lead := func() error { return replica.Client().Do(t.Context(), "slaveof", host, port).Err() }
	for range 2 {
		if err := lead(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("SLAVEOF at a pinned replica: %v; want a refusal", err)
		}
		if err := replica.Client().Do(t.Context(), "slaveof", "no", "one").Err(); err != nil {
			t.Errorf("a promotion: %v", err)
		}
		replica.Restart()
		write(t, primary, "key", "value")
		until(t, "the write at the restarted replica", func() bool { return read(t, replica, "key") == "value" })
	}
	replica.Replicate(primary, "")
	if err := lead(); err != nil {
		t.Errorf("SLAVEOF at a replica that is not pinned: %v", err)
	}
}
