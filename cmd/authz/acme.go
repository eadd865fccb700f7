package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/acme"
	"gatehouse.example/internal/listener"
	"gatehouse.example/storage"
)

// acmeSettings are the settings of certificates from an authority (RFC 8555).
type acmeSettings struct {
	ACMENames      []string `name:"acme-names" placeholder:"NAME" help:"Get the certificate for this host name from a certificate authority, and renew it; repeatable (default: none)."`
	ACMEEmail      string   `name:"acme-email" placeholder:"ADDRESS" help:"How the authority reaches you (default: not at all)."`
	ACMEDirectory  string   `name:"acme-directory" default:"https://acme-v02.api.letsencrypt.org/directory" placeholder:"URL" help:"The directory of the authority (default ${default})."`
	ACMERoots      string   `name:"acme-roots" placeholder:"FILE" help:"Certificates in PEM of those who may vouch for the directory (default: those of the system)."`
	ACMEAgreeTerms bool     `name:"acme-agree-terms" help:"You agree to the terms of the authority. Required with --acme-names."`
	ACMETLSALPN    bool     `name:"acme-tls-alpn" default:"true" negatable:"" help:"Answer TLS-ALPN-01 on the public listener, which the authority must reach as port 443 (default ${default})."`
	ACMEHTTPListen string   `name:"acme-http-listen" placeholder:"ADDR" help:"Answer HTTP-01 on this address, which the authority must reach as port 80; nothing else is served there (default: not)."`
}

// orders reports whether certificates come from an authority.
func (a *acmeSettings) orders() bool { return len(a.ACMENames) > 0 }

// letsEncrypt is the default of acme-directory.
const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// maxNames bounds the names: each is an order of its own.
const maxNames = 100

// hostName is a name that an authority can check by a challenge.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// mistakes returns an error for each of the settings that is malformed or contradicts another. Cert is
// the setting tls-cert.
func (a *acmeSettings) mistakes(cert string) error {
	var errs []error
	mistake := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if !a.orders() {
		of := a.ACMEEmail != "" || a.ACMEHTTPListen != "" || a.ACMEAgreeTerms || a.ACMERoots != "" || a.ACMEDirectory != letsEncrypt || !a.ACMETLSALPN
		mistake(of, "acme-names is not set: name the hosts to have certificates for, or leave out the other settings that begin with acme")
		return errors.Join(errs...)
	}
	mistake(cert != "", "acme-names and tls-cert are both set: a certificate comes from an authority or from a file, leave out one of them")
	mistake(!a.ACMEAgreeTerms, "acme-agree-terms is not set: read the terms of the authority at %s, and set it if you agree", a.ACMEDirectory)
	mistake(!a.ACMETLSALPN && a.ACMEHTTPListen == "", "acme-tls-alpn is off and acme-http-listen is not set: the authority has no way to check that the names are yours")
	mistake(len(a.ACMENames) > maxNames, "acme-names has %d names: %d are possible", len(a.ACMENames), maxNames)
	at, err := url.Parse(a.ACMEDirectory)
	mistake(err != nil || at.Scheme != "https" || at.Host == "", "acme-directory %q is not an https URL", a.ACMEDirectory)
	if a.ACMEHTTPListen != "" {
		err := validAddress(a.ACMEHTTPListen)
		mistake(err != nil, "acme-http-listen %w", err)
	}
	_, err = a.roots()
	return errors.Join(append(errs, a.nameMistakes(), err)...)
}

// nameMistakes returns an error for each name that no authority checks by these challenges.
func (a *acmeSettings) nameMistakes() error {
	var errs []error
	for i, name := range a.ACMENames {
		if len(name) > 253 || !hostName.MatchString(name) || net.ParseIP(name) != nil {
			errs = append(errs, fmt.Errorf("acme-names %q is not a host name in lower case, such as auth.example.com; an authority checks no pattern and no address in this way", name))
		}
		if slices.Contains(a.ACMENames[:i], name) {
			errs = append(errs, fmt.Errorf("acme-names has %s twice", name))
		}
	}
	return errors.Join(errs...)
}

