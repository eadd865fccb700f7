package middleware_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The request to a resource in RFC 9449 section 7.1, with the thumbprint of section 6.1.
const (
	rfc9449Token      = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
	rfc9449Thumbprint = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
	rfc9449URL        = "https://resource.example.org/protectedresource"
	rfc9449Time       = 1562262618
	rfc9449Proof      = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJo" +
		"RjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19" +
		".eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIs" +
		"ImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9" +
		".2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
)

// TestExampleOfRFC9449 accepts the request of the RFC at its time. Its token is opaque, so the
// issuer tells what it is bound to (section 6.2).
func TestExampleOfRFC9449(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := func(cnf string) *middleware.Guard {
		answers(issuer, fmt.Sprintf(`{"active":true,"sub":"someone@example.com","client_id":"client","aud":%q,"exp":%d,"token_type":"DPoP"%s}`,
			rfc9449URL, rfc9449Time+3600, cnf))
		return newGuard(t, issuer, introspects(issuer, opaque), accepting(), func(c *middleware.Config) {
			c.Resource, c.Now = rfc9449URL, func() time.Time { return time.Unix(rfc9449Time+10, 0) }
		})
	}
	send := func(guard *middleware.Guard, method string) int {
		w := httptest.NewRecorder()
		guard.Protect(&inner{}).ServeHTTP(w, newRequest(method, rfc9449URL, "Authorization", "DPoP "+rfc9449Token, "DPoP", rfc9449Proof))
		return w.Code
	}
	good := guard(`,"cnf":{"jkt":"` + rfc9449Thumbprint + `"}`)
	if wrong, right, again := send(good, "POST"), send(good, "GET"), send(good, "GET"); wrong != 401 || right != http.StatusTeapot || again != 401 {
		t.Errorf("another method %d, the request %d, again %d", wrong, right, again)
	}
	if code := send(guard(`,"cnf":{"jkt":"`+rfc8705Thumbprint+`"}`), "GET"); code != 401 {
		t.Errorf("bound to another key: %d", code)
	}
	if code := send(guard(""), "GET"); code != 401 {
		t.Errorf("of the type DPoP, bound to no key: %d", code)
	}
}

// TestExampleOfRFC8037 signs a proof with the Ed25519 key of RFC 8037 appendix A, under both names
// of the algorithm, with the thumbprint of appendix A.3.
func TestExampleOfRFC8037(t *testing.T) {
	const x, d, thumbprint = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	seed, err := base64.RawURLEncoding.DecodeString(d)
	if err != nil {
		t.Fatal(err)
	}
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, accepting())
	token := issuer.Mint(claims{"aud": resource, "cnf": map[string]string{"jkt": thumbprint}})
	payload := payloadOf(t, middlewaretest.NewProofKey(t, jose.EdDSA).Prove("POST", resource, token, nil))
	for i, algorithm := range []string{"EdDSA", "Ed25519"} {
		payload := bytes.Replace(payload, []byte(`"jti":"`), fmt.Appendf(nil, `"jti":"%d`, i), 1)
		head := fmt.Sprintf(`{"typ":"dpop+jwt","alg":%q,"jwk":{"kty":"OKP","crv":"Ed25519","x":%q}}`, algorithm, x)
		input := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(payload)
		signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(input))
		passes(t, guard, newRequest("POST", resource, "Authorization", "DPoP "+token, "DPoP", input+"."+base64.RawURLEncoding.EncodeToString(signature)))
	}
}

// TestExampleOfRFC9530 covers the message of RFC 9530 appendix B.1 with its digest.
func TestExampleOfRFC9530(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	r := httptest.NewRequest("POST", resource, strings.NewReader(`{"hello": "world"}`))
	client.Send(r, resource, client.token, claims{"content_digest": "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"})
	passes(t, newGuard(t, issuer, accepting()), r)
}

