//go:build e2e

package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// Passwords of the servers in these tests. They contain every character that needs an escape, and
// errors are searched for the word in them.
const (
	gatePassword    = `p@/:?#%&+=hunter2`
	watcherPassword = "watcher-hunter2"
	sentinelSecret  = `s&#%+:/?@=hunter2`
	askerPassword   = "asker%41hunter2"
)

// authority signs the certificate of the servers.
type authority struct {
	roots *x509.CertPool
	files string // directory of ca.pem, cert.pem and key.pem
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	caKey, key := newECKey(t), newECKey(t)
	name := func(name string) pkix.Name { return pkix.Name{CommonName: name} } // OpenSSL identifies issuers by name
	caTemplate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name("authority"), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: name("server"), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	ca := signed(t, caTemplate, caTemplate, &caKey.PublicKey, caKey)
	cert := signed(t, template, ca, &key.PublicKey, caKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{roots: x509.NewCertPool(), files: t.TempDir()}
	a.roots.AddCert(ca)
	for name, block := range map[string]*pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: ca.Raw},
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert.Raw},
		"key.pem":  {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(a.files, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signed(t *testing.T, template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a authority) trust() *tls.Config { return &tls.Config{RootCAs: a.roots} }

// secured starts a redis-server that listens with TLS only, and returns its address and a
// function that ends it. The settings are lines of its file.
func (a authority) secured(t *testing.T, settings string, flags ...string) (addr string, kill func()) {
	t.Helper()
	addr = lowAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	file := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport 0\ntls-port %s\ndir %s\ntls-cert-file %s/cert.pem\ntls-key-file %s/key.pem\ntls-ca-cert-file %s/ca.pem\n"+
		"tls-auth-clients no\ntls-replication yes\n%s", port, dir, a.files, a.files, a.files, settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("%v: install redis-server to run this test", err)
	}
	var said strings.Builder
	cmd := exec.Command(binary, append([]string{file}, flags...)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the second call waits for nothing
	}
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("%s said\n%s", addr, said.String())
		}
	})
	eventually(t, "the start of a server with TLS", func() bool {
		conn, err := tls.Dial("tcp", addr, a.trust())
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("PING\r\n"))
		reply, _ := io.ReadAll(io.LimitReader(conn, 5))
		return string(reply) == "+PONG" || string(reply) == "-NOAU"
	})
	return addr, kill
}

