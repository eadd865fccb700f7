package keyring

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/storage"
)

const accessTokenType = "at+jwt"

// ErrToken means that a string is not a live access token of this issuer.
var ErrToken = errors.New("keyring: not a valid access token")

// Claims are the claims of an access token (RFC 9068 section 2.2). Times are in seconds since
// 1970.
type Claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience Audience `json:"aud"`
	Expires  int64    `json:"exp"`
	IssuedAt int64    `json:"iat"`
	ID       string   `json:"jti"`
	ClientID string   `json:"client_id"`
	Scope    string   `json:"scope,omitempty"`
	// AuthTime is the time at which the person signed in (RFC 9068 section 2.2.1).
	AuthTime int64 `json:"auth_time,omitempty"`
	// GrantID identifies the grant of the token, for introspection and revocation.
	GrantID string `json:"gid"`
	About
}

// About is what is told about a person. The zero value tells nothing.
type About struct {
	// Groups are the groups of which the person is a member (RFC 9068 section 2.2.3.1). Nil says
	// nothing about groups, an empty list that there are none. GroupsOverage says that they are
	// too many to be listed.
	Groups        []string `json:"groups,omitzero"`
	GroupsOverage bool     `json:"groups_overage,omitempty"`
	// Email and Name are as in OpenID Connect Core section 5.1.
	Email string `json:"email,omitempty"`
	Name  string `json:"name,omitempty"`
}

// Audience is encoded as a string for one resource and as an array for several (RFC 7519
// section 4.1.3).
type Audience []string

