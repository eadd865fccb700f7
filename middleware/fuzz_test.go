package middleware_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware/middlewaretest"
)

// FuzzToken checks that of all tokens only the one that the issuer minted is accepted, letter by
// letter, and that every other one gets a well-formed refusal.
func FuzzToken(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	good := issuer.Mint(claims{"aud": resource})
	guard := newGuard(f, issuer)
	for _, broken := range issuer.Broken(resource) {
		f.Add(broken.Token)
	}
	f.Add("")
	header, rest, _ := strings.Cut(good, ".")
	f.Add(header + "." + rest + "\n")
	f.Fuzz(func(t *testing.T, token string) {
		if token == good {
			return
		}
		var h inner
		res := serve(guard.Protect(&h), withToken(token))
		challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
		if len(h.requests) > 0 || err != nil || len(challenges) != 1 {
			t.Fatalf("%q got %s %v", token, res.Status, res.Header)
		}
		if !brokenAnswer(res, token, good) {
			t.Fatalf("%q got %s", token, res.Status)
		}
	})
}

// brokenAnswer reports whether res may answer a broken token. A token that names a key which
// its issuer may have published since its keys were fetched cannot be judged yet: it gets 503 with
// Retry-After, because fetches are rationed and a fuzzed stream names many keys. A token with the
// header of the good one names a known key, so it is always judged.
func brokenAnswer(res *http.Response, token, good string) bool {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusBadRequest:
		return true
	case http.StatusServiceUnavailable:
		header, _, _ := strings.Cut(good, ".")
		return res.Header.Get("Retry-After") != "" && !strings.HasPrefix(token, header+".")
	}
	return false
}

// FuzzSplice combines the parts of good and broken tokens, and checks that only those are
// accepted whose signature is the issuer's by crypto/ecdsa.
func FuzzSplice(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	private := middlewaretest.NewKey(f, jose.ES256)
	issuer.SetKeys(jose.JSONWebKey{Key: private, KeyID: "one", Algorithm: string(jose.ES256)})
	guard := newGuard(f, issuer)
	tokens := []string{issuer.Mint(claims{"aud": resource}), issuer.Mint(claims{"aud": resource, "sub": "stranger"})}
	for _, broken := range issuer.Broken(resource) {
		tokens = append(tokens, broken.Token)
	}
	f.Add(uint(0), uint(1), uint(2), 0, byte('A'))
	f.Add(uint(1), uint(0), uint(0), 40, byte('='))
	f.Fuzz(func(t *testing.T, a, b, c uint, at int, with byte) {
		part := func(n uint, i int) string {
			parts := strings.Split(tokens[n%uint(len(tokens))], ".")
			return parts[i%len(parts)]
		}
		spliced := part(a, 0) + "." + part(b, 1) + "." + part(c, 2)
		if at >= 0 && at < len(spliced) {
			spliced = spliced[:at] + string(rune(with)) + spliced[at+1:]
		}
		var h inner
		res := serve(guard.Protect(&h), withToken(spliced))
		passed := len(h.requests) > 0
		if passed && !signedBy(private, spliced) || !passed && !brokenAnswer(res, spliced, tokens[0]) {
			t.Fatalf("%q got %s", spliced, res.Status)
		}
	})
}

// signedBy verifies an ES256 signature (RFC 7518 section 3.4) without any library.
func signedBy(private any, token string) bool {
	dot := strings.LastIndexByte(token, '.')
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil || len(signature) != 64 {
		return false
	}
	digest := sha256.Sum256([]byte(token[:dot]))
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(&private.(*ecdsa.PrivateKey).PublicKey, digest[:], r, s)
}

// FuzzAuthorization checks that every header value without the token is refused.
func FuzzAuthorization(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	good := issuer.Mint(claims{"aud": resource})
	guard := newGuard(f, issuer)
	for _, seed := range []string{"Bearer x", "bearer  x.y.z", "Basic a", "Bearer", " Bearer a", "Bearer a,Bearer b"} {
		f.Add(seed, "access_token=x", "localhost", "https://inspector.example.org")
	}
	f.Fuzz(func(t *testing.T, value, query, host, origin string) {
		if strings.Contains(value, good) {
			return
		}
		request := newRequest("POST", resource)
		request.Header["Authorization"] = []string{value}
		request.Header["Origin"] = []string{origin}
		request.Host, request.URL.RawQuery = host, query
		var h inner
		for _, r := range []*http.Request{request, arriving(request, "127.0.0.1")} {
			res := serve(guard.Protect(&h), r)
			if len(h.requests) > 0 || res.StatusCode < 400 || res.StatusCode > 403 {
				t.Fatalf("%q got %s", value, res.Status)
			}
		}
	})
}
