package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/certificate"
)

// state is what a manager presents, and what operators see of it.
type state struct {
	current       atomic.Pointer[map[string]*tls.Certificate] // by name; never changed
	taken, failed atomic.Int64
	changed       chan struct{} // something may have been taken

	mu      sync.Mutex
	failing map[string]bool      // names whose last order failed
	warned  map[string]time.Time // when the log last named the end of a certificate
}

func (s *state) init() {
	s.changed, s.failing, s.warned = make(chan struct{}, 1), map[string]bool{}, map[string]time.Time{}
	s.current.Store(&map[string]*tls.Certificate{})
}

// happened is called by certmagic, which waits for it.
func (m *Manager) happened(_ context.Context, event string, data map[string]any) error {
	name, _ := data["identifier"].(string)
	switch event {
	case "cert_failed":
		m.fail(name)
	case "cert_obtained":
		m.succeed(name)
	case "cached_managed_cert":
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// fail notes that the last order for a name failed.
func (s *state) fail(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[name] = true
}

// succeed notes that a certificate for a name was issued.
func (s *state) succeed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failing, name)
}

// Look takes the certificates that are new. A name whose last order failed makes the look a failed
// one. An end that is near is logged once a day.
func (m *Manager) Look(log *slog.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, after := *m.current.Load(), map[string]*tls.Certificate{}
	for _, name := range m.config.Names {
		cert := m.newest(name)
		if cert == nil {
			continue
		}
		after[name] = cert
		if old := before[name]; old == nil || !bytes.Equal(old.Leaf.Raw, cert.Leaf.Raw) {
			m.taken.Add(1)
			delete(m.failing, name)
			delete(m.warned, name)
			log.Info("acme: new connections get a new certificate", "name", name, "until", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		m.warn(log, name, cert.Leaf)
	}
	m.current.Store(&after)
	if len(m.failing) > 0 {
		m.failed.Add(1)
	}
}

// newest returns the certificate of a name that began last, nil if there is none.
func (m *Manager) newest(name string) (newest *tls.Certificate) {
	for _, cert := range m.cache.AllMatchingCertificates(name) {
		if newest == nil || cert.Leaf.NotBefore.After(newest.Leaf.NotBefore) {
			newest = &cert.Certificate
		}
	}
	return newest
}

// warn logs once a day that a certificate ends soon or has ended.
func (m *Manager) warn(log *slog.Logger, name string, leaf *x509.Certificate) {
	now := m.now()
	if !certificate.EndsSoon(leaf, now) || now.Sub(m.warned[name]) < 24*time.Hour {
		return
	}
	m.warned[name] = now
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if !now.Before(leaf.NotAfter) {
		log.Error("acme: the certificate has expired, and the authority has issued no other: clients refuse to connect", "name", name, "until", until)
		return
	}
	log.Warn("acme: the certificate ends soon, and the authority has issued no other", "name", name, "until", until)
}

// Expires returns the end of the certificate that ends first, 1970 while one is missing.
func (m *Manager) Expires() time.Time {
	current := *m.current.Load()
	var first time.Time
	for _, name := range m.config.Names {
		cert := current[name]
		if cert == nil {
			return time.Unix(0, 0)
		}
		if first.IsZero() || cert.Leaf.NotAfter.Before(first) {
			first = cert.Leaf.NotAfter
		}
	}
	return first
}

// Missing returns the names without a certificate.
func (m *Manager) Missing() (names []string) {
	current := *m.current.Load()
	for _, name := range m.config.Names {
		if current[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// Loads returns how many certificates were taken, and at how many looks the last order for a name had
// failed.
func (m *Manager) Loads() (taken, failed int64) { return m.taken.Load(), m.failed.Load() }
