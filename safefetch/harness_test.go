package safefetch_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// The clock of a synctest bubble begins in the year 2000.
var (
	validFrom = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)
)

// authority is a private CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, NotBefore: validFrom, NotAfter: validTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, pool: x509.NewCertPool()}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// certificate returns a certificate for names and addresses.
func (a *authority) certificate(t *testing.T, hosts ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: validFrom, NotAfter: validTo,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// server is a TLS server on loopback for client.example.com and 127.0.0.1, and a Config
// that reaches it.
type server struct {
	*httptest.Server
	port   string
	config safefetch.Config
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	ca := newAuthority(t)
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "client.example.com", "127.0.0.1")}}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	s.port = u.Port()
	s.config = safefetch.Config{
		InsecureAllowLoopback: true, RootCAs: ca.pool, Floor: time.Millisecond, Timeout: 30 * time.Second,
		LookupNetIP: answers("127.0.0.1"),
	}
	return s
}

func (s *server) url(path string) string { return "https://client.example.com:" + s.port + path }

// answers is a resolver with one answer.
func answers(addrs ...string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(context.Context, string, string) ([]netip.Addr, error) { return parse(addrs...), nil }
}

func parse(addrs ...string) []netip.Addr {
	var parsed []netip.Addr
	for _, a := range addrs {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

// sink is a listener on loopback to which no connection may be made.
type sink struct {
	port        string
	connections atomic.Int32
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{port: portOf(l.Addr())}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		done.Wait()
		if n := s.connections.Load(); n != 0 {
			t.Errorf("the sink saw %d connections", n)
		}
	})
	return s
}

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

func fetcher(t *testing.T, c safefetch.Config) *safefetch.Fetcher {
	t.Helper()
	f, err := safefetch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func get(f *safefetch.Fetcher, url string) (*safefetch.Response, error) {
	return f.Get(context.Background(), safefetch.Request{URL: url})
}

func expectErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %s, want %v", what, safefetch.Reason(err), want)
	}
}

// stage simulates a public server inside a synctest bubble: dialling returns pipes, and play
// is the other end of each, after TLS.
type stage struct {
	ca    *authority
	cert  tls.Certificate
	play  func(net.Conn)
	acts  sync.WaitGroup
	mu    sync.Mutex
	dials []netip.AddrPort
}

// newStage is called inside the bubble, which does not end before the last play has.
func newStage(t *testing.T, play func(net.Conn)) *stage {
	ca := newAuthority(t)
	s := &stage{ca: ca, cert: ca.certificate(t, "client.example.com", "*.example.org"), play: play}
	t.Cleanup(s.acts.Wait)
	return s
}

// fetcher dials the stage instead of the network.
func (s *stage) fetcher(t *testing.T, c safefetch.Config) *safefetch.Fetcher {
	c.RootCAs = s.ca.pool
	if c.LookupNetIP == nil {
		c.LookupNetIP = answers("93.184.216.34")
	}
	f := fetcher(t, c)
	f.SetDial(s.dial)
	f.SetJitter(func(time.Duration) time.Duration { return 0 })
	return f
}

func (s *stage) dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = append(s.dials, to)
	here, there := net.Pipe()
	s.acts.Go(func() {
		buffered := newBuffered(there)
		defer buffered.Close()
		c := tls.Server(buffered, &tls.Config{Certificates: []tls.Certificate{s.cert}})
		if c.Handshake() == nil {
			s.play(c)
		}
	})
	return here, nil
}

func (s *stage) dialled() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// buffered is an end of a pipe whose writes do not wait for the other side to read.
type buffered struct {
	net.Conn
	out    chan []byte
	pump   sync.WaitGroup
	broken atomic.Bool
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, out: make(chan []byte, 16)}
	b.pump.Go(func() {
		for p := range b.out {
			if _, err := c.Write(p); err != nil {
				b.broken.Store(true)
			}
		}
	})
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, io.ErrClosedPipe
	}
	b.out <- bytes.Clone(p)
	return len(p), nil
}

// Close sends the remaining bytes. Nothing may be written after it.
func (b *buffered) Close() error {
	close(b.out)
	b.pump.Wait()
	return b.Conn.Close()
}

// says reads a request and answers with the given text, which need not be valid.
func says(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, answer)
		}
	}
}

// ok returns a complete answer.
func ok(body string, header ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + big.NewInt(int64(len(body))).String() + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n" + body
}
