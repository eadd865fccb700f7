package acme

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/mholt/acmez/v3"

	"gatehouse.example/internal/certificate"
)

// errNone refuses a handshake for one of our names.
var errNone = errors.New("acme: the authority has issued no certificate for this name yet")

// Config returns the settings of a server that presents the certificates and answers TLS-ALPN-01
// (RFC 8737). A client that asks for a name which is not configured gets the alert unrecognized_name
// (RFC 6066 section 3), before anything is looked up; one that asks for none gets the first
// certificate.
func (m *Manager) Config() *tls.Config {
	config := certificate.Settings(m.choose)
	if m.config.TLS != nil {
		config.GetConfigForClient = m.challenged
	}
	return config
}

// known returns a name as it is configured, and whether it is.
func (m *Manager) known(name string) (string, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name, slices.Contains(m.config.Names, name)
}

// choose returns the certificate for a handshake. Without an error and a certificate, crypto/tls sends
// unrecognized_name.
func (m *Manager) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name, ours := m.known(hello.ServerName)
	if hello.ServerName == "" {
		name, ours = m.config.Names[0], true
	}
	if !ours {
		return nil, nil
	}
	if cert := (*m.current.Load())[name]; cert != nil {
		return cert, nil
	}
	return nil, errNone
}

// challenged returns settings for a handshake of the authority, which offers one protocol only, and
// nil for any other. The answer may be that of another process: it is one read of the storage, as for
// any request.
func (m *Manager) challenged(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if !slices.Equal(hello.SupportedProtos, []string{acmez.ACMETLS1Protocol}) {
		return nil, nil
	}
	answer := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acmez.ACMETLS1Protocol}}
	if _, ours := m.known(hello.ServerName); !ours {
		return answer, nil // without a certificate: unrecognized_name
	}
	cert, err := m.answer.GetCertificate(hello)
	if err != nil {
		return nil, err
	}
	answer.Certificates = []tls.Certificate{*cert}
	return answer, nil
}

// challengePath is where the authority looks for an answer (RFC 8555 section 8.3).
const challengePath = "/.well-known/acme-challenge/"

// maxToken is the length of the longest token that is looked up; those of authorities have 43
// characters.
const maxToken = 128

// ServeHTTP answers HTTP-01. There is nothing else: a request for anything, under another host, or
// when nothing is asked, gets 404.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	token, asked := strings.CutPrefix(r.URL.Path, challengePath)
	if _, ours := m.known(host); ours && asked && len(token) <= maxToken && r.Method == http.MethodGet {
		if m.http01.HandleHTTPChallenge(w, r) {
			return
		}
	}
	http.NotFound(w, r)
}
