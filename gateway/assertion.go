package gateway

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// AssertionType is the "typ" in the header of an assertion, which distinguishes it from other
// kinds of JWTs (RFC 8725 section 3.11).
const AssertionType = "gatehouse-assertion+jwt"

// AssertionLifetime is the lifetime of an assertion: just long enough for clocks that differ a
// little.
const AssertionLifetime = time.Minute

// Assertion has the claims of the JWT of [IdentityAssertion].
type Assertion struct {
	// Issuer is the URL of the resource, and Audience that of the upstream. For a gateway that
	// forwards nothing, the audience is the resource too.
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	// Subject is the subject of the access token, and TokenIssuer its issuer. The subject is
	// unique for the issuer only.
	Subject     string `json:"sub"`
	TokenIssuer string `json:"token_issuer"`
	// ClientID is the client of the access token, and Scope its scopes, separated by spaces.
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	// IssuedAt and Expiry are in seconds since 1970 (RFC 7519 section 2).
	IssuedAt int64 `json:"iat"`
	Expiry   int64 `json:"exp"`
	// ID is unique for each request.
	ID string `json:"jti"`
}

// asserter signs assertions.
type asserter struct {
	issuer, audience string
	signer           jose.Signer
	keys             http.Handler // serves the public key
	now              func() time.Time
}

func newAsserter(key *ecdsa.PrivateKey, issuer, audience string, now func() time.Time) (*asserter, error) {
	if key == nil || key.Curve != elliptic.P256() {
		return nil, errors.New("assertion key: it must be a key on P-256")
	}
	public := jose.JSONWebKey{Key: &key.PublicKey, Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("assertion key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	a := &asserter{issuer: issuer, audience: audience, now: now}
	a.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}},
		(&jose.SignerOptions{}).WithType(AssertionType))
	if err != nil {
		return nil, fmt.Errorf("assertion key: %w", err)
	}
	a.keys, err = metadata.Serve(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	return a, err
}

// sign returns a signed assertion about the caller with a token.
func (a *asserter) sign(t *middleware.Token) (string, error) {
	now := a.now()
	payload, err := json.Marshal(Assertion{
		Issuer: a.issuer, Audience: a.audience, Subject: t.Subject, TokenIssuer: t.Issuer, ClientID: t.ClientID,
		Scope: strings.Join(t.Scopes, " "), IssuedAt: now.Unix(), Expiry: now.Add(AssertionLifetime).Unix(), ID: rand.Text(),
	})
	if err != nil {
		return "", err
	}
	signed, err := a.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("gateway: assertion: %w", err)
	}
	return signed.CompactSerialize()
}
