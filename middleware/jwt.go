package middleware

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// jwsHeader is the protected header of a token. A token with any of the members from crit on is
// refused: they change how the token is read, or contain a key.
type jwsHeader struct {
	Algorithm jose.SignatureAlgorithm `json:"alg"`
	Type      *string                 `json:"typ"`
	KeyID     string                  `json:"kid"`
	Nonce     json.RawMessage         `json:"nonce"` // of Entra: the signature covers something else

	Critical   json.RawMessage `json:"crit"`
	Unencoded  json.RawMessage `json:"b64"`
	Compressed json.RawMessage `json:"zip"`
	Key        json.RawMessage `json:"jwk"`
	KeySetURL  json.RawMessage `json:"jku"`
	CertURL    json.RawMessage `json:"x5u"`
	Certs      json.RawMessage `json:"x5c"`
}

// jws holds the parts of a token in the compact form (RFC 7515 section 3.1).
type jws struct {
	head    string // as it was sent
	input   string // the part that the signature covers
	payload string
}

// buffer is room on the stack for decoded parts of a token. Longer parts are allocated.
type buffer [1 << 10]byte

// open checks the shape of a token (RFC 7515 section 3.1). The signature that it returns is in
// the buffer.
func open(raw string, b *buffer) (t jws, signature []byte, err error) {
	head, rest, _ := strings.Cut(raw, ".")
	body, tail, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(tail, ".") {
		return jws{}, nil, invalid("The access token is not a signed JWT.")
	}
	t = jws{head: head, input: raw[:len(raw)-len(tail)-1]}
	t.payload, err = plaintext(body)
	if err == nil {
		signature, err = segment(b[:0], tail)
	}
	if err != nil {
		return jws{}, nil, invalid("The access token is not a signed JWT.")
	}
	return t, signature, nil
}

// segment appends one decoded part of a token. It accepts exactly one encoding of each sequence
// of bytes: no padding, no line breaks (which encoding/base64 skips), no stray bits.
func segment(to []byte, s string) ([]byte, error) {
	if s == "" || strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0 {
		return nil, errors.New("the segment is empty, or has line breaks")
	}
	return base64.RawURLEncoding.Strict().AppendDecode(to, []byte(s))
}

// plaintext decodes a part of a token that is JSON.
func plaintext(s string) (string, error) {
	var b buffer
	out, err := segment(b[:0], s)
	return string(out), err
}

// header returns the key that the header of a token of the issuer names, or a refusal of the
// header (RFC 9068 section 4).
func (i *issuer) header(head string) (keyID, error) {
	if key, known := i.headers.find(head); known {
		return key, nil
	}
	return i.rules.readHeader(head)
}

// readHeader is [issuer.header] for a header that is not in the cache.
func (r *tokenRules) readHeader(head string) (keyID, error) {
	plain, err := plaintext(head)
	if err != nil {
		return keyID{}, invalid("The access token is not a signed JWT.")
	}
	var header jwsHeader
	if err := unambiguous([]byte(plain), &header); err != nil {
		return keyID{}, invalid("The header of the access token cannot be read.")
	}
	return keyID{header.KeyID, header.Algorithm}, r.checkHeader(&header)
}

func (r *tokenRules) checkHeader(h *jwsHeader) error {
	switch {
	case !slices.Contains(r.algorithms, h.Algorithm):
		// RFC 9068 section 4: a token with "alg" none MUST be rejected.
		return invalid("The access token is signed with an algorithm that is not accepted.")
	case !r.typed(h.Type), h.Nonce != nil && r.profile == Entra:
		// RFC 9068 section 4: any other "typ" MUST be rejected. ID tokens are not access tokens.
		// Entra puts "nonce" into headers of tokens that only Microsoft's services can verify.
		return invalid("The token is not an access token.")
	case h.Critical != nil || h.Unencoded != nil || h.Compressed != nil:
		// RFC 7515 section 4.1.11: extensions that are not understood MUST be refused.
		return invalid("The access token uses an extension that is not understood.")
	case h.Key != nil || h.KeySetURL != nil || h.CertURL != nil || h.Certs != nil:
		// RFC 8725 section 3.10: keys come from the issuer, never from the token.
		return invalid("The access token must not bring its own key.")
	}
	return nil
}

// headers caches the keys that the last headers of valid tokens of one issuer named: all tokens of
// one key have the same header. Headers of invalid tokens are not stored.
type headers struct {
	places [16]atomic.Pointer[knownHeader]
	next   atomic.Uint32
}

type knownHeader struct {
	head string
	key  keyID
}

func (h *headers) find(head string) (keyID, bool) {
	for i := range h.places {
		if known := h.places[i].Load(); known != nil && known.head == head {
			return known.key, true
		}
	}
	return keyID{}, false
}

// add stores a header of a valid token, in a copy, so that the cache does not retain the token.
func (h *headers) add(head string, key keyID) {
	if _, known := h.find(head); known {
		return
	}
	place := h.next.Add(1) % uint32(len(h.places))
	h.places[place].Store(&knownHeader{strings.Clone(head), key})
}