// lowAddress returns a free address below the ports of outgoing connections, which could take it
// before the server does.
func lowAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 15000+mathrand.IntN(17000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// people returns the users of a server: one with all commands on the keys of the store, and one
// for sentinels and replicas.
func people() string {
	return fmt.Sprintf("save \"\"\nrepl-diskless-sync-delay 0\nuser default off\nuser gate on #%x ~gatehouse:* +@all\nuser watcher on #%x ~* &* +@all\n",
		sha256.Sum256([]byte(gatePassword)), sha256.Sum256([]byte(watcherPassword)))
}

// TestServerSecure: one server with TLS and a user.
func TestServerSecure(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	addr, _ := a.secured(t, people())
	user := "gate:" + url.PathEscape(gatePassword) + "@"
	o := redis.Options{URL: "rediss://" + user + addr + "/", TLS: a.trust()}
	backend := open(t, o)
	defer backend.Close()
	secureWrite(t, backend, "x")
	secureRead(t, backend, "x")
	if err := backend.IndexAdd(t.Context(), "gatehouse:test:index", "entry"); err != nil {
		t.Error(err)
	}
	if err := backend.IndexAdd(t.Context(), "another:index", "entry"); err == nil {
		t.Error("the user may do more than it needs")
	}
	t.Run("Store", func(t *testing.T) { // its keys have other names
		o := redis.Options{URL: "rediss://watcher:" + watcherPassword + "@" + addr + "/1", TLS: a.trust()}
		storagetest.TestStore(t, func(t *testing.T) storage.Backend { return open(t, o) })
	})
	wantNoOpen(t, redis.Options{URL: o.URL}, "certificate")
	wantNoOpen(t, redis.Options{URL: "redis://" + user + addr, TLS: a.trust()}, addr)
	wantNoOpen(t, redis.Options{URL: "rediss://" + addr, TLS: a.trust()}, "wants a password")
	wantNoOpen(t, redis.Options{URL: "rediss://gate:hunter2@" + addr, TLS: a.trust()}, "check the user and the password")
}

// TestSentinelSecure: sentinels and servers accept TLS only, with different passwords. The store
// also follows a failover.
func TestSentinelSecure(t *testing.T) {
	a := newAuthority(t)
	primary, kill := a.secured(t, people())
	host, port, _ := net.SplitHostPort(primary)
	a.secured(t, people()+fmt.Sprintf("replicaof %s %s\nmasteruser watcher\nmasterauth %s\n", host, port, watcherPassword))
	watch := fmt.Sprintf("sentinel monitor main %s %s 1\nsentinel auth-user main watcher\nsentinel auth-pass main %s\n"+
		"sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 2000\n", host, port, watcherPassword)
	sentinel, _ := a.secured(t, watch+fmt.Sprintf("requirepass %q\nuser asker on >%s -@all +sentinel|myid +sentinel|master +sentinel|get-master-addr-by-name +sentinel|replicas +sentinel|sentinels\n", sentinelSecret, askerPassword), "--sentinel")

	base := "gate:" + url.PathEscape(gatePassword) + "@" + sentinel + "/main?db=0"
	secret := "&sentinel-password=" + strings.ReplaceAll(url.QueryEscape(sentinelSecret), "+", "%20")
	asker := "&sentinel-user=asker&sentinel-password=" + url.QueryEscape(askerPassword)
	o := func(url string) redis.Options { return redis.Options{URL: url, TLS: a.trust()} }
	known := goredis.NewSentinelClient(&goredis.Options{Addr: sentinel, Password: sentinelSecret, TLSConfig: a.trust()})
	defer known.Close()
	eventually(t, "a sentinel that knows the replica", func() bool {
		replicas, err := known.Replicas(t.Context(), "main").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})

	wantNoOpen(t, redis.Options{URL: "rediss+sentinel://" + base + secret}, "certificate")
	wantNoOpen(t, o("redis+sentinel://"+base+secret), "sentinels")
	wantNoOpen(t, o("rediss+sentinel://"+base), "sentinels")
	wantNoOpen(t, o("rediss+sentinel://"+base+secret+"x"), "sentinels")
	wantNoOpen(t, o("rediss+sentinel://"+base+strings.Replace(asker, "asker", "gate", 1)), "sentinels")
	wantNoOpen(t, o("rediss+sentinel://gate:hunter2@"+sentinel+"/main?db=0"+secret), "check the user and the password")

	backend := open(t, o("rediss+sentinel://"+base+asker))
	defer backend.Close()
	secureWrite(t, backend, "before")
	another := open(t, o("rediss+sentinel://"+base+secret))
	defer another.Close()
	secureRead(t, another, "before")
	kill()
	eventually(t, "a write after the failover", func() bool {
		return tryWrite(t, backend, "after") == nil
	})
	secureRead(t, backend, "before")
	secureRead(t, backend, "after")
}

// TestClusterSecure: the nodes of a cluster accept TLS only.
func TestClusterSecure(t *testing.T) {
	a := newAuthority(t)
	addr, _ := a.secured(t, people()+"cluster-enabled yes\ntls-cluster yes\ncluster-announce-ip 127.0.0.1\n")
	admin := goredis.NewClient(&goredis.Options{Addr: addr, Username: "watcher", Password: watcherPassword, TLSConfig: a.trust()})
	defer admin.Close()
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a cluster", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	user := "gate:" + url.PathEscape(gatePassword) + "@"
	backend := open(t, redis.Options{URL: "rediss+cluster://" + user + addr, TLS: a.trust()})
	defer backend.Close()
	secureWrite(t, backend, "x")
	secureRead(t, backend, "x")
	wantNoOpen(t, redis.Options{URL: "redis+cluster://" + user + addr, TLS: a.trust()}, addr)
	wantNoOpen(t, redis.Options{URL: "rediss+cluster://" + user + addr}, "certificate")
}

func tryWrite(t *testing.T, b storage.Backend, what string) error {
	t.Helper()
	on, err := b.Lineage(t.Context())
	if err != nil {
		return err
	}
	put := fresh("gatehouse:test:"+what, on)
	_, err = b.Put(t.Context(), put)
	if errors.Is(err, storage.ErrUncertain) {
		_, err = b.Put(t.Context(), put)
	}
	return err
}

func secureWrite(t *testing.T, b storage.Backend, what string) {
	t.Helper()
	eventually(t, "a write of "+what, func() bool { return tryWrite(t, b, what) == nil })
}

func secureRead(t *testing.T, b storage.Backend, what string) {
	t.Helper()
	if item, err := b.Get(t.Context(), "gatehouse:test:"+what); err != nil || string(item.Data) != "data" {
		t.Errorf("%s: %q, %v", what, item.Data, err)
	}
}
