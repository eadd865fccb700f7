package middleware

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"gatehouse.example/internal/headername"
)

// ClientCertificates says where a guard finds the certificate of a client, for tokens that are
// bound to one (RFC 8705 section 3). The zero value refuses such tokens. The guard compares the
// certificate with the token; who signed it does not count.
type ClientCertificates struct {
	// TLS takes the certificate of the connection. Set it where the handler ends TLS, and let
	// tls.Config ask for certificates: with tls.RequestClientCert at least.
	TLS bool
	// Header names the header in which a proxy that ends TLS sends the certificate. It counts from
	// Config.TrustedProxies alone, and the handler never gets it. The proxy must set or remove it
	// in each request. The form follows from the name:
	//
	//   - Client-Cert: DER in base64 between colons (RFC 9440 section 2.1);
	//   - X-Forwarded-Client-Cert: of Envoy, one element, whose Hash counts;
	//   - any other: PEM with percent-escapes, as $ssl_client_escaped_cert of nginx, or DER in
	//     base64 without line breaks.
	Header string
}

const (
	certRFC9440 = "Client-Cert"
	certEnvoy   = "X-Forwarded-Client-Cert"
)

// validate finds mistakes. proxied tells whether there are trusted proxies.
func (c *ClientCertificates) validate(proxied bool) error {
	switch {
	case c.Header == "":
		return nil
	case !headername.Canonical(http.CanonicalHeaderKey(c.Header)) || judgedHeaders.Has(c.Header) && http.CanonicalHeaderKey(c.Header) != certEnvoy:
		return errors.New("client certificates: " + c.Header + " cannot be the header: a name has letters, digits and hyphens, and no other meaning")
	case !proxied:
		return errors.New("client certificates: a header counts from TrustedProxies alone, and there are none")
	}
	return nil
}

// certificates finds the certificates of clients for one guard.
type certificates struct {
	tls     bool
	header  string // canonical; empty without
	folded  string
	proxies proxies
}

func newCertificates(c ClientCertificates, trusted proxies) certificates {
	return certificates{tls: c.TLS, header: http.CanonicalHeaderKey(c.Header), folded: headername.Fold(c.Header), proxies: trusted}
}

// accepted reports whether tokens that are bound to a certificate can be accepted.
func (c *ClientCertificates) accepted() bool { return c.TLS || c.Header != "" }

// hasCertificate returns a refusal unless the client has the certificate that its token is bound
// to. An empty thumbprint stands for a token that is bound to none.
func (g *Guard) hasCertificate(r *http.Request, thumbprint string) error {
	if thumbprint == "" {
		return nil
	}
	if got, err := g.certificates.thumbprint(r); err != nil || !same(got, thumbprint) {
		// RFC 8705 section 3: without a match, 401 with "invalid_token".
		refusal := invalid("The access token is bound to a certificate that the client does not show.")
		refusal.cause = err
		return refusal
	}
	return nil
}

var errNoCertificate = errors.New("there is no certificate")

// thumbprint returns the thumbprint of the client's certificate. A trusted proxy's own certificate
// is not the client's.
func (c *certificates) thumbprint(r *http.Request) (string, error) {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); c.header != "" && err == nil && c.proxies.trusts(peer.Addr()) {
		values := r.Header[c.header]
		if len(values) != 1 {
			return "", errNoCertificate
		}
		return certificateIn(c.header, values[0])
	}
	if !c.tls || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "", errNoCertificate
	}
	return thumbprintOf(r.TLS.PeerCertificates[0].Raw), nil
}

// certificateIn returns the thumbprint of the certificate in a header.
func certificateIn(name, value string) (string, error) {
	switch name {
	case certEnvoy:
		return envoyHash(value)
	case certRFC9440:
		inner, ok := strings.CutPrefix(value, ":")
		inner, closed := strings.CutSuffix(inner, ":")
		if !ok || !closed {
			return "", errors.New("the certificate is not between colons")
		}
		return thumbprintOfBase64(inner)
	}
	if !strings.Contains(value, "BEGIN") {
		return thumbprintOfBase64(value)
	}
	text, err := url.PathUnescape(value)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return "", errors.New("the header holds no certificate in PEM")
	}
	return thumbprintOf(block.Bytes), nil
}

// thumbprintOfBase64 returns the thumbprint of DER in base64.
func thumbprintOfBase64(text string) (string, error) {
	der, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(der) == 0 {
		return "", errors.New("the certificate is not in base64")
	}
	return thumbprintOf(der), nil
}

// envoyHash returns the Hash of the only element of the header of Envoy. With several elements it
// is not known which of them a client made up.
func envoyHash(value string) (string, error) {
	var found string
	quoted := false
	for pair := range strings.FieldsFuncSeq(value, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return !quoted && c == ';'
	}) {
		name, rest, _ := strings.Cut(pair, "=")
		if strings.Contains(withoutQuotes(pair), ",") || found != "" && strings.EqualFold(name, "Hash") {
			return "", errors.New("the header has several elements")
		}
		if strings.EqualFold(name, "Hash") {
			found = rest
		}
	}
	sum, err := hex.DecodeString(found)
	if err != nil || len(sum) != 32 {
		return "", errNoCertificate
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// withoutQuotes removes what is between quotes. A quote in it makes the rest unquoted, which can
// only find more commas.
func withoutQuotes(s string) string {
	var out strings.Builder
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 0 {
			out.WriteString(part)
		}
	}
	return out.String()
}

// strip removes the header with the certificate, in every spelling that some server treats alike.
func (c *certificates) strip(header http.Header) {
	if c.header == "" {
		return
	}
	for name := range header {
		if headername.Is(name, c.folded) {
			delete(header, name)
		}
	}
}
