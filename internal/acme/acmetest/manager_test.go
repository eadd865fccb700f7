package acmetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/internal/acme"
	"gatehouse.example/internal/listener"
	"gatehouse.example/storage"
)

const name = "auth.example.com"

// site is a manager in this process and the listener that presents its certificates.
type site struct {
	*acme.Manager
	addr string
	log  *lines
	stop func()
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// run starts a manager over a store, for the name and others. Change, if there is one, changes its vault.
func (a *authority) run(t *testing.T, store *storage.Store, change func(*acme.Vault), others ...string) *site {
	t.Helper()
	socket, s, vault := listen(t), &site{log: &lines{}}, acme.NewVault(store, a.directory())
	if change != nil {
		change(vault)
	}
	log := slog.New(slog.NewTextHandler(s.log, nil))
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate())
	var err error
	s.Manager, err = acme.New(acme.Config{
		Names: append([]string{name}, others...), Directory: a.directory(), Roots: pool, TLS: socket.Addr(), Log: log,
		Storage: vault, Check: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = socket.Addr().String()
	a.https.leads.Store(s.addr)
	front := listener.New(http.NotFoundHandler(), listener.Config{TLS: s.Config(), Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = front.Serve(socket) })
	running.Go(func() {
		if err := s.Run(ctx, log); err != nil {
			t.Error(err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		_ = front.Close()
		running.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// serial returns the number of the certificate for the name, empty if there is none.
func (s *site) serial() string {
	cert, err := shake(s.addr, name)
	if err != nil {
		return ""
	}
	return cert.SerialNumber.String()
}

// shake returns the certificate that a listener presents for a name.
func shake(addr, serverName string) (*x509.Certificate, error) {
	conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: serverName, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.New("it is not HTTP/2")
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happens that %s", what)
		}
	}
}

// A certificate of short life is renewed again and again with one account, also by another process
// after a restart. While the store or the authority is down the one before goes on being presented, and the
// look counts that.
func TestRenewal(t *testing.T) {
	a := newAuthority(t, 4*time.Second)
	store := a.store(t)
	s := a.run(t, store, nil)

	until(t, "there is a certificate", func() bool { return s.serial() != "" })
	first := s.serial()
	// Its life is so short that each look finds it has to be renewed.
	until(t, "another certificate is presented", func() bool { return s.serial() != first })
	a.faults.SetDown(true)
	at := s.serial()
	if at == "" || len(s.Missing()) > 0 {
		t.Error("there is no certificate while the store is down")
	}
	a.faults.SetDown(false)
	until(t, "another certificate is presented after the store was down", func() bool { return s.serial() != at })
	a.closed.Store(true)
	_, failed := s.Loads()
	until(t, "a look counts that the authority is down", func() bool { s.Look(slog.New(slog.DiscardHandler)); _, now := s.Loads(); return now > failed })
	if s.serial() == "" {
		t.Error("there is no certificate while the authority is down")
	}
	s.stop()
	a.closed.Store(false)
	next := a.run(t, store, nil)
	until(t, "there is a certificate after a restart", func() bool { return next.serial() != "" })
	if accounts := a.accounts.Load(); accounts != 1 {
		t.Errorf("%d accounts were made", accounts)
	}
	if text := s.log.String() + next.log.String(); strings.Contains(text, "PRIVATE KEY") {
		t.Error("there is a key in the log")
	}
}
