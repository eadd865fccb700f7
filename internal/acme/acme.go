// Package acme gets the certificates of a server from a certificate authority (RFC 8555), by the
// challenges HTTP-01 and TLS-ALPN-01 (RFC 8737), and renews them.
//
// The names are those of the configuration. A client that asks for another name in the TLS handshake
// is refused before anything is looked up, so no stranger causes an order. Every process over one
// storage shares the certificates, the account, and the answers to challenges; one of them orders
// while it holds the lock of a name, and the others take what it got.
//
// Package certmagic decides when to order and to renew and keeps to the protocol. What is here: the
// storage ([NewVault]), the handshake, and what operators see.
package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// LetsEncrypt is the directory of Let's Encrypt.
const LetsEncrypt = certmagic.LetsEncryptProductionCA

// Storage keeps what the processes of a server share: a [Vault] or what [NewFolder] returns.
type Storage = certmagic.Storage

// Config configures a [Manager]. Names, Directory, Storage and Log are required.
type Config struct {
	// Names are the host names to have certificates for, one certificate each. The first is for
	// clients that name none.
	Names []string
	// Email is how the authority reaches the operator; it may be empty.
	Email string
	// Directory is the URL of the authority's directory (RFC 8555 section 7.1.1).
	Directory string
	// Roots are the authorities that the directory's own certificate may come from; nil for those of
	// the system.
	Roots *x509.CertPool
	// Proxy chooses a proxy for requests to the authority; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the address of the listener that presents the certificates, HTTP that of the one that
	// answers HTTP-01 with [Manager.ServeHTTP]. A challenge is used if its address is set.
	TLS, HTTP net.Addr
	// Storage keeps certificates, keys, the account, locks, and answers to challenges.
	Storage Storage
	// Log receives what operators should know. No key is ever in a line.
	Log *slog.Logger
	// Check is the time between two looks whether a certificate has to be renewed; 0 means ten
	// minutes. Set it in tests.
	Check time.Duration
}

// interval is the time between two looks at what is there.
const interval = 5 * time.Second

// orderTime bounds an order: what the authority takes to check a challenge and to issue.
const orderTime = 5 * time.Minute

// Manager keeps the certificates of some names. It is a certificate.Source and, for HTTP-01, an
// [http.Handler].
type Manager struct {
	config Config
	order  *certmagic.Config     // orders and renews
	answer *certmagic.Config     // answers challenges, without a log: strangers ask too
	http01 *certmagic.ACMEIssuer // of answer
	cache  *certmagic.Cache
	now    func() time.Time

	state
}

// New returns a manager. Nothing is ordered before [Manager.Run].
func New(c Config) (*Manager, error) {
	if c.TLS == nil && c.HTTP == nil {
		return nil, errors.New("acme: there is neither a listener for HTTP-01 nor one for TLS-ALPN-01")
	}
	if c.Check == 0 {
		c.Check = certmagic.DefaultRenewCheckInterval
	}
	if c.Proxy == nil {
		c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // certmagic would ask the environment
	}
	m := &Manager{config: c, now: time.Now}
	m.init()
	log := zap.New(bridge{c.Log})
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.order, nil },
		RenewCheckInterval: c.Check,
		Logger:             log,
	})
	var err error
	if m.order, _, err = m.configured(log); err != nil {
		return nil, err
	}
	m.answer, m.http01, err = m.configured(zap.NewNop())
	return m, err
}

// configured returns a configuration with its only issuer. OCSP is not used: authorities have ended
// it, and it would be a fetch from an address that somebody else names.
func (m *Manager) configured(log *zap.Logger) (*certmagic.Config, *certmagic.ACMEIssuer, error) {
	c := m.config
	config := certmagic.New(m.cache, certmagic.Config{
		Storage: c.Storage, DisableStorageCheck: true, OCSP: certmagic.OCSPConfig{DisableStapling: true},
		OnEvent: m.happened, Logger: log,
	})
	template := certmagic.ACMEIssuer{
		CA: c.Directory, Email: c.Email, Agreed: true, TrustedRoots: c.Roots, HTTPProxy: c.Proxy, CertObtainTimeout: orderTime,
		DisableHTTPChallenge: c.HTTP == nil, DisableTLSALPNChallenge: c.TLS == nil, Logger: log,
	}
	if err := occupied(&template, c.TLS, c.HTTP); err != nil {
		return nil, nil, err
	}
	issuer := certmagic.NewACMEIssuer(config, template)
	issuer.TestCA = ""
	config.Issuers = []certmagic.Issuer{issuer}
	return config, issuer, nil
}

// occupied tells an issuer which addresses are listened on: it would listen on those of a challenge
// itself if it could. A host that fits both is one; else it is every address of the machine, where it
// finds the port taken too.
func occupied(issuer *certmagic.ACMEIssuer, overTLS, overHTTP net.Addr) error {
	hosts := map[string]bool{}
	for _, at := range []struct {
		addr net.Addr
		port *int
	}{{overTLS, &issuer.AltTLSALPNPort}, {overHTTP, &issuer.AltHTTPPort}} {
		if at.addr == nil {
			continue
		}
		host, port, err := net.SplitHostPort(at.addr.String())
		if err == nil {
			*at.port, err = strconv.Atoi(port)
		}
		if err != nil {
			return fmt.Errorf("acme: %w", err)
		}
		hosts[host], issuer.ListenHost = true, host
	}
	if len(hosts) > 1 {
		issuer.ListenHost = ""
	}
	return nil
}

// Run orders what is missing, renews what ends, and takes what other processes got, until ctx ends.
func (m *Manager) Run(ctx context.Context, log *slog.Logger) error {
	var running sync.WaitGroup
	for _, name := range m.config.Names {
		running.Go(func() { m.obtain(ctx, name, log) })
	}
	tick := time.NewTicker(min(interval, m.config.Check))
	defer tick.Stop()
	for ctx.Err() == nil {
		m.Look(log)
		select {
		case <-ctx.Done():
		case <-m.changed:
		case <-tick.C:
		}
	}
	m.cache.Stop()
	running.Wait()
	if held, ok := m.config.Storage.(io.Closer); ok {
		return held.Close()
	}
	return nil
}

// load takes the certificate of a name from the storage, and orders it if there is none.
func (m *Manager) load(ctx context.Context, name string) error {
	cert, err := m.order.CacheManagedCertificate(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = m.order.ObtainCertAsync(ctx, name); err == nil {
			cert, err = m.order.CacheManagedCertificate(ctx, name)
		}
	}
	if err != nil || !cert.NeedsRenewal(m.order) {
		return err
	}
	return m.cache.RenewManagedCertificates(ctx) // now, and not when it looks next
}

const (
	// longestPause bounds the time between two attempts to begin with a name, while the storage does
	// not answer.
	longestPause = time.Minute
	// refusedPause is the time after an answer of the authority that another order would not change.
	refusedPause = time.Hour
)

// obtain goes on until the certificate of a name is there; renewing it is certmagic's.
func (m *Manager) obtain(ctx context.Context, name string, log *slog.Logger) {
	for pause := interval; ; pause = min(2*pause, longestPause) { // certmagic repeats orders by itself
		err := m.load(ctx, name)
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.As(err, new(certmagic.ErrNoRetry)) {
			pause = refusedPause
		}
		m.fail(name)
		log.Warn("acme: there is no certificate yet", "name", name, "error", err)
		if sleep(ctx, pause) != nil {
			return
		}
	}
}
