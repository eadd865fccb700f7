package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
)

// counted counts what is read for answers to challenges.
type counted struct {
	*Vault
	loads atomic.Int64
}

func (c *counted) Load(ctx context.Context, key string) ([]byte, error) {
	c.loads.Add(1)
	return c.Vault.Load(ctx, key)
}

// manager returns a manager of one name that orders nothing, and its storage.
func manager(t *testing.T) (*Manager, *counted) {
	t.Helper()
	storage := &counted{Vault: open(t).vault(func() {})}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}
	m, err := New(Config{Names: []string{host}, Directory: directory, TLS: at, HTTP: at, Storage: storage, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.cache.Stop)
	return m, storage
}

// Who asks for an answer to a challenge under another host, for something else or in another way
// causes no read.
func TestRequestsOfStrangersReadNothing(t *testing.T) {
	m, storage := manager(t)
	for _, tt := range []struct {
		method, url string
		reads       int64
	}{
		{http.MethodGet, "http://" + host + challengePath + "token", 1},
		{http.MethodGet, "http://" + strings.ToUpper(host) + ".:80" + challengePath + "token", 1},
		{http.MethodGet, "http://other.example.com" + challengePath + "token", 0},
		{http.MethodGet, "http://192.0.2.1" + challengePath + "token", 0},
		{http.MethodGet, "http://" + host + "/", 0},
		{http.MethodGet, "http://" + host + challengePath + strings.Repeat("a", maxToken+1), 0},
		{http.MethodPost, "http://" + host + challengePath + "token", 0},
	} {
		storage.loads.Store(0)
		answer := httptest.NewRecorder()
		m.ServeHTTP(answer, httptest.NewRequest(tt.method, tt.url, nil))
		if reads := storage.loads.Load(); answer.Code != http.StatusNotFound || reads != tt.reads {
			t.Errorf("%s %s: status %d, %d reads; want %d", tt.method, tt.url, answer.Code, reads, tt.reads)
		}
	}
}

// The same for handshakes. A name that is not configured ends with unrecognized_name.
func TestHandshakesOfStrangersReadNothing(t *testing.T) {
	m, storage := manager(t)
	const challenge = "acme-tls/1"
	for _, tt := range []struct {
		name   string
		protos []string
		reads  int64
		alert  string
	}{
		{host, []string{challenge}, 1, "internal error"},
		{host, []string{challenge, "h2"}, 0, "internal error"},
		{host, []string{"h2"}, 0, "internal error"},
		{"", []string{"h2"}, 0, "internal error"},
		{"other.example.com", []string{challenge}, 0, "unrecognized name"},
		{"other.example.com", []string{"h2"}, 0, "unrecognized name"},
		{"a." + host, nil, 0, "unrecognized name"},
	} {
		storage.loads.Store(0)
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = tls.Server(far, m.Config()).HandshakeContext(t.Context())
			far.Close()
		}()
		err := tls.Client(near, &tls.Config{ServerName: tt.name, NextProtos: tt.protos, InsecureSkipVerify: true}).HandshakeContext(t.Context())
		near.Close()
		<-ended
		if reads := storage.loads.Load(); err == nil || !strings.Contains(err.Error(), tt.alert) || reads != tt.reads {
			t.Errorf("%q with %v: %v, %d reads; want %s, %d", tt.name, tt.protos, err, reads, tt.alert, tt.reads)
		}
	}
}

// The log gets warnings and errors with plain values, and nothing that could reach into a storage.
func TestLogHasPlainValuesOnly(t *testing.T) {
	var text bytes.Buffer
	log := zap.New(bridge{slog.New(slog.NewTextHandler(&text, nil))}).Named("issuer").With(zap.Strings("identifiers", []string{host}))
	log.Info("an order begins")
	log.Warn("an order takes long")
	log.Error("an order failed", zap.Error(errors.New("refused")), zap.Int("attempt", 2), zap.Any("storage", struct{ Key string }{"secret"}))
	got := text.String()
	for _, want := range []string{`level=WARN msg="acme: an order takes long"`, `level=ERROR msg="acme: an order failed"`, "error=refused", "attempt=2", host} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "begins") {
		t.Error(got)
	}
}
