package middleware

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"gatehouse.example/metadata"
)

const (
	// maxToken bounds what is decoded at all, in bytes.
	maxToken = 8 << 10
	// leeway is how far the clocks of the issuer and of this server may be apart.
	leeway = 10 * time.Second
)

// algorithms are the signature algorithms that are accepted. All are asymmetric: with
// none or HS256 anybody could sign (RFC 8725 section 3.1 and 3.2).
var algorithms = [...]jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256}

// jwsHeader is the protected header of a token. The members from crit on are refused
// whatever they say: they would change how the token is read, or bring a key along.
type jwsHeader struct {
	Algorithm jose.SignatureAlgorithm `json:"alg"`
	Type      string                  `json:"typ"`
	KeyID     string                  `json:"kid"`

	Critical   json.RawMessage `json:"crit"`
	Unencoded  json.RawMessage `json:"b64"`
	Compressed json.RawMessage `json:"zip"`
	Key        json.RawMessage `json:"jwk"`
	KeySetURL  json.RawMessage `json:"jku"`
	CertURL    json.RawMessage `json:"x5u"`
	Certs      json.RawMessage `json:"x5c"`
}

// jwtClaims are the claims of RFC 9068 section 2.2 that matter here.
type jwtClaims struct {
	Issuer    string    `json:"iss"`
	Subject   string    `json:"sub"`
	ClientID  string    `json:"client_id"`
	Audience  audience  `json:"aud"`
	Scope     string    `json:"scope"`
	ID        string    `json:"jti"`
	Expiry    timestamp `json:"exp"`
	NotBefore timestamp `json:"nbf"`
	IssuedAt  timestamp `json:"iat"`
}

// verify returns what a token says when all of it is right. Its errors are a
// [challenge], or tell that the issuer's keys cannot be had. Everything that is cheap
// is checked before the key is looked up, so that only a token which claims to be ours
// costs a signature or a fetch.
func (g *Guard) verify(ctx context.Context, raw string) (*Token, error) {
	header, payload, err := open(raw)
	if err != nil {
		return nil, err
	}
	var claims jwtClaims
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, invalid("The claims of the access token cannot be read.")
	}
	from, ok := g.issuers[claims.Issuer]
	if !ok {
		// RFC 9068 section 4: the issuer MUST exactly match.
		return nil, invalid("The access token comes from another issuer.")
	}
	if err := claims.check(g.resource, g.now()); err != nil {
		return nil, err
	}
	key, err := from.key(ctx, keyID{header.KeyID, header.Algorithm})
	if err != nil {
		return nil, err
	}
	if !key.signed(raw, payload) {
		return nil, invalid("The signature of the access token is wrong.")
	}
	token := claims.token()
	token.effective = g.policy.effective(token.Scopes)
	return token, nil
}

// open checks the shape of a token and its header (RFC 7515 section 3.1, RFC 9068
// section 4) and returns the header and the payload.
func open(raw string) (jwsHeader, []byte, error) {
	var header jwsHeader
	if len(raw) > maxToken {
		return header, nil, invalid("The access token is too long.")
	}
	head, rest, _ := strings.Cut(raw, ".")
	body, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return header, nil, invalid("The access token is not a signed JWT.")
	}
	headerJSON, err1 := segment(head)
	payload, err2 := segment(body)
	_, err3 := segment(signature)
	if err := errors.Join(err1, err2, err3); err != nil {
		return header, nil, invalid("The access token is not a signed JWT.")
	}
	if err := json.Unmarshal(headerJSON, &header); err != nil {
		return header, nil, invalid("The header of the access token cannot be read.")
	}
	return header, payload, header.check()
}

