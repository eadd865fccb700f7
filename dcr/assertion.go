package dcr

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/storage"
)

// AssertionType is the client_assertion_type of a client assertion (RFC 7523 section 2.2).
const AssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// ErrAssertion reports that a client assertion does not authenticate its client. Errors of
// [Clients.Authenticate] that wrap it give the reason, which is for the log only.
var ErrAssertion = errors.New("dcr: the client assertion is not valid")

const (
	maxAssertion = 8 << 10 // bytes
	maxJTI       = 256     // bytes
	// assertionLife is the longest time until an assertion expires, and clockSkew the
	// accepted difference between clocks.
	assertionLife = 5 * time.Minute
	clockSkew     = time.Minute
)

// AssertionAlgorithms returns the algorithms that client assertions may be signed with.
func AssertionAlgorithms() []string { return []string{"ES256", "EdDSA", "RS256", "PS256"} }

// assertion is a client assertion that was parsed and not verified (RFC 7523 section 3).
type assertion struct {
	raw    string
	header struct {
		Algorithm string  `json:"alg"`
		KeyID     string  `json:"kid"`
		Type      *string `json:"typ"`
		// These would let the sender choose how the signature is checked, so they are
		// refused.
		Critical    json.RawMessage `json:"crit"`
		Encoded     json.RawMessage `json:"b64"`
		Key         json.RawMessage `json:"jwk"`
		KeyURL      json.RawMessage `json:"jku"`
		Certificate json.RawMessage `json:"x5c"`
		CertURL     json.RawMessage `json:"x5u"`
	}
	claims struct {
		Issuer    string          `json:"iss"`
		Subject   string          `json:"sub"`
		Audience  json.RawMessage `json:"aud"`
		Expires   *float64        `json:"exp"`
		NotBefore *float64        `json:"nbf"`
		IssuedAt  *float64        `json:"iat"`
		ID        string          `json:"jti"`
	}
}

// AssertionClientID returns the client_id that an assertion claims, so that the client's
// keys can be looked up. It verifies nothing.
func AssertionClientID(raw string) (id string, ok bool) {
	a, err := readAssertion(raw)
	if err != nil || a.claims.Issuer == "" || a.claims.Issuer != a.claims.Subject {
		return "", false
	}
	return a.claims.Subject, true
}

// readAssertion parses a compact JWS. It accepts a single encoding of each: without line
// breaks, padding, nonzero trailing bits or repeated members.
func readAssertion(raw string) (assertion, error) {
	a := assertion{raw: raw}
	parts := strings.Split(raw, ".")
	if len(raw) > maxAssertion || len(parts) != 3 {
		return a, refusedAssertion("not a compact JWS of at most %d bytes", maxAssertion)
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return a, refusedAssertion("part %d is not base64url", i+1)
		}
	}
	bounds := strictjson.Options{MaxBytes: maxAssertion}
	if err := strictjson.Unmarshal(decoded[0], &a.header, bounds); err != nil {
		return a, refusedAssertion("header: %v", err)
	}
	if err := strictjson.Unmarshal(decoded[1], &a.claims, bounds); err != nil {
		return a, refusedAssertion("claims: %v", err)
	}
	return a, nil
}

func refusedAssertion(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrAssertion, fmt.Sprintf(format, args...))
}

// Authenticate authenticates a client by an assertion that it signed (RFC 7523 section 3).
// The assertion must have exactly one audience, as a string or a list of one, and it must be
// one of audiences. The error is nil if the client is authenticated, and wraps [ErrAssertion]
// if it is not. Any other error, such as [ErrUnreachable] or [storage.ErrUnavailable], means
// that this cannot be decided now.
//
// An assertion is accepted once. Its jti is recorded after all other checks, so only the
// client can use it up.
func (cs *Clients) Authenticate(ctx context.Context, c storage.Client, raw string, audiences []string) error {
	a, err := readAssertion(raw)
	if err != nil {
		return err
	}
	if err := a.checkHeader(c); err != nil {
		return err
	}
	expires, err := a.checkClaims(c, audiences, cs.now())
	if err != nil {
		return err
	}
	if err := cs.checkSignature(ctx, c, a); err != nil {
		return err
	}
	// RFC 7523 section 3: the jti is remembered for as long as the JWT would be accepted.
	err = cs.store.TakeAssertion(ctx, c.ID, a.claims.ID, expires.Add(clockSkew))
	if errors.Is(err, storage.ErrConflict) {
		return refusedAssertion("its jti was used before")
	}
	if err != nil {
		return fmt.Errorf("dcr: client assertion: %w", err)
	}
	return nil
}

func (a assertion) checkHeader(c storage.Client) error {
	h := a.header
	if !slices.Contains(AssertionAlgorithms(), h.Algorithm) {
		return refusedAssertion("alg %.16q is not accepted", h.Algorithm)
	}
	if own := c.Metadata.TokenEndpointAuthSigningAlg; own != "" && own != h.Algorithm {
		return refusedAssertion("alg %s is not the one that the client registered", h.Algorithm)
	}
	// RFC 8725 section 3.11: a JWT of another kind must not pass for this one. Most clients
	// send JWT or nothing.
	if h.Type != nil && !strings.EqualFold(*h.Type, "JWT") && !strings.EqualFold(*h.Type, "client-authentication+jwt") {
		return refusedAssertion("typ %.32q", *h.Type)
	}
	for name, member := range map[string]json.RawMessage{
		"crit": h.Critical, "b64": h.Encoded, "jwk": h.Key, "jku": h.KeyURL, "x5c": h.Certificate, "x5u": h.CertURL,
	} {
		if member != nil {
			// RFC 8725 section 3.10: keys come from the client's metadata, not from a header.
			return refusedAssertion("the header has %s", name)
		}
	}
	return nil
}

