package certificate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// made is a certificate and its key in PEM.
type made struct{ cert, key []byte }

// issue makes a certificate with a number that is valid from an hour ago for a time.
func issue(t *testing.T, number int64, life time.Duration) made {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Hour)
	template := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{"auth.example.com"}, NotBefore: begin, NotAfter: begin.Add(life)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return made{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// folder is a pair of files, the pair that was loaded from them, and its log.
type folder struct {
	*Pair
	t         *testing.T
	cert, key string
	lines     bytes.Buffer
	log       *slog.Logger
}

const year = 365 * 24 * time.Hour

func open(t *testing.T, first made) *folder {
	t.Helper()
	dir := t.TempDir()
	f := &folder{t: t, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	f.log = slog.New(slog.NewTextHandler(&f.lines, nil))
	f.write(f.cert, first.cert)
	f.write(f.key, first.key)
	var err error
	if f.Pair, err = Load(f.cert, f.key); err != nil {
		t.Fatal(err)
	}
	return f
}

// write replaces a file and gives it the same time whatever it contains.
func (f *folder) write(path string, text []byte) {
	f.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		f.t.Fatal(err)
	}
}

// look looks at the files some times and returns the number of the certificate in use.
func (f *folder) look(times int) int64 {
	for range times {
		f.Look(f.log)
	}
	got, err := f.Config().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

func (f *folder) logged(what string) int { return strings.Count(f.lines.String(), what) }

// A changed pair is taken although the times of its files are the same; an unchanged one is not
// taken again.
func TestPairIsTakenWhenItChanges(t *testing.T) {
	f := open(t, issue(t, 1, year))
	if got := f.look(3); got != 1 || f.lines.Len() > 0 {
		t.Fatalf("certificate %d, log %s", got, &f.lines)
	}
	next := issue(t, 2, year)
	f.write(f.cert, next.cert)
	f.write(f.key, next.key)
	if got := f.look(3); got != 2 {
		t.Errorf("certificate %d", got)
	}
	if taken, failed := f.Loads(); taken != 2 || failed != 0 || f.logged("has changed") != 1 {
		t.Errorf("%d taken, %d failed, log %s", taken, failed, &f.lines)
	}
}

// A pair of which one file was replaced leaves the one before in use. The log says so once, at the
// second look, and the pair is taken when the other file follows.
func TestHalfAPairIsNotTaken(t *testing.T) {
	first, next := issue(t, 1, year), issue(t, 2, year)
	for name, half := range map[string]func(*folder){
		"only the certificate": func(f *folder) { f.write(f.cert, next.cert) },
		"only the key":         func(f *folder) { f.write(f.key, next.key) },
		"half a certificate":   func(f *folder) { f.write(f.cert, next.cert[:len(next.cert)/2]) },
		"no key":               func(f *folder) { _ = os.Remove(f.key) },
		"neither":              func(f *folder) { _ = os.Remove(f.key); _ = os.Remove(f.cert) },
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, first)
			half(f)
			if got := f.look(1); got != 1 || f.lines.Len() > 0 {
				t.Fatalf("at the first look: certificate %d, log %s", got, &f.lines)
			}
			if got := f.look(4); got != 1 || f.logged("cannot be used") != 1 {
				t.Errorf("certificate %d, log %s", got, &f.lines)
			}
			f.write(f.cert, next.cert)
			f.write(f.key, next.key)
			if got := f.look(1); got != 2 {
				t.Errorf("certificate %d, log %s", got, &f.lines)
			}
		})
	}
}

// The old pair back in the files is no change, and a later fault is reported again.
func TestFaultIsReportedAgainAfterItWasMended(t *testing.T) {
	first, next := issue(t, 1, year), issue(t, 2, year)
	f := open(t, first)
	for range 2 {
		f.write(f.key, next.key)
		f.look(3)
		f.write(f.key, first.key)
		f.look(3)
	}
	if taken, _ := f.Loads(); taken != 1 || f.logged("cannot be used") != 2 {
		t.Errorf("%d taken, log %s", taken, &f.lines)
	}
}