// MarshalJSON writes a string or an array of strings. An empty audience is an error: resource
// servers could accept a token without an audience.
func (a Audience) MarshalJSON() ([]byte, error) {
	switch len(a) {
	case 0:
		return nil, errNoAudience
	case 1:
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// UnmarshalJSON reads a string or an array of strings.
func (a *Audience) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*a = make([]string, 1)
		return json.Unmarshal(data, &(*a)[0])
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// Sign makes an access token and sets its issuer. It refuses a token that could outlive its
// key, with an error that wraps [storage.ErrUnavailable]; see [Ring.Run].
func (r *Ring) Sign(c Claims) (string, error) {
	c.Issuer = r.cfg.Issuer
	payload, err := c.append(make([]byte, 0, 512))
	if err != nil {
		return "", fmt.Errorf("keyring: sign: %w", err)
	}
	inTime := func(ks *keys) bool { return !r.mayOutliveKey(c, ks) }
	signing := r.current()
	if !inTime(signing) {
		if signing, _ = r.reread(inTime); !inTime(signing) {
			return "", fmt.Errorf("keyring: sign: the keys were read at %s, too long ago for this token: %w", signing.read, storage.ErrUnavailable)
		}
	}
	token, err := signing.signer.compact(payload)
	if err != nil {
		return "", fmt.Errorf("keyring: sign: %w", err)
	}
	return token, nil
}

// mayOutliveKey reports whether the token could end after its key, if that was retired right
// after signing was read.
func (r *Ring) mayOutliveKey(c Claims, signing *keys) bool {
	return time.Unix(c.Expires, 0).After(signing.read.Add(r.cfg.signGrace() + r.cfg.TokenLife))
}

// oneSpelling reports whether no other string decodes to the same bytes. It refuses line
// breaks, which Go's base64 skips, and spare bits that are not zero (RFC 4648 section 3.5).
// The JOSE library verifies a new encoding of what it decoded, and would accept them.
func oneSpelling(token string) bool {
	strict := base64.RawURLEncoding.Strict()
	for part := range strings.SplitSeq(token, ".") {
		if _, err := strict.DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
	}
	return true
}

// maxToken is the greatest length of a token that is parsed, in bytes.
const maxToken = 8 << 10

// Verify returns the claims of token if it is a live access token of this issuer, and an
// error that wraps [ErrToken] if it is not. Any other error, usually one that wraps
// [storage.ErrUnavailable], means that the token names an unknown key and that the store
// could not be read: the token may be good. The claims are shared with other callers, who must not
// change them.
func (r *Ring) Verify(token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, refuse("not a compact JWS")
	}
	digest := digestOf(token)
	known := r.verified.get(digest)
	if known != nil {
		if _, err := r.verifierOf(known.keyID, known.algorithm); err != nil {
			return Claims{}, err
		}
		return known.claims.live(r.cfg.Now())
	}
	signed, err := r.checkSignature(token)
	if err != nil {
		return Claims{}, err
	}
	claims, err := signed.claims.live(r.cfg.Now())
	if err == nil {
		r.verified.add(digest, len(token), signed)
	}
	return claims, err
}

// checkSignature returns the claims of a token with a valid signature, which may have expired.
func (r *Ring) checkSignature(token string) (*signedClaims, error) {
	jws, err := parse(token)
	if err != nil {
		return nil, err
	}
	header := jws.Signatures[0].Protected
	key, err := r.verifierOf(header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	payload, err := jws.Verify(key.JSONWebKey)
	if err != nil {
		return nil, refuse("the signature is wrong")
	}
	claims, err := r.claimsOf(payload)
	return &signedClaims{header.KeyID, header.Algorithm, claims}, err
}

// verifierOf returns the public key with that id, if it is one of that algorithm.
func (r *Ring) verifierOf(kid, algorithm string) (verifier, error) {
	key, err := r.verifier(kid)
	if err == nil && algorithm != key.Algorithm {
		err = refuse("another algorithm than that of its key")
	}
	return key, err
}

// refuse returns an error that wraps [ErrToken] and gives the reason.
func refuse(why string) error { return fmt.Errorf("%w: %s", ErrToken, why) }

// parse reads a compact JWS whose header has the type of access tokens and a key id in the
// form of this issuer's. It does not check the signature.
func parse(token string) (*jose.JSONWebSignature, error) {
	if strings.Count(token, ".") != 2 || !oneSpelling(token) {
		return nil, refuse("not a compact JWS")
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err != nil {
		return nil, refuse("it cannot be parsed")
	}
	header := jws.Signatures[0].Protected
	if header.ExtraHeaders[jose.HeaderType] != accessTokenType || !isThumbprint(header.KeyID) {
		return nil, refuse("another type, or a key id that this issuer does not use")
	}
	return jws, nil
}

// claimsOf decodes the payload of a token with a valid signature. It refuses claims that are not
// those of an access token of this issuer.
func (r *Ring) claimsOf(payload []byte) (Claims, error) {
	var c Claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return Claims{}, refuse("the claims cannot be read")
	}
	if c.Issuer != r.cfg.Issuer || len(c.Audience) == 0 || slices.Contains(c.Audience, "") || c.GrantID == "" {
		return Claims{}, refuse("the claims are not those of an access token of this issuer")
	}
	return c, nil
}

// live returns the claims of a token that has not expired.
func (c Claims) live(now time.Time) (Claims, error) {
	if !now.Before(time.Unix(c.Expires, 0)) {
		return Claims{}, refuse("it has expired")
	}
	return c, nil
}

// verifier returns the public key with that id. For an unknown id it reads the set again,
// because another process may have activated a key without publishing it first.
func (r *Ring) verifier(kid string) (verifier, error) {
	has := func(ks *keys) bool { _, ok := ks.public[kid]; return ok }
	known := r.current()
	if !has(known) {
		var err error
		if known, err = r.reread(has); err != nil && !has(known) {
			return verifier{}, fmt.Errorf("keyring: key %s is not known, and the keys cannot be read: %w", kid, err)
		}
	}
	key, ok := known.public[kid]
	if !ok || !key.until.IsZero() && !r.cfg.Now().Before(key.until) {
		return verifier{}, fmt.Errorf("%w: unknown key", ErrToken)
	}
	return key, nil
}

// isThumbprint reports whether an id has the form of an RFC 7638 thumbprint, as the ids of
// all keys of this issuer have.
func isThumbprint(kid string) bool {
	sum, err := base64.RawURLEncoding.Strict().DecodeString(kid)
	return err == nil && len(sum) == sha256.Size
}
