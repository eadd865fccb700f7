// Package webtest simulates a web of invented hosts for tests: a TLS server on loopback that
// answers for every name, and fetchers that resolve every name to it. It checks nothing and must
// not be used in a program.
//
//	web := webtest.New(t)
//	id := web.URL("client.example.com", "/client.json")
//	web.Document(id, `{"client_id":"…"}`, "Cache-Control: max-age=60")
//	fetcher := web.Fetcher(nil)
package webtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// Web is a simulated web.
type Web struct {
	t         testing.TB
	port      string
	roots     *x509.CertPool
	authority authority

	// Connections counts the accepted connections.
	Connections atomic.Int64

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	hits  map[string]int
}

// New starts a web without pages. It ends with the test.
func New(t testing.TB) *Web {
	t.Helper()
	w := &Web{t: t, pages: map[string]http.HandlerFunc{}, hits: map[string]int{}}
	w.authority = newAuthority(t)
	w.roots = x509.NewCertPool()
	w.roots.AddCert(w.authority.certificate)
	server := httptest.NewUnstartedServer(w)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are part of tests
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			w.Connections.Add(1)
		}
	}
	server.TLS = &tls.Config{GetCertificate: w.authority.leaf}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, w.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return w
}

// URL returns the address of a path at a host.
func (w *Web) URL(host, path string) string { return "https://" + host + ":" + w.port + path }

// RootFile returns the name of a file with the root certificate of this web, for SSL_CERT_FILE.
func (w *Web) RootFile() string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "roots.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.authority.certificate.Raw})
	if err := os.WriteFile(name, block, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// Serve sets the handler of an address, including its query if it has one.
func (w *Web) Serve(address string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[address] = h
}

// Document serves a JSON document at an address. Headers have the form "Name: value".
func (w *Web) Document(address, body string, headers ...string) {
	w.Serve(address, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ": ")
			rw.Header().Set(name, value)
		}
		_, _ = rw.Write([]byte(body))
	})
}

// Publish serves the client ID metadata document in a file at its client_id, with the port of
// this web, and returns that address. The other addresses in the document get the port too,
// except for its redirect URIs.
func (w *Web) Publish(file string) (id string) {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		w.t.Fatal(err)
	}
	for _, member := range []string{"client_id", "client_uri", "logo_uri", "jwks_uri"} {
		if address, ok := members[member].(string); ok {
			host, path, _ := strings.Cut(strings.TrimPrefix(address, "https://"), "/")
			members[member] = w.URL(host, "/"+path)
		}
	}
	moved, err := json.Marshal(members)
	if err != nil {
		w.t.Fatal(err)
	}
	id, _ = members["client_id"].(string)
	w.Document(id, string(moved))
	return id
}

// Hits returns the number of requests for an address.
func (w *Web) Hits(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits[address]
}

// ServeHTTP answers with the handler of the address, or else that of "*", or else 404.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	address := "https://" + r.Host + r.URL.RequestURI()
	w.mu.Lock()
	w.hits[address]++
	page := w.pages[address]
	if page == nil {
		page = w.pages["*"]
	}
	w.mu.Unlock()
	if page == nil {
		http.NotFound(rw, r)
		return
	}
	page(rw, r)
}

// Fetcher returns a fetcher that resolves every name to this web. change may alter its
// configuration.
func (w *Web) Fetcher(change func(*safefetch.Config)) *safefetch.Fetcher {
	w.t.Helper()
	config := safefetch.Config{
		Floor: time.Millisecond, InsecureAllowLoopback: true, RootCAs: w.roots,
		LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
		},
	}
	if change != nil {
		change(&config)
	}
	fetcher, err := safefetch.New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return fetcher
}

// authority issues a certificate for every name.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, key.Public(), key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a authority) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{hello.ServerName}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, nil
}
