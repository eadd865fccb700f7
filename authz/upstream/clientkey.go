package upstream

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
)

// ClientKey is the private key of this server at a provider, for private_key_jwt.
type ClientKey struct {
	// Signer is an RSA (2048 bits or more), ECDSA or Ed25519 key.
	Signer crypto.Signer
	// ID is the kid under which the provider knows the public key. It may be empty.
	ID string
	// Algorithm is the JWS algorithm. Empty is RS256, ES256, ES384, ES512 or EdDSA after the key.
	Algorithm string
	// Certificate is in DER, for providers that know the key by one (Entra): its SHA-256 goes into
	// x5t#S256. Empty is none.
	Certificate []byte
}

// assertionTime is how long an assertion counts.
const assertionTime = time.Minute

// ParseClientKey reads a private JWK, or PEM with a private key and perhaps its certificate.
// Errors never quote the file.
func ParseClientKey(data []byte) (*ClientKey, error) {
	var k ClientKey
	var err error
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("{")) {
		err = k.readJWK(trimmed)
	} else {
		err = k.readPEM(data)
	}
	if err == nil {
		err = k.valid()
	}
	if err != nil {
		return nil, err
	}
	return &k, nil
}

func (k *ClientKey) readJWK(data []byte) error {
	var jwk jose.JSONWebKey
	if json.Unmarshal(data, &jwk) != nil || !jwk.Valid() {
		return errors.New("it is no valid JWK")
	}
	signer, ok := jwk.Key.(crypto.Signer)
	if !ok {
		return errors.New("the JWK is no private key")
	}
	k.Signer, k.ID, k.Algorithm = signer, jwk.KeyID, jwk.Algorithm
	if len(jwk.Certificates) > 0 {
		k.Certificate = jwk.Certificates[0].Raw
	}
	return nil
}

func (k *ClientKey) readPEM(data []byte) error {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			if k.Certificate == nil {
				k.Certificate = block.Bytes
			}
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
			if k.Signer != nil {
				return errors.New("it has more than one private key")
			}
			if k.Signer = privateKey(block.Bytes); k.Signer == nil {
				return errors.New("its private key cannot be read")
			}
		}
	}
	if k.Signer == nil {
		return errors.New("it has no private key in PEM, and is no JWK")
	}
	return nil
}

// privateKey reads the three encodings of private keys.
func privateKey(der []byte) crypto.Signer {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		signer, _ := key.(crypto.Signer)
		return signer
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	return nil
}

// algorithms are those that the key can sign with, the usual one first.
func (k *ClientKey) algorithms() []string {
	switch public := k.Signer.Public().(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() >= 2048 {
			return []string{"RS256", "PS256", "RS384", "RS512", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		if a, ok := map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Curve.Params().BitSize]; ok {
			return []string{a}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// valid says what is wrong with the key.
func (k *ClientKey) valid() error {
	if k.Signer == nil {
		return errors.New("it has no private key")
	}
	can := k.algorithms()
	switch {
	case len(can) == 0:
		return errors.New("write an RSA key of 2048 bits or more, or one of P-256, P-384, P-521 or Ed25519")
	case k.Algorithm != "" && !slices.Contains(can, k.Algorithm):
		return errors.New("its alg is none that such a key signs with")
	case k.Certificate == nil:
		return nil
	}
	certificate, err := x509.ParseCertificate(k.Certificate)
	if err != nil {
		return errors.New("its certificate cannot be read")
	}
	public, ok := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(k.Signer.Public()) {
		return errors.New("its certificate is that of another key")
	}
	return nil
}

// assertion returns a signed proof of who this server is (RFC 7523 section 3), for one request.
func (c *Client) assertion(m metadata) (string, error) {
	k, now := c.p.ClientKey, c.o.Now()
	algorithm := k.Algorithm
	if algorithm == "" {
		algorithm = k.algorithms()[0]
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if k.Certificate != nil {
		sum := sha256.Sum256(k.Certificate)
		options = options.WithHeader("x5t#S256", base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.SignatureAlgorithm(algorithm),
		Key:       jose.JSONWebKey{Key: cryptosigner.Opaque(k.Signer), KeyID: k.ID},
	}, options)
	if err != nil {
		return "", c.error(ErrMisconfigured, ReasonClient, "client_key cannot sign: %s", shown(err.Error(), 100))
	}
	// The issuer as the only audience keeps an assertion from being used at another server. Some
	// products take the token endpoint only.
	audience := m.Issuer
	if presets[c.p.Preset].tokenAudience {
		audience = m.TokenEndpoint
	}
	payload, err := json.Marshal(map[string]any{
		"iss": c.p.ClientID, "sub": c.p.ClientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", c.error(ErrMisconfigured, ReasonClient, "client_key cannot sign: %s", shown(err.Error(), 100))
	}
	return signed.CompactSerialize()
}