// TestBindingsOfIntrospection shows a JWT whose introspection response names what it is bound to.
func TestBindingsOfIntrospection(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key, other := middlewaretest.NewProofKey(t, jose.ES256), middlewaretest.NewProofKey(t, jose.ES256)
	bound, unbound := issuer.Mint(claims{"aud": resource, "cnf": key.Confirmation()}), issuer.Mint(claims{"aud": resource})
	proved := func(token string) *http.Request {
		r := newRequest("POST", resource)
		key.Send(r, resource, token, nil)
		return r
	}
	for name, tt := range map[string]struct {
		token  string
		answer map[string]any // "cnf" in the response
		bearer bool           // whether it passes as a bearer token, with the key otherwise
		status int
	}{
		"in the token alone":          {bound, nil, false, 200},
		"in both":                     {bound, key.Confirmation(), false, 200},
		"in the response alone":       {unbound, key.Confirmation(), false, 200},
		"in the response, no proof":   {unbound, key.Confirmation(), true, 401},
		"two keys":                    {bound, other.Confirmation(), false, 401},
		"another kind":                {bound, map[string]any{"kid": "x"}, false, 401},
		"in none":                     {unbound, nil, true, 200},
		"in none, and there is proof": {unbound, nil, false, 401},
	} {
		t.Run(name, func(t *testing.T) {
			cnf := ""
			if tt.answer != nil {
				text, _ := json.Marshal(tt.answer)
				cnf = `,"cnf":` + string(text)
			}
			answers(issuer, fmt.Sprintf(`{"active":true,"sub":"reader","client_id":"client","aud":%q,"exp":%d%s}`, resource, time.Now().Add(time.Hour).Unix(), cnf))
			guard := newGuard(t, issuer, introspects(issuer), accepting())
			for range 2 { // looked up, and from the cache
				r := proved(tt.token)
				if tt.bearer {
					r = withToken(tt.token)
				}
				wantStatus(t, guard, r, tt.status)
			}
		})
	}
}

// TestKeycloakTokensOfTypeDPoP shows the profile whose tokens name their type in a claim.
func TestKeycloakTokensOfTypeDPoP(t *testing.T) {
	issuer, key := middlewaretest.NewIssuer(t), middlewaretest.NewProofKey(t, jose.ES256)
	issuer.SetForm(middlewaretest.Form{Type: "JWT", Claims: func(c claims) claims {
		c["azp"] = c["client_id"]
		return c
	}})
	guard := newGuard(t, issuer, accepting(), func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL(), Profile: middleware.Keycloak}}
	})
	token := issuer.Mint(claims{"aud": resource, "typ": "DPoP", "cnf": key.Confirmation()})
	r := newRequest("POST", resource)
	key.Send(r, resource, token, nil)
	passes(t, guard, r)
	challengedBy(t, guard, withToken(issuer.Mint(claims{"aud": resource, "typ": "DPoP"})), "Bearer", "invalid_token")
}

// FuzzProof sends invented proofs with a good token: nothing but the answers 401 and 418 comes of
// it, and 418 only for what was signed.
func FuzzProof(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	client := newBound(f, issuer, jose.ES256)
	guard := newGuard(f, issuer, accepting())
	good := client.Prove("POST", resource, client.token, nil)
	for _, proof := range []string{good, tampered(good), rfc9449Proof, client.token, "..", "a.b.c", unsigned(payloadOf(f, good), client)} {
		f.Add(proof)
	}
	f.Fuzz(func(t *testing.T, proof string) {
		if strings.ContainsAny(proof, "\r\n") {
			return
		}
		code, _ := status(guard, newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", proof))
		if code != http.StatusUnauthorized && (code != http.StatusOK || proof != good) {
			t.Errorf("%d for %q", code, proof)
		}
	})
}

// BenchmarkDPoP measures a whole request with a cached token and a new proof. Signing it, which
// the client does, is measured apart.
func BenchmarkDPoP(b *testing.B) {
	for _, algorithm := range benchmarked {
		issuer := middlewaretest.NewIssuer(b)
		client := newBound(b, issuer, algorithm)
		handler := newGuard(b, issuer, accepting(func(d *middleware.DPoP) { d.Proofs = middleware.NewProofs(1 << 24) })).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		proofs := make([]string, 512)
		b.Run("request/"+string(algorithm), func(b *testing.B) {
			w, r := &counted{discard: discard{http.Header{}}}, client.request(nil)
			handler.ServeHTTP(w, r)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%len(proofs) == 0 {
					b.StopTimer()
					for n := range proofs {
						proofs[n] = client.Prove("POST", resource, client.token, nil)
					}
					b.StartTimer()
				}
				r.Header[http.CanonicalHeaderKey("DPoP")] = []string{proofs[i%len(proofs)]}
				handler.ServeHTTP(w, r)
			}
			if w.refused > 0 {
				b.Fatalf("%d of the requests were refused", w.refused)
			}
		})
		b.Run("bare/"+string(algorithm), func(b *testing.B) { bare(b, algorithm, 400) })
	}
}

// counted counts refusals.
type counted struct {
	discard
	refused int
}

func (c *counted) WriteHeader(int) { c.refused++ }