// checkClaims checks the claims of RFC 7523 section 3 and returns when the assertion
// expires.
func (a assertion) checkClaims(c storage.Client, audiences []string, now time.Time) (time.Time, error) {
	claims := a.claims
	switch {
	case claims.Issuer != c.ID || claims.Subject != c.ID:
		return time.Time{}, refusedAssertion("iss and sub must both be the client_id")
	case claims.ID == "" || len(claims.ID) > maxJTI:
		return time.Time{}, refusedAssertion("jti must have 1 to %d bytes", maxJTI)
	case !slices.Contains(audiences, oneAudience(claims.Audience)):
		return time.Time{}, refusedAssertion("aud must be %s, and nothing else", strings.Join(audiences, " or "))
	case claims.Expires == nil:
		return time.Time{}, refusedAssertion("exp is missing")
	}
	return a.checkTimes(now)
}

// checkTimes checks exp, nbf and iat, and returns when the assertion expires.
func (a assertion) checkTimes(now time.Time) (time.Time, error) {
	expires, ok := numericDate(a.claims.Expires)
	switch {
	case !ok || !now.Before(expires.Add(clockSkew)):
		return time.Time{}, refusedAssertion("it has expired")
	case expires.After(now.Add(assertionLife + clockSkew)):
		return time.Time{}, refusedAssertion("exp is more than %s ahead", assertionLife)
	}
	for name, date := range map[string]*float64{"nbf": a.claims.NotBefore, "iat": a.claims.IssuedAt} {
		at, ok := numericDate(date)
		if date != nil && (!ok || at.After(now.Add(clockSkew)) || at.After(expires)) {
			return time.Time{}, refusedAssertion("%s is not a time before now", name)
		}
	}
	return expires, nil
}

// oneAudience returns the only audience, or "" if there are none or several. One of several
// servers could pass the assertion on to another.
func oneAudience(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 {
		return list[0]
	}
	return ""
}

// numericDate reads a NumericDate (RFC 7519 section 2), which may have a fraction.
func numericDate(n *float64) (time.Time, bool) {
	if n == nil || *n < 0 || *n > 1<<35 {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(*n)
	return time.Unix(int64(whole), int64(fraction*float64(time.Second))), true
}

// checkSignature returns nil if a key of the client made the signature. If no key matches,
// a key set by reference is read again, at most once per keyRenewal, because the client may
// have replaced its keys.
func (cs *Clients) checkSignature(ctx context.Context, c storage.Client, a assertion) error {
	jws, err := jose.ParseSignedCompact(a.raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(a.header.Algorithm)})
	if err != nil {
		return refusedAssertion("it cannot be parsed")
	}
	for _, atMost := range []time.Duration{longestKeys, keyRenewal} {
		keys, err := cs.keysOf(ctx, c, atMost)
		var unusable *unusable
		if errors.As(err, &unusable) {
			return refusedAssertion("keys: %s", unusable.why)
		}
		if err != nil {
			return err
		}
		signed, known := a.signedBy(keys, jws)
		if signed {
			return nil
		}
		if known || c.Metadata.JWKSURI == "" {
			break
		}
	}
	return refusedAssertion("no key of the client made the signature")
}

// maxTries bounds the keys that are tried for one assertion, which any client may send.
const maxTries = 5

// signedBy reports whether one of the keys made the signature of jws. known reports whether
// the assertion names a key that is in keys, so that no other can be meant.
func (a assertion) signedBy(keys []jose.JSONWebKey, jws *jose.JSONWebSignature) (signed, known bool) {
	tries := 0
	for _, key := range keys {
		named := a.header.KeyID != "" && key.KeyID == a.header.KeyID
		if !named && a.header.KeyID != "" && key.KeyID != "" || !slices.Contains(algorithmsOf(key), a.header.Algorithm) {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		if madeBy(jws, key.Key, a.raw) {
			return true, true
		}
		known = known || named
	}
	return false, known
}

// madeBy reports whether key made the signature of the compact JWS raw, which signed is read
// from. The salt of PS256 must be as long as the hash (RFC 7518 section 3.5); the library
// takes any length.
func madeBy(signed *jose.JSONWebSignature, key any, raw string) bool {
	if _, err := signed.Verify(key); err != nil {
		return false
	}
	strong, isRSA := key.(*rsa.PublicKey)
	if !isRSA || signed.Signatures[0].Protected.Algorithm != string(jose.PS256) {
		return true
	}
	sum := sha256.Sum256([]byte(raw[:strings.LastIndex(raw, ".")]))
	return rsa.VerifyPSS(strong, crypto.SHA256, sum[:], signed.Signatures[0].Signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
}