// segment decodes one part of a token. There is exactly one spelling of each sequence
// of bytes: no padding, no line breaks (which encoding/base64 skips), no stray bits.
func segment(s string) ([]byte, error) {
	for i := range len(s) {
		if !base64URL(s[i]) {
			return nil, base64.CorruptInputError(i)
		}
	}
	if s == "" {
		return nil, errors.New("empty segment")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

func (h jwsHeader) check() error {
	switch {
	case !slices.Contains(algorithms[:], h.Algorithm):
		// RFC 9068 section 4: a token with "alg" none MUST be rejected.
		return invalid("The access token is signed with an algorithm that is not accepted.")
	case !strings.EqualFold(h.Type, "at+jwt") && !strings.EqualFold(h.Type, "application/at+jwt"):
		// RFC 9068 section 4: any other "typ" MUST be rejected. ID tokens are not access tokens.
		return invalid("The token is not an access token.")
	case h.KeyID == "":
		return invalid("The access token does not name its key.")
	case h.Critical != nil || h.Unencoded != nil || h.Compressed != nil:
		// RFC 7515 section 4.1.11: extensions that are not understood MUST be refused.
		return invalid("The access token uses an extension that is not understood.")
	case h.Key != nil || h.KeySetURL != nil || h.CertURL != nil || h.Certs != nil:
		// RFC 8725 section 3.10: keys come from the issuer, never from the token.
		return invalid("The access token must not bring its own key.")
	}
	return nil
}

func (c *jwtClaims) check(resource string, now time.Time) error {
	switch {
	case !c.Audience.contains(resource):
		// The seed, Token handling 2: a server MUST only accept tokens issued for itself.
		return invalid("The access token was issued for another resource.")
	case c.Subject == "" || c.ClientID == "":
		return invalid("The access token names no subject or no client.")
	case c.Expiry.IsZero() || c.IssuedAt.IsZero():
		return invalid("The access token has no expiry or no time of issue.")
	case now.After(c.Expiry.Add(leeway)):
		// RFC 9068 section 4: the current time MUST be before "exp", with some leeway.
		return invalid("The access token has expired.")
	case c.NotBefore.After(now.Add(leeway)) || c.IssuedAt.After(now.Add(leeway)):
		return invalid("The access token is not valid yet.")
	}
	return nil
}

func (c *jwtClaims) token() *Token {
	return &Token{
		Subject:  c.Subject,
		ClientID: c.ClientID,
		Issuer:   c.Issuer,
		Audience: c.Audience,
		Scopes:   strings.Fields(c.Scope),
		Expiry:   c.Expiry.Time,
		IssuedAt: c.IssuedAt.Time,
		ID:       c.ID,
	}
}

// signed checks the signature of a token whose header named this key.
func (k *verifyKey) signed(raw string, payload []byte) bool {
	jws, err := jose.ParseSignedCompact(raw, k.algorithms)
	if err != nil {
		return false
	}
	verified, err := jws.Verify(k.public)
	return err == nil && bytes.Equal(verified, payload)
}

// audience is "aud": a string or an array of strings (RFC 7519 section 4.1.3).
type audience []string

// UnmarshalJSON implements the interface of go-jose's JSON decoder.
func (a *audience) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*a = make(audience, 1)
		return json.Unmarshal(data, &(*a)[0])
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// contains compares by canonical form, because some clients add a slash to an origin.
func (a audience) contains(resource string) bool {
	for _, candidate := range a {
		if candidate == resource {
			return true
		}
		if canonical, err := metadata.Canonical(candidate); err == nil && canonical == resource {
			return true
		}
	}
	return false
}

// timestamp is a NumericDate (RFC 7519 section 2).
type timestamp struct{ time.Time }

// UnmarshalJSON implements the interface of go-jose's JSON decoder.
func (t *timestamp) UnmarshalJSON(data []byte) error {
	const yearTenThousand = 253402300800
	seconds, err := strconv.ParseFloat(string(data), 64)
	if err != nil || seconds < 1 || seconds >= yearTenThousand {
		return errors.New("not a time")
	}
	whole := int64(seconds)
	t.Time = time.Unix(whole, int64((seconds-float64(whole))*1e9))
	return nil
}
