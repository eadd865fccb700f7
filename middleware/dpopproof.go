package middleware

import (
	"crypto"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"gatehouse.example/internal/fingerprint"
)

// maxProofID is the maximum size of "jti" in a proof, in bytes.
const maxProofID = 512

// proofHead is the header of a proof (RFC 9449 section 4.2).
type proofHead struct {
	Type      string          `json:"typ"`
	Algorithm string          `json:"alg"`
	Key       json.RawMessage `json:"jwk"`

	Critical   json.RawMessage `json:"crit"`
	Unencoded  json.RawMessage `json:"b64"`
	Compressed json.RawMessage `json:"zip"`
	KeySetURL  json.RawMessage `json:"jku"`
	CertURL    json.RawMessage `json:"x5u"`
	Certs      json.RawMessage `json:"x5c"`
}

// proofClaims are the claims of a proof. Digest is that of the protocol's DPoP extension.
type proofClaims struct {
	ID        string    `json:"jti"`
	Method    string    `json:"htm"`
	URL       string    `json:"htu"`
	IssuedAt  timestamp `json:"iat"`
	TokenHash string    `json:"ath"`
	Nonce     string    `json:"nonce"`
	Digest    *string   `json:"content_digest"`
	Expiry    timestamp `json:"exp"`
	NotBefore timestamp `json:"nbf"`
}

// proofKey is the key in the header of proofs.
type proofKey struct {
	verifyKey
	thumbprint string // RFC 7638, SHA-256
}

// privateMembers are the members of a JWK that are secret (RFC 7518 section 6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// check checks a proof in the order of what it costs: the signature last. It returns the claims,
// and the time at which the proof was made.
func (d *dpop) check(r *http.Request, proof, raw string, token *Token) (c proofClaims, made time.Time, err error) {
	var b1, b2 buffer
	parts, signature, err := open(proof, &b1)
	if err != nil {
		return c, made, badProof("The proof is not a signed JWT.")
	}
	head := fingerprint.Of(parts.head)
	key, known := d.known(head)
	if !known {
		if key, err = readProofKey(parts.head, d.algorithms); err != nil {
			return c, made, err
		}
	}
	if unambiguous([]byte(parts.payload), &c) != nil {
		return c, made, badProof("The claims of the proof cannot be read.")
	}
	if key.thumbprint != token.bound.key {
		return c, made, badProof("The access token is bound to another key.")
	}
	if made, err = d.judge(r, &c, raw); err != nil {
		return c, made, err
	}
	if !key.signed(append(b2[:0], parts.input...), signature) {
		return c, made, badProof("The signature of the proof is wrong.")
	}
	if !known {
		now := d.now()
		d.keys.put(head, key, now, now.Add(maxKeyAge))
	}
	return c, made, nil
}

// known returns the key of a header that an earlier valid proof had.
func (d *dpop) known(head digest) (*proofKey, bool) {
	if key := d.keys.get(head, d.now()); key != nil {
		return *key, true
	}
	return nil, false
}

// readProofKey reads the header of a proof, and returns the key in it.
func readProofKey(encoded string, algorithms []jose.SignatureAlgorithm) (*proofKey, error) {
	plain, err := plaintext(encoded)
	var head proofHead
	if err != nil || unambiguous([]byte(plain), &head) != nil {
		return nil, badProof("The header of the proof cannot be read.")
	}
	algorithm := jose.SignatureAlgorithm(head.Algorithm)
	if head.Algorithm == "Ed25519" {
		algorithm = jose.EdDSA // RFC 9864 section 2.2; keys of other curves are refused
	}
	if err := head.check(); err != nil {
		return nil, err
	}
	if !slices.Contains(algorithms, algorithm) {
		return nil, badProof("The proof is signed with an algorithm that is not accepted.")
	}
	key, err := readPublicKey(head.Key, algorithm)
	if err != nil {
		return nil, badProof("The key in the proof cannot be used.")
	}
	return key, nil
}

