package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is a buffer that a server may write while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server in this process.
type running struct {
	stdout, stderr lockedBuffer
	stop           context.CancelFunc
	status         chan int
}

// noLookout turns off the check for the public web, unless a test sets something else.
const noLookout = "AUTHZ_EGRESS_CHECK=off"

// start runs "authz serve" with args and environ and waits until it is ready.
func start(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, status: make(chan int, 1)}
	environ = append([]string{noLookout}, environ...)
	go func() {
		r.status <- run(ctx, append([]string{"serve"}, args...), environ, strings.NewReader(""), &r.stdout, &r.stderr)
	}()
	t.Cleanup(stop)
	eventually(t, "the server is ready", func() bool {
		select {
		case status := <-r.status:
			t.Fatalf("exit status %d before it was ready:\n%s", status, r.stderr.String())
		default:
		}
		// The last line names the resource.
		return strings.Contains(r.stdout.String(), "connect to")
	})
	return r
}

// shown returns the text that the server printed after a label.
func (r *running) shown(label string) string {
	for line := range strings.Lines(r.stdout.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ended stops the server and returns its exit status.
func (r *running) ended(t *testing.T) int {
	t.Helper()
	r.stop()
	select {
	case status := <-r.status:
		return status
	case <-time.After(deadline):
		t.Fatal("the server does not end")
		return 0
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("still not so after %s: %s", deadline, what)
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// introspect sends an invalid token to the introspection endpoint as a resource server.
func introspect(t *testing.T, issuer, id, secret string, want int) {
	t.Helper()
	req, err := http.NewRequest("POST", issuer+"/introspect", strings.NewReader("token=none"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// RFC 6749 section 2.3.1: both are form-encoded before they become credentials.
	escape := strings.NewReplacer(":", "%3A", "/", "%2F")
	req.SetBasicAuth(escape.Replace(id), escape.Replace(secret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("/introspect as %s: %s, want %d", id, resp.Status, want)
	}
}

func testKey(first byte) string {
	key := sha256.Sum256([]byte{first})
	return base64.StdEncoding.EncodeToString(key[:])
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate writes a key pair for localhost and returns a pool that trusts it.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return pool
}