// roots returns who may vouch for the directory, nil for those of the system.
func (a *acmeSettings) roots() (*x509.CertPool, error) {
	if a.ACMERoots == "" {
		return nil, nil
	}
	text, err := settings.ReadAtMost(a.ACMERoots, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("acme-roots: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("acme-roots %s: there is no certificate in PEM in it", a.ACMERoots)
	}
	return pool, nil
}

// doubts returns a warning if the name that clients dial is not among those with a certificate. Dialled
// is the URL, from is the setting that has it.
func (a *acmeSettings) doubts(from, dialled string) []string {
	at, err := url.Parse(dialled)
	if !a.orders() || err != nil || at.Hostname() == "" || slices.Contains(a.ACMENames, at.Hostname()) {
		return nil
	}
	return []string{fmt.Sprintf("acme-names does not have %s, the host of %s: unless a proxy is in front, clients are refused", at.Hostname(), from)}
}

// plan prints what would be ordered.
func (a *acmeSettings) plan(w io.Writer, listen string) error {
	var by []string
	if a.ACMETLSALPN {
		by = append(by, "TLS-ALPN-01 on "+listen)
	}
	if a.ACMEHTTPListen != "" {
		by = append(by, "HTTP-01 on "+a.ACMEHTTPListen)
	}
	for _, name := range a.ACMENames {
		if _, err := fmt.Fprintf(w, "A certificate for %s would come from %s, checked by %s.\n", name, a.ACMEDirectory, strings.Join(by, " or ")); err != nil {
			return err
		}
	}
	return nil
}

// acmeDoubts returns a warning for each of these settings that will not do what was meant.
func (s *serveSettings) acmeDoubts() []string {
	out := s.acmeSettings.doubts("issuer", s.Issuer)
	if s.orders() && s.Store.Embedded() {
		out = append(out, "acme-names: certificates are lost at exit with this store, and each start orders new ones, of which authorities issue few in a week: give a store that lasts")
	}
	return out
}

// certify makes the public listener present certificates from an authority, if there are names. The
// store keeps them.
func (s *serveSettings) certify(ctx context.Context, st *site, store *storage.Store) error {
	vault := func() (acme.Storage, error) { return acme.NewVault(store, s.ACMEDirectory), nil }
	return st.certify(ctx, &s.acmeSettings, vault, s.client().Transport.(*http.Transport).Proxy)
}

// certify makes the public listener present certificates from an authority, if there are names. The
// storage is asked for only then.
func (st *site) certify(ctx context.Context, a *acmeSettings, kept func() (acme.Storage, error), proxy func(*http.Request) (*url.URL, error)) error {
	if !a.orders() {
		return nil
	}
	keeps, err := kept()
	if err != nil {
		return err
	}
	c := acme.Config{Names: a.ACMENames, Email: a.ACMEEmail, Directory: a.ACMEDirectory, Storage: keeps, Proxy: proxy, Log: st.log}
	if c.Roots, err = a.roots(); err != nil {
		return err
	}
	if a.ACMETLSALPN {
		c.TLS = st.public.Addr()
	}
	if a.ACMEHTTPListen != "" {
		if st.challenges, err = listener.Open(ctx, "acme-http-listen", a.ACMEHTTPListen); err != nil {
			return err
		}
		c.HTTP = st.challenges.Addr()
	}
	if st.authority, err = acme.New(c); err != nil {
		return err
	}
	st.pair = st.authority
	if st.metrics != nil {
		st.metrics.Certificate(st.pair)
	}
	return nil
}

// challengeConnections is the greatest number of connections to the listener for HTTP-01, which
// authorities use for a moment from several networks.
const challengeConnections = 256

// answerChallenges serves HTTP-01 until the function that it returns is called.
func (st *site) answerChallenges() (stop func()) {
	if st.challenges == nil {
		return func() {}
	}
	side := listener.New(st.authority, listener.Config{Connections: challengeConnections, Log: st.log})
	go func() {
		if err := side.Serve(st.challenges); !errors.Is(err, http.ErrServerClosed) {
			st.log.Error("acme: the listener for HTTP-01 ended", "error", err)
		}
	}()
	return func() { _ = side.Close() }
}

// uncertified returns a sentence if a name has no certificate. It makes nobody unready: an authority
// that came through a balancer could otherwise not reach the listener that answers its challenge.
func (st *site) uncertified() []string {
	if st.authority == nil {
		return nil
	}
	if missing := st.authority.Missing(); len(missing) > 0 {
		return []string{"there is no certificate yet for " + strings.Join(missing, ", ")}
	}
	return nil
}

// announce prints where certificates come from.
func (a *acmeSettings) announce(line func(label, value string), challenges net.Listener) {
	if !a.orders() {
		return
	}
	line("certificates", "for "+strings.Join(a.ACMENames, ", ")+" from "+a.ACMEDirectory)
	if challenges != nil {
		line("HTTP-01 on", challenges.Addr().String())
	}
}

// acmeMistakes returns an error for each of the settings about certificates from an authority that is
// malformed or contradicts another.
func (s *gatewaySettings) acmeMistakes() error {
	err := s.acmeSettings.mistakes(s.TLSCert)
	switch {
	case s.orders() && s.ACMEFolder == "":
		return errors.Join(err, errors.New("acme-folder is not set: name a folder that lasts, for the certificates and their keys; only the user of the gateway may enter it"))
	case !s.orders() && s.ACMEFolder != "":
		return errors.Join(err, errors.New("acme-folder is set and acme-names is not: name the hosts to have certificates for"))
	}
	return err
}
