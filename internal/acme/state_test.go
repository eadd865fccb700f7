package acme

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

const other = "other.example.com"

// present puts a certificate of a name where certmagic keeps what it loaded.
func present(t *testing.T, m *Manager, name string, begins, ends time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(ends.UnixNano()), DNSNames: []string{name}, NotBefore: begins, NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.order.CacheUnmanagedTLSCertificate(t.Context(), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil); err != nil {
		t.Fatal(err)
	}
}

// A look takes what is new, once; of several certificates of a name that which began last. Until each
// name has one, the end is 1970, and then that of the certificate which ends first.
func TestLookTakesWhatIsNew(t *testing.T) {
	m, _ := manager(t)
	m.config.Names = []string{host, other}
	const day = 24 * time.Hour
	now := time.Now().UTC().Truncate(time.Second)
	none := time.Unix(0, 0)
	for _, tt := range []struct {
		what, name   string
		begins, ends time.Duration
		taken        int64
		missing      []string
		expires      time.Time
	}{
		{"the first", host, -2 * day, 60 * day, 1, []string{other}, none},
		{"the second, which ends earlier", other, -2 * day, 40 * day, 2, nil, now.Add(40 * day)},
		{"a newer one", other, -day, 90 * day, 3, nil, now.Add(60 * day)},
		{"one that began before it", other, -3 * day, 30 * day, 3, nil, now.Add(60 * day)},
	} {
		present(t, m, tt.name, now.Add(tt.begins), now.Add(tt.ends))
		var log bytes.Buffer
		before, _ := m.Loads()
		for range 2 {
			m.Look(slog.New(slog.NewTextHandler(&log, nil)))
		}
		taken, failed := m.Loads()
		if taken != tt.taken || failed != 0 || !slices.Equal(m.Missing(), tt.missing) || !m.Expires().Equal(tt.expires) {
			t.Errorf("%s: taken %d, failed %d, missing %v, ends %s; want %d, 0, %v, %s", tt.what, taken, failed, m.Missing(), m.Expires(), tt.taken, tt.missing, tt.expires)
		}
		if shown, err := m.choose(&tls.ClientHelloInfo{ServerName: tt.name}); err != nil || shown == nil || shown.Leaf.DNSNames[0] != tt.name {
			t.Errorf("%s: a client gets %v, %v", tt.what, shown, err)
		}
		if lines := strings.Count(log.String(), "new connections get a new certificate"); int64(lines) != taken-before {
			t.Errorf("%s: %d lines in the log, %d certificates taken: %s", tt.what, lines, taken-before, log.String())
		}
	}
}

// While the last order for a name failed, each look is a failed one: until one succeeds, here or in
// another process, whose certificate is found.
func TestLookCountsFailedOrders(t *testing.T) {
	m, _ := manager(t)
	quiet := slog.New(slog.DiscardHandler)
	for _, tt := range []struct {
		what   string
		does   func()
		failed int64
	}{
		{"nothing", func() {}, 0},
		{"an order failed", func() { m.happened(t.Context(), "cert_failed", map[string]any{"identifier": host}) }, 1},
		{"nothing since", func() {}, 2},
		{"an order succeeded", func() { m.happened(t.Context(), "cert_obtained", map[string]any{"identifier": host}) }, 2},
		{"another failed", func() { m.fail(host) }, 3},
		{"another process succeeded", func() { present(t, m, host, time.Now(), time.Now().Add(time.Hour)) }, 3},
	} {
		tt.does()
		m.Look(quiet)
		if _, failed := m.Loads(); failed != tt.failed {
			t.Errorf("%s: %d failed looks, want %d", tt.what, failed, tt.failed)
		}
	}
}

// An end that is near is a warning once a day, one that has passed an error; a certificate that is
// taken later begins anew.
func TestEndIsLoggedOnceADay(t *testing.T) {
	m, _ := manager(t)
	const day = 24 * time.Hour
	begin := time.Now().Truncate(time.Second)
	now := begin
	m.now = func() time.Time { return now }
	present(t, m, host, begin, begin.Add(90*day))
	for _, tt := range []struct {
		at   time.Duration
		want string
	}{
		{0, ""},
		{76*day - time.Second, ""},
		{76 * day, "level=WARN"},
		{77*day - time.Second, ""},
		{77 * day, "level=WARN"},
		{90 * day, "level=ERROR"},
		{91*day - time.Second, ""},
		{91 * day, "level=ERROR"},
	} {
		var log bytes.Buffer
		now = begin.Add(tt.at)
		m.Look(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if got := log.String(); (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("after %s: %q, want %q", tt.at, got, tt.want)
		}
	}
	present(t, m, host, begin.Add(time.Second), now.Add(time.Hour)) // it ends soon too
	var log bytes.Buffer
	m.Look(slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the end of the next certificate: %q", log.String())
	}
}
