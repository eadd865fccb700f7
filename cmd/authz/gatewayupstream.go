package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
)

// upstreamSettings are the credentials of the gateway towards a server, and how it knows the
// server.
type upstreamSettings struct {
	UpstreamHeadersFile string `placeholder:"FILE" help:"File with headers that the gateway adds for the server, such as: Authorization: Bearer SECRET, one in each line. A changed file takes effect within seconds."`
	UpstreamCert        string `placeholder:"FILE" help:"Certificate chain in PEM by which the server knows the gateway; with --upstream-key. A changed file takes effect within seconds."`
	UpstreamKey         string `placeholder:"FILE" help:"Private key in PEM; with --upstream-cert."`
	UpstreamCA          string `name:"upstream-ca" placeholder:"FILE" help:"Certificate authorities in PEM that may vouch for the server (default: those of the system)."`
	UpstreamServerName  string `placeholder:"NAME" help:"The name in the certificate of the server (default: the host of --upstream)."`
}

// secretFiles returns the files with secrets, by their settings.
func (s *upstreamSettings) secretFiles() map[string]string {
	return map[string]string{"upstream-headers-file": s.UpstreamHeadersFile, "upstream-key": s.UpstreamKey}
}

// set returns the names of those that are set.
func (s *upstreamSettings) set() (names []string) {
	for _, one := range []struct{ name, value string }{
		{"upstream-headers-file", s.UpstreamHeadersFile}, {"upstream-cert", s.UpstreamCert}, {"upstream-key", s.UpstreamKey},
		{"upstream-ca", s.UpstreamCA}, {"upstream-server-name", s.UpstreamServerName},
	} {
		if one.value != "" {
			names = append(names, one.name)
		}
	}
	return names
}

// headers reads the headers for the server, nil without any. The files that it read are watched.
func (s *upstreamSettings) headers(w *watched) (*gateway.UpstreamHeaders, error) {
	if s.UpstreamHeadersFile == "" {
		return nil, nil
	}
	header, err := readHeaders(s.UpstreamHeadersFile)
	if err != nil {
		return nil, err
	}
	headers, err := gateway.NewUpstreamHeaders(header)
	if err != nil {
		return nil, headerMistake(s.UpstreamHeadersFile, err)
	}
	w.add("upstream-headers-file", []string{s.UpstreamHeadersFile}, func() error {
		header, err := readHeaders(s.UpstreamHeadersFile)
		if err != nil {
			return err
		}
		return headers.Replace(header)
	})
	return headers, nil
}

func headerMistake(file string, err error) error {
	return fmt.Errorf("upstream-headers-file %s: %w", file, err)
}

// readHeaders reads a file with a header in each line. Its errors do not contain the values.
func readHeaders(file string) (http.Header, error) {
	text, err := settings.SecretFrom(file)
	if err != nil {
		return nil, fmt.Errorf("upstream-headers-file: %w", err)
	}
	header := http.Header{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !ok || header.Get(name) != "" {
			return nil, headerMistake(file, errors.New("each line is one header, such as X-Api-Key: SECRET, and each header is there once"))
		}
		header.Set(name, strings.TrimSpace(value))
	}
	return header, nil
}

// tls returns the settings of TLS for connections to the server, nil for the default. The
// certificate is watched.
func (s *upstreamSettings) tls(w *watched) (*tls.Config, error) {
	if (s.UpstreamCert == "") != (s.UpstreamKey == "") {
		return nil, errors.New("upstream-cert and upstream-key belong together: set both, or none")
	}
	if s.UpstreamCert == "" && s.UpstreamCA == "" && s.UpstreamServerName == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.UpstreamServerName}
	if s.UpstreamCA != "" {
		text, err := settings.ReadAtMost(s.UpstreamCA, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("upstream-ca: %w", err)
		}
		out.RootCAs, w.roots = x509.NewCertPool(), sha256.Sum256(text)
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("upstream-ca %s: there is no certificate in PEM", s.UpstreamCA)
		}
	}
	if s.UpstreamCert == "" {
		return out, nil
	}
	return out, s.certificate(out, w)
}

// certificate sets the client certificate.
func (s *upstreamSettings) certificate(out *tls.Config, w *watched) error {
	var current atomic.Pointer[tls.Certificate]
	load := func() error {
		pair, err := tls.LoadX509KeyPair(s.UpstreamCert, s.UpstreamKey)
		if err != nil {
			return fmt.Errorf("upstream-cert %s, upstream-key %s: %w", s.UpstreamCert, s.UpstreamKey, err)
		}
		current.Store(&pair)
		return nil
	}
	if err := load(); err != nil {
		return err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return current.Load(), nil }
	w.add("upstream-cert", []string{s.UpstreamCert, s.UpstreamKey}, load)
	return nil
}
