package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"
)

// Source is where a server gets its certificates from: a [Pair] of files, or a certificate
// authority. It is safe for concurrent use.
type Source interface {
	// Config returns the settings of a server that presents the certificates.
	Config() *tls.Config
	// Run keeps the certificates in step until ctx ends.
	Run(ctx context.Context, log *slog.Logger) error
	// Expires returns the end of the certificate in use that ends first. It is 1970 while one is
	// missing.
	Expires() time.Time
	// Loads returns how many certificates were taken, and how many looks found that a new one
	// cannot be had.
	Loads() (taken, failed int64)
}

// Settings returns the settings of a server with a choice of certificates: TLS 1.2 with forward
// secrecy and authenticated encryption, and TLS 1.3 (RFC 9325 sections 3.1.1 and 4.2).
func Settings(choose func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{ // of TLS 1.2; those of 1.3 are all good
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		GetCertificate: choose,
	}
}

// near is how long before its end a certificate is reported: 14 days, and for those of short life a
// fifth of it.
const near = 14 * 24 * time.Hour

// EndsSoon reports whether the end of a certificate is so near that an operator should know, or has
// passed.
func EndsSoon(leaf *x509.Certificate, now time.Time) bool {
	within := min(near, leaf.NotAfter.Sub(leaf.NotBefore)/5)
	return !now.Before(leaf.NotAfter.Add(-within))
}
