package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// How long Open and one operation may take, with a margin for a slow machine.
const (
	openWithin      = 2*time.Second + 500*time.Millisecond
	operationWithin = time.Second + 500*time.Millisecond
	slow            = 500 * time.Millisecond // less than a command has, which ends it on a machine that stalls
)

func TestSingle(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	m.RequireUserAuth("ann", "p@/:% word")
	url := "redis://ann:p%40%2F%3A%25%20word@" + m.Addr() + "/3"
	storagetest.TestBackend(t, func(t *testing.T) storage.Backend { return open(t, redis.Options{URL: url}) })
	b := open(t, redis.Options{URL: url})
	defer b.Close()
	put(t, b, storage.Put{Key: "k", Data: []byte("data"), Operation: storage.Version{'v', 15: 'v'}})
	if got, err := m.DB(3).Get("k"); err != nil || got != "v"+strings.Repeat("\x00", 14)+"vdata" {
		t.Errorf("database 3 holds %q, %v; want the version and the data", got, err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	storagetest.TestBackend(t, func(t *testing.T) storage.Backend {
		return open(t, redis.Options{URL: "redis+cluster://" + m.Addr()})
	})
}

// certificate returns a server's certificate for 127.0.0.1 and roots with its issuer.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, roots := certificate(t)
	m := miniredis.NewMiniRedis()
	if err := m.StartTLS(&tls.Config{Certificates: []tls.Certificate{cert}}); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := open(t, redis.Options{URL: "rediss://" + m.Addr(), TLS: &tls.Config{RootCAs: roots}})
	defer b.Close()
	put(t, b, storage.Put{Key: "k", Operation: storage.Version{1}})

	wantNoOpen(t, redis.Options{URL: "rediss://" + m.Addr()}, "certificate")
	wantNoOpen(t, redis.Options{URL: "redis://" + m.Addr(), TLS: &tls.Config{RootCAs: roots}}, m.Addr())
	plain := miniredis.RunT(t)
	wantNoOpen(t, redis.Options{URL: "rediss://" + plain.Addr()}, "redis:// for a plain connection")
}

// wantNoOpen checks that Open fails in time, with advice and without the password. One attempt that was
// slow may have met a machine that stalls, so there are several; one that fails early has to be right.
func wantNoOpen(t *testing.T, o redis.Options, advice string) {
	t.Helper()
	for left := 4; ; left-- {
		start := time.Now()
		b, err := redis.Open(t.Context(), o)
		took := time.Since(start)
		if err == nil {
			b.Close()
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
		advised := err != nil && strings.Contains(err.Error(), advice) && strings.HasPrefix(err.Error(), "storage/redis: ")
		switch {
		case advised && took <= openWithin:
		case err != nil && took > slow && left > 0:
			continue
		case !advised:
			t.Errorf("Open returned error %v; want one with %q", err, advice)
		default:
			t.Errorf("Open took %v to fail with %v", took, err)
		}
		return
	}
}

func TestOpenRefused(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.RequireUserAuth("ann", "secret")
	loading := miniredis.RunT(t)
	loading.SetError("LOADING Redis is loading the dataset in memory")
	denied := miniredis.RunT(t)
	denied.SetError("NOPERM this user has no permissions to run the 'ping' command")
	for _, test := range []struct{ url, advice string }{
		{"redis://" + m.Addr(), "redis://user:password@host"},
		{"redis://ann:hunter2@" + m.Addr(), "check the user and the password"},
		{"redis://writer:hunter2@" + m.Addr(), "check the user and the password"},
		{"redis://:hunter2@" + m.Addr(), "check the user and the password"},
		{"redis://" + loading.Addr(), "still loading"},
		{"redis://" + denied.Addr(), "gatehouse:*"},
		{"redis://ann:hunter2@" + closedPort(t), "start Redis there or correct the store URL"},
		{"redis://ann:hunter2@" + silent(t), "start Redis there or correct the store URL"},
		{"redis+cluster://ann:hunter2@" + closedPort(t), "start Redis there"},
		{"redis+cluster://ann:hunter2@" + silent(t) + "," + silent(t), "start Redis there"},
		{"redis+sentinel://ann:hunter2@" + closedPort(t) + "/main", "sentinels run at these addresses and watch the name main"},
		{"redis+sentinel://ann:hunter2@" + silent(t) + "," + silent(t) + "," + silent(t) + "/main", "sentinels run"},
		{"http://ann:hunter2@127.0.0.1", "embedded:, redis://host:port"},
	} {
		t.Run(test.url, func(t *testing.T) {
			t.Parallel()
			wantNoOpen(t, redis.Options{URL: test.url}, test.advice)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := redis.Open(ctx, redis.Options{URL: "embedded:"}); err == nil {
		b.Close()
		t.Error("Open with a cancelled context succeeded")
	}
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestPoolTimeout: a caller that gets no connection has sent nothing. The only one belongs to a flight
// that gets no answer, so of the flights behind it some get none in time.
func TestPoolTimeout(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	p := newProxy(t, m.Addr())
	b := open(t, redis.Options{URL: "redis://" + p.addr, PoolSize: 1})
	defer b.Close()
	p.set(swallow)
	const most = 2000
	errs := make(chan error, most)
	var callers sync.WaitGroup
	defer callers.Wait()
	for range most {
		callers.Go(func() { errs <- b.Delete(t.Context(), "k") })
		select {
		case err := <-errs:
			if err == nil {
				t.Error("Delete succeeded without an answer")
			} else if !errors.Is(err, storage.ErrUncertain) {
				return
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("all callers were told that the outcome is unknown; some of them had no connection")
}

// TestBoundedPool: many callers share few connections and all are served.
func TestBoundedPool(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	b := open(t, redis.Options{URL: "redis://" + m.Addr(), PoolSize: 2})
	defer b.Close()
	var running sync.WaitGroup
	for i := range 100 {
		running.Go(func() {
			change := storage.Put{Key: "k", If: storage.Always, Operation: storage.Version{byte(i + 1)}}
			if _, err := b.Put(t.Context(), change); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	running.Wait()
	if n := m.TotalConnectionCount(); n > 2 {
		t.Errorf("there were %d connections; want at most 2", n)
	}
}

// TestRoundTrips: one method is one round trip, except when the server does not have the script.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	var trips atomic.Int64
	b := open(t, redis.Options{URL: "redis://" + m.Addr(), OnRoundTrip: func() { trips.Add(1) }})
	defer b.Close()
	calls := func(want int64) {
		t.Helper()
		for what, call := range map[string]func() error{
			"Get":             func() error { _, err := b.Get(t.Context(), "k"); return err },
			"GetMany":         func() error { _, err := b.GetMany(t.Context(), []string{"k", "l", "m"}); return err },
			"IndexPageBefore": func() error { _, err := b.IndexPageBefore(t.Context(), "i", "", 10); return err },
			"IndexPage":       func() error { _, err := b.IndexPage(t.Context(), "i", "", 10); return err },
			"IndexLen":        func() error { _, err := b.IndexLen(t.Context(), "i"); return err },
			"Delete":          func() error { return b.Delete(t.Context(), "k") },
			"IndexAdd":        func() error { return b.IndexAdd(t.Context(), "i", "e") },
			"Put": func() error {
				_, err := b.Put(t.Context(), storage.Put{Key: "k", If: storage.Always, Operation: storage.Version{1}})
				return err
			},
		} {
			before := trips.Load()
			if err := call(); err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatalf("%s: %v", what, err)
			}
			expected := int64(1)
			if what == "Put" {
				expected = want
			}
			if got := trips.Load() - before; got != expected {
				t.Errorf("%s took %d round trips; want %d", what, got, expected)
			}
		}
	}
	calls(2) // EVALSHA, NOSCRIPT, EVAL
	calls(1)
}

func TestForeignValues(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	foreignValues(t, open(t, redis.Options{URL: "redis://" + m.Addr()}), foreign{
		set:  m.Set,
		push: func(key string) error { _, err := m.Push(key, "x"); return err },
	})
}

// foreign writes values that are not items.
type foreign struct {
	set  func(key, value string) error
	push func(key string) error // onto a list
}

// foundNone returns an error if there are items, and that of the call.
func foundNone(items []storage.Item, err error) error {
	for _, item := range items {
		if item.Version != (storage.Version{}) {
			err = errors.Join(err, fmt.Errorf("an item: %q", item.Data))
		}
	}
	return err
}

// foreignValues checks that such a value is an unreadable record, and neither an item nor
// missing. Only who reads many may get nothing for a list.
func foreignValues(t *testing.T, b storage.Backend, f foreign) {
	t.Helper()
	defer b.Close()
	value := func(v string) func(key string) error { return func(key string) error { return f.set(key, v) } }
	for what, set := range map[string]func(key string) error{
		"empty": value(""), "one byte": value("x"), "15 bytes": value("123456789012345"), "a list": f.push,
	} {
		send := func(key string, cond storage.Condition) error {
			_, err := b.Put(t.Context(), storage.Put{Key: key, If: cond, Operation: storage.Version{1}})
			return err
		}
		for method, call := range map[string]func(key string) error{
			"Get":           func(key string) error { _, err := b.Get(t.Context(), key); return err },
			"GetMany":       func(key string) error { return foundNone(b.GetMany(t.Context(), []string{"none", key})) },
			"Put absent":    func(key string) error { return send(key, storage.Absent) },
			"Put unchanged": func(key string) error { return send(key, storage.Unchanged(storage.Version{2})) },
		} {
			key := what + " " + method
			if err := set(key); err != nil {
				t.Fatal(err)
			}
			if err := call(key); err == nil && what == "a list" && method == "GetMany" {
				continue // MGET answers nothing
			} else if !errors.Is(err, storage.ErrRecord) || errors.Is(err, storage.ErrUncertain) {
				t.Errorf("%s: %s returned error %v; want %v", what, method, err, storage.ErrRecord)
			}
		}
		key := what + " index"
		if err := set(key); err != nil {
			t.Fatal(err)
		}
		if _, err := b.IndexLen(t.Context(), key); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: IndexLen returned error %v; want %v", what, err, storage.ErrRecord)
		}
		if _, err := b.IndexPageBefore(t.Context(), key, "", 1); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: IndexPageBefore returned %v; want %v", what, err, storage.ErrRecord)
		}
		if _, err := b.IndexPage(t.Context(), key, "", 1); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: IndexPage returned error %v; want %v", what, err, storage.ErrRecord)
		}
	}
}