// The log names an end that is near, and one that has passed, once a day.
func TestEndOfTheCertificateIsReported(t *testing.T) {
	for _, tt := range []struct {
		life, left time.Duration
		want       string
	}{
		{90 * 24 * time.Hour, 15 * 24 * time.Hour, ""},
		{90 * 24 * time.Hour, 13 * 24 * time.Hour, "ends soon"},
		{6 * 24 * time.Hour, 2 * 24 * time.Hour, ""},
		{6 * 24 * time.Hour, 24 * time.Hour, "ends soon"},
		{90 * 24 * time.Hour, 0, "has expired"},
	} {
		f := open(t, issue(t, 1, tt.life))
		now := f.Expires().Add(-tt.left)
		f.now = func() time.Time { return now }
		f.look(3)
		lines := strings.Count(f.lines.String(), "\n")
		if tt.want == "" && lines != 0 || tt.want != "" && (lines != 1 || f.logged(tt.want) != 1) {
			t.Errorf("%s of %s left: log %s", tt.left, tt.life, &f.lines)
		}
		now = now.Add(25 * time.Hour)
		if f.look(3); tt.want != "" && strings.Count(f.lines.String(), "\n") != 2 {
			t.Errorf("a day after %s of %s was left: log %s", tt.left, tt.life, &f.lines)
		}
	}
}

// A pair that cannot be used at the start is an error that names the files.
func TestLoadNamesTheFiles(t *testing.T) {
	f := open(t, issue(t, 1, year))
	f.write(f.key, issue(t, 2, year).key)
	if _, err := Load(f.cert, f.key); err == nil || !strings.Contains(err.Error(), "tls-cert "+f.cert+", tls-key "+f.key) {
		t.Errorf("%v", err)
	}
	for _, missing := range []string{f.key, f.cert} {
		if err := os.Remove(missing); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(f.cert, f.key); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "open "+missing+": ") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// Every suite that the server offers for TLS 1.2 has forward secrecy and authenticated encryption.
func TestSuitesAreModern(t *testing.T) {
	config := open(t, issue(t, 1, year)).Config()
	if config.MinVersion != tls.VersionTLS12 {
		t.Errorf("least version %x", config.MinVersion)
	}
	for _, id := range config.CipherSuites {
		name := tls.CipherSuiteName(id)
		if !strings.HasPrefix(name, "TLS_ECDHE_") || !strings.Contains(name, "_GCM_") && !strings.Contains(name, "POLY1305") {
			t.Error(name)
		}
	}
}

// Files that cannot be used are counted at each look, and reported once they were the same at two.
func TestFaultsAreCounted(t *testing.T) {
	first, next := issue(t, 1, year), issue(t, 2, year)
	f := open(t, first)
	for n := 1; n < 4; n++ { // a tool that is still writing
		f.write(f.cert, next.cert[:n*len(next.cert)/8])
		f.look(1)
	}
	if _, failed := f.Loads(); failed != 3 || f.lines.Len() > 0 {
		t.Errorf("%d failed, log %s", failed, &f.lines)
	}
	f.look(2)
	f.write(f.cert, next.cert)
	f.write(f.key, next.key)
	f.look(1)
	f.write(f.cert, next.cert[:3*len(next.cert)/8])
	f.write(f.key, first.key)
	f.look(1)
	if got := f.logged("cannot be used"); got != 1 {
		t.Errorf("a new fault is reported at the first look: %s", &f.lines)
	}
	f.look(2)
	if _, failed := f.Loads(); failed != 8 || f.logged("cannot be used") != 2 {
		t.Errorf("%d failed, log %s", failed, &f.lines)
	}
}

// An end that is near is reported at once for a pair that was just taken, and while the files cannot
// be used.
func TestEndIsReportedAtOnce(t *testing.T) {
	f := open(t, issue(t, 1, 2*time.Hour))
	now := f.Expires().Add(-time.Minute)
	f.now = func() time.Time { return now }
	next := issue(t, 2, 2*time.Hour)
	f.write(f.cert, next.cert)
	if f.look(1); f.logged("ends soon") != 1 {
		t.Errorf("with half a pair: %s", &f.lines)
	}
	f.write(f.key, next.key)
	if f.look(1); f.logged("ends soon") != 2 {
		t.Errorf("with the next pair: %s", &f.lines)
	}
}

// The files are looked at in intervals.
func TestRunLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, issue(t, 1, year))
		next := issue(t, 2, year)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx, slog.New(slog.DiscardHandler)) }()
		time.Sleep(Interval / 2)
		f.write(f.cert, next.cert)
		f.write(f.key, next.key)
		time.Sleep(Interval)
		if taken, failed := f.Loads(); taken != 2 || failed != 0 {
			t.Errorf("%d taken, %d failed", taken, failed)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
