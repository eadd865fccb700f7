package middleware

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"

	"gatehouse.example/metadata"
)

// covers returns a refusal unless a digest in a proof is that of the body. Without a digest it
// reads nothing. With one, the handler gets the same bytes.
func (d *dpop) covers(w http.ResponseWriter, r *http.Request, want *string) error {
	if want == nil {
		return nil
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if body, err = whole(http.MaxBytesReader(w, r.Body, int64(d.maxBody)), min(r.ContentLength, int64(d.maxBody))); err != nil {
			return unread(err)
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	if !same(*want, contentDigest(body)) {
		return badProof("The proof covers another message.")
	}
	return nil
}

// contentDigest returns the digest of a body as RFC 9530 section 2 writes it.
func contentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// offer sets the header with the nonce for the next proof (RFC 9449 section 8.2). The answer must
// not come from a cache then.
func (d *dpop) offer(header http.Header) {
	if d != nil && d.nonces != nil {
		header[nonceHeader] = []string{d.nonces.current(d.now())}
		header.Set("Cache-Control", "no-store")
	}
}

// headers returns the values of WWW-Authenticate for a refusal that has a challenge. A client that
// used DPoP, or has to, gets the challenge for DPoP alone; any other gets both, and its error with
// the one for Bearer (RFC 9449 section 7.2).
func (d *dpop) headers(c challenge, metaURL string) []string {
	if d == nil {
		return []string{c.of("Bearer", metaURL, true).String()}
	}
	alone := d.required || c.proved
	proof := c.of(dpopScheme, metaURL, alone)
	proof.Params = append(proof.Params, metadata.Param{Name: "algs", Value: d.names})
	if alone {
		return []string{proof.String()}
	}
	return []string{c.of("Bearer", metaURL, true).String(), proof.String()}
}

// usedDPoP reports whether a refused request was one with a bound token: by its credentials, or by
// the token that was taken from it.
func usedDPoP(r *http.Request, token *Token) bool {
	return isDPoP(r) || token != nil && token.bound.key != ""
}
