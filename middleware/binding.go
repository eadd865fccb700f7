package middleware

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/go-jose/go-jose/v4/json"
)

// binding is what a token is bound to ("cnf", RFC 7800 section 3.1): SHA-256 thumbprints in
// base64url, each empty without such a binding. If both are there, both count.
type binding struct {
	key         string // "jkt" (RFC 9449 section 6.1)
	certificate string // "x5t#S256" (RFC 8705 section 3.1)
}

func (b binding) any() bool { return b != binding{} }

// readBinding reads "cnf". A kind that this package cannot check is refused, also beside one that
// it can: the issuer meant it as a condition.
func readBinding(cnf json.RawMessage) (binding, error) {
	var kinds map[string]json.RawMessage
	if unambiguous(cnf, &kinds) != nil || len(kinds) == 0 {
		return binding{}, errBindingKind
	}
	var b binding
	for kind, raw := range kinds {
		var thumbprint string
		if json.Unmarshal(raw, &thumbprint) != nil || !isThumbprint(thumbprint) {
			return binding{}, errBindingKind
		}
		switch kind {
		case "jkt":
			b.key = thumbprint
		case "x5t#S256":
			b.certificate = thumbprint
		default:
			return binding{}, errBindingKind
		}
	}
	return b, nil
}

// isThumbprint reports whether a text is a SHA-256 in base64url, in its only spelling.
func isThumbprint(s string) bool {
	sum, err := segment(nil, s)
	return err == nil && len(sum) == sha256.Size
}

// thumbprintOf returns the SHA-256 of a text in base64url.
func thumbprintOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var (
	errBindingKind = invalid("The access token is bound in a way that cannot be checked here.")
	errBoundToKey  = invalid("The access token is bound to a key.")
	errBoundToCert = invalid("The access token is bound to a certificate.")
)

// bind reads the binding of a token.
func (c *jwtClaims) bind() (err error) {
	if c.Confirmation != nil {
		c.bound, err = readBinding(c.Confirmation)
	}
	return err
}

// KeyThumbprint returns the SHA-256 thumbprint, in base64url, of the key that the token is bound
// to (RFC 9449 section 6.1), and "" for a token that is bound to no key.
func (t *Token) KeyThumbprint() string { return t.bound.key }

// CertificateThumbprint returns the SHA-256 thumbprint, in base64url, of the certificate that the
// token is bound to (RFC 8705 section 3.1), and "" for a token that is bound to none.
func (t *Token) CertificateThumbprint() string { return t.bound.certificate }

// possesses returns a refusal unless the sender of a request has what its token is bound to. It
// runs for each request: that the token is in the cache says nothing about who sends it.
func (g *Guard) possesses(w http.ResponseWriter, r *http.Request, raw string, token *Token) error {
	if err := g.admits(token.bound); err != nil {
		return err
	}
	if err := g.hasCertificate(r, token.bound.certificate); err != nil || g.dpop == nil {
		return err
	}
	return g.dpop.proves(w, r, raw, token)
}

// proves is [Guard.possesses] as a part of the request, where there is something to check.
func (g *Guard) proves(w http.ResponseWriter, r *http.Request, raw string, token *Token) error {
	if g.dpop == nil && !token.bound.any() {
		return g.possesses(w, r, raw, token)
	}
	_, end := g.parts.begin(r, PartProof)
	err := g.possesses(w, r, raw, token)
	ended(end, err)
	return err
}

// admits returns a refusal of a binding that this guard does not check for any request.
func (g *Guard) admits(b binding) error {
	switch {
	case b.key != "" && g.dpop == nil:
		return errBoundToKey
	case b.certificate != "" && !g.certificates.tls && g.certificates.header == "":
		return errBoundToCert
	}
	return nil
}