// check checks all members but the algorithm and the key.
func (h *proofHead) check() error {
	switch {
	case !strings.EqualFold(mediaType(h.Type), "dpop+jwt"):
		return badProof("The header DPoP does not hold a proof.")
	case h.Critical != nil || h.Unencoded != nil || h.Compressed != nil:
		return badProof("The proof uses an extension that is not understood.")
	case h.KeySetURL != nil || h.CertURL != nil || h.Certs != nil:
		return badProof("The proof names a key besides its jwk.")
	}
	return nil
}

// readPublicKey reads a JWK for an algorithm. It refuses a JWK with a secret in it (RFC 9449
// section 4.3, item 7).
func readPublicKey(jwk []byte, algorithm jose.SignatureAlgorithm) (*proofKey, error) {
	var m members
	if err := json.Unmarshal(jwk, &m); err != nil {
		return nil, err
	}
	if m.has(privateMembers...) {
		return nil, errors.New("the key is private")
	}
	_, keys := verifyKeys(jwk, []jose.SignatureAlgorithm{algorithm})
	if len(keys) != 1 {
		return nil, errors.New("the key is not one for the algorithm")
	}
	public := jose.JSONWebKey{Key: keys[0].public}
	sum, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return &proofKey{verifyKey: *keys[0], thumbprint: base64.RawURLEncoding.EncodeToString(sum)}, nil
}

// judge checks the claims of a proof for a request (RFC 9449 section 4.3). It returns the time
// that counts as that of the proof.
func (d *dpop) judge(r *http.Request, c *proofClaims, raw string) (made time.Time, err error) {
	method, url := d.request(r)
	switch {
	case method == "" || url == "":
		return made, badProof("What the proof is for is not known here.")
	case c.ID == "" || len(c.ID) > maxProofID:
		return made, badProof("The proof has no usable jti.")
	case c.Method != method:
		return made, badProof("The proof is for another method.")
	case !sameURL(c.URL, url):
		return made, badProof("The proof is for another URL.")
	case !same(c.TokenHash, thumbprintOf([]byte(raw))):
		return made, badProof("The proof is for another access token.")
	case c.Digest == nil && d.digests:
		return made, badProof("The proof does not cover the message: it needs content_digest.")
	}
	return d.recent(c)
}

// recent checks the times of a proof, and its nonce. With nonces, the time of the nonce counts
// (RFC 9449 section 4.3, item 11). It returns the time that counts.
func (d *dpop) recent(c *proofClaims) (made time.Time, err error) {
	now := d.now()
	made = c.IssuedAt.Time
	if d.nonces != nil {
		var ok bool
		if made, ok = d.nonces.made(c.Nonce, now); !ok {
			return made, challenge{status: http.StatusUnauthorized, code: codeNonce, description: "The proof needs the nonce in the header DPoP-Nonce."}
		}
	}
	switch {
	case c.IssuedAt.IsZero():
		return made, badProof("The proof has no time.")
	case now.After(made.Add(d.window)), made.After(now.Add(d.window)):
		return made, badProof("The time of the proof is too far from the time of this server.")
	case !c.Expiry.IsZero() && now.After(c.Expiry.Add(defaultLeeway)), c.NotBefore.After(now.Add(d.window)):
		return made, badProof("The proof is not valid at this time.") // RFC 7519 sections 4.1.4 and 4.1.5
	}
	return made, nil
}

// sameURL compares "htu" with the URL of a request, both without query and fragment, and in the
// normal form of RFC 3986 sections 6.2.2 and 6.2.3 (RFC 9449 section 4.3).
func sameURL(htu, url string) bool {
	if htu == url {
		return true
	}
	htu, _ = cutAt(htu, "?#")
	url, _ = cutAt(url, "?#")
	normal := normalURI(asSent(htu))
	return normal != "" && normal == normalURI(asSent(url))
}

// asSent returns a URL with escapes for the characters that cannot be in one, as clients put it into
// a request line: some take "htu" from the text that a person wrote.
func asSent(url string) string { return escapeWeb(url, " \"<>[\\]^`{|}") }
