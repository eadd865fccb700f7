package doctor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/doctor"
)

// certified makes a certificate that is its own authority.
func certified(t *testing.T, change func(*x509.Certificate)) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, roots
}

// TestTLSKinds: each way in which TLS fails is a finding that says which it is.
func TestTLSKinds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		most   uint16 // version
		want   string // in what was seen, "" for a healthy server
	}{
		"valid":         {func(*x509.Certificate) {}, 0, ""},
		"expired":       {func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, 0, "certificate has expired or is not yet valid"},
		"not yet valid": {func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, 0, "certificate has expired or is not yet valid"},
		"another name":  {func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }, 0, "certificate is valid for 127.0.0.9, not 127.0.0.1"},
		"for clients": {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, 0,
			"certificate specifies an incompatible key usage"},
		"an old version": {func(*x509.Certificate) {}, tls.VersionTLS11, "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			own, roots := certified(t, c.change)
			target, _ := onNetwork(t, func(h http.Handler) *httptest.Server {
				server := httptest.NewUnstartedServer(h)
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS10, MaxVersion: c.most}
				server.StartTLS()
				return server
			}, func(*stable) {})
			report, err := doctor.Check(t.Context(), target, doctor.Options{Roots: roots})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if got := above(report); len(got) > 0 {
					t.Errorf("found %v", got)
				}
				return
			}
			if f := found(report, "tls-invalid"); f == nil || !strings.Contains(f.Saw, c.want) || len(above(report)) != 1 {
				t.Errorf("found %+v", report.Findings)
			}
		})
	}
}

// TestWrongScheme: https where http is spoken is a fault of TLS, and http where https is spoken is
// refused.
func TestWrongScheme(t *testing.T) {
	target, _ := onNetwork(t, httptest.NewServer, func(*stable) {})
	report, err := doctor.Check(t.Context(), strings.Replace(target, "http:", "https:", 1), doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := found(report, "tls-invalid"); f == nil || !strings.Contains(f.Saw, "something else than TLS is spoken at this port") {
		t.Errorf("%+v", report.Findings)
	}
	target, _ = onNetwork(t, quietTLS, func(*stable) {})
	report, err = doctor.Check(t.Context(), strings.Replace(target, "https:", "http:", 1), doctor.Options{})
	if err != nil || found(report, "wrong-status") == nil {
		t.Errorf("%v, %v", err, report)
	}
}

// TestPlainName: http is for loopback only.
func TestPlainName(t *testing.T) {
	report := examined(t, healthy("http://notes.example.com/mcp", issuer).withoutToken())
	if got := above(report); !slices.Equal(got, []string{"plain-http"}) {
		t.Errorf("found %v", got)
	}
}

func (s *stable) withoutToken() *stable {
	s.token = ""
	return s
}

// TestIPv6 examines a server at an address of the newer kind.
func TestIPv6(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no ::1")
	}
	target, _ := onNetwork(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		return server
	}, func(*stable) {})
	report, err := doctor.Check(t.Context(), target, doctor.Options{})
	if err != nil || !strings.HasPrefix(target, "http://[::1]:") || len(above(report)) > 0 {
		t.Errorf("%s: %v, %+v", target, err, report)
	}
}

// zipped returns a body as gzip.
func zipped(t *testing.T, body io.Reader) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.Copy(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestCompressed: compression that nobody asked for is read within the bound, and is no fault.
func TestCompressed(t *testing.T) {
	document := `{"resource":"` + notes + `","authorization_servers":["` + issuer + `"],"scopes_supported":["notes:read","notes:write"]}`
	bomb := zipped(t, io.LimitReader(zeros{}, 4<<20))
	for name, c := range map[string]struct {
		coding, body string
		want         []string
	}{
		"gzip":          {"gzip", zipped(t, strings.NewReader(document)), nil},
		"old name":      {"X-GZIP", zipped(t, strings.NewReader(document)), nil},
		"not gzip":      {"gzip", document, []string{"resource-metadata-not-json"}},
		"half":          {"gzip", zipped(t, strings.NewReader(document))[:40], []string{"resource-metadata-not-json", "too-large"}},
		"its beginning": {"gzip", zipped(t, strings.NewReader(document))[:5], []string{"resource-metadata-not-json", "too-large"}},
		"a bomb":        {"gzip", bomb, []string{"too-large"}},
		"many of them":  {"gzip", strings.Repeat(zipped(t, strings.NewReader("")), 20_000), []string{"too-large"}},
	} {
		s := healthy(notes, issuer)
		s.with("GET "+placed, answer(200, jsonType, c.body, "Content-Encoding", c.coding, "Access-Control-Allow-Origin", "*"))
		got := above(examined(t, s))
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
}

// TestEndless: of an endless body no more is read than the bound, at each request and together.
func TestEndless(t *testing.T) {
	var written atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := make([]byte, 32<<10)
		for {
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer server.Close()
	report, err := doctor.Check(t.Context(), server.URL+"/mcp", doctor.Options{})
	if err != nil || found(report, "too-large") == nil || found(report, "open") == nil {
		t.Fatalf("%v, %+v", err, report)
	}
	server.Close() // every handler has ended
	const buffers = 16 << 20
	if n := written.Load(); n > doctor.MaxRequests*doctor.MaxBody+doctor.MaxRequests*buffers {
		t.Errorf("%d bytes were written", n)
	}
}

// dripping answers at once, with a body of which nothing comes.
type dripping struct {
	inner  http.RoundTripper
	coding string
}

type silent struct{ until context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.until.Done()
	return 0, s.until.Err()
}

func (silent) Close() error { return nil }

func (d dripping) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.inner.RoundTrip(r)
	if err == nil {
		answer.Body = silent{r.Context()}
		answer.Header.Set("Content-Encoding", d.coding)
	}
	return answer, err
}

// TestSilentBodies: a header at once and a body that never comes cost no more than the time, and what
// the body would be is not judged, compressed or not.
func TestSilentBodies(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		synctest.Test(t, func(t *testing.T) {
			s := healthy(notes, issuer).open()
			begin := time.Now()
			report, err := doctor.Check(t.Context(), notes, doctor.Options{Transport: dripping{s, coding}, Now: func() time.Time { return now }})
			if err != nil || time.Since(begin) > doctor.MaxTime || !slices.Equal(above(report), []string{"too-large"}) {
				t.Errorf("%q after %s: %v, %+v", coding, time.Since(begin), err, report)
			}
		})
	}
}
