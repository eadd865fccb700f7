package middleware_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// accepting makes a guard accept proofs.
func accepting(change ...func(*middleware.DPoP)) func(*middleware.Config) {
	return func(c *middleware.Config) {
		c.DPoP.Use = middleware.DPoPAccepted
		for _, one := range change {
			one(&c.DPoP)
		}
	}
}

func required(d *middleware.DPoP) { d.Use = middleware.DPoPRequired }

// bound is a client with a key, and a token that is bound to it.
type bound struct {
	*middlewaretest.ProofKey
	token string
}

func newBound(t testing.TB, issuer *middlewaretest.Issuer, algorithm jose.SignatureAlgorithm) bound {
	t.Helper()
	key := middlewaretest.NewProofKey(t, algorithm)
	return bound{key, issuer.Mint(claims{"aud": resource, "scope": "notes:read", "cnf": key.Confirmation()})}
}

// request returns a request with the token and a proof.
func (b bound) request(overrides claims) *http.Request {
	r := newRequest("POST", resource)
	b.Send(r, resource, b.token, overrides)
	return r
}

// challengedBy fails the test unless a guard refuses a request with one challenge of a scheme, and
// returns it.
func challengedBy(t *testing.T, guard *middleware.Guard, r *http.Request, scheme, code string) metadata.Challenge {
	t.Helper()
	w := httptest.NewRecorder()
	guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request reached the handler") })).ServeHTTP(w, r)
	all, err := metadata.ParseChallenges(w.Header()["Www-Authenticate"])
	if err != nil || len(all) == 0 || w.Code != http.StatusUnauthorized {
		t.Fatalf("%d %v: %v", w.Code, w.Header(), err)
	}
	for _, one := range all {
		if got := get(one, "error"); one.Is(scheme) != (got == code && code != "") && code != "" {
			t.Errorf("%s: want %s of %s: %s", one, code, scheme, w.Body)
		}
	}
	at := slices.IndexFunc(all, func(c metadata.Challenge) bool { return c.Is(scheme) })
	if at < 0 {
		t.Fatalf("no challenge of %s: %v", scheme, all)
	}
	if get(all[at], "resource_metadata") != metaURL {
		t.Errorf("resource_metadata is missing: %s", all[at])
	}
	return all[at]
}

func TestBoundTokenWithProof(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256} {
		client := newBound(t, issuer, algorithm)
		guard := newGuard(t, issuer, accepting())
		for range 3 { // the token and the key are in the caches after the first
			token := passes(t, guard, client.request(nil))
			if token.KeyThumbprint() != client.Thumbprint() || token.CertificateThumbprint() != "" {
				t.Errorf("bound to %q", token.KeyThumbprint())
			}
		}
		passes(t, newGuard(t, issuer, accepting(required)), client.request(nil))
		refused(t, newGuard(t, issuer), client.request(nil), http.StatusUnauthorized)
	}
}

// TestAlgorithmsOfProofs shows the algorithms that are not accepted by default.
func TestAlgorithmsOfProofs(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	all := []string{"ES384", "ES512", "RS384", "RS512", "PS384", "PS512"}
	wide := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Algorithms = all }))
	narrow := newGuard(t, issuer, accepting())
	for _, algorithm := range all {
		client := newBound(t, issuer, jose.SignatureAlgorithm(algorithm))
		passes(t, wide, client.request(nil))
		challengedBy(t, narrow, client.request(nil), "DPoP", "invalid_dpop_proof")
	}
	challengedBy(t, wide, newBound(t, issuer, jose.ES256).request(nil), "DPoP", "invalid_dpop_proof")
}

// TestBoundAndUnbound shows every mixture of token, scheme and proof.
func TestBoundAndUnbound(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	plain := issuer.Mint(claims{"aud": resource})
	proof := func(token string) string { return client.Prove("POST", resource, token, nil) }
	accepted, only, off := newGuard(t, issuer, accepting()), newGuard(t, issuer, accepting(required)), newGuard(t, issuer)

	passes(t, accepted, withToken(plain))
	passes(t, off, withToken(plain))
	challengedBy(t, only, withToken(plain), "DPoP", "invalid_token")
	for name, r := range map[string]*http.Request{
		"bound, as a bearer token":              withToken(client.token),
		"bound, as a bearer token with a proof": newRequest("POST", resource, "Authorization", "Bearer "+client.token, "DPoP", proof(client.token)),
		"unbound, with a proof":                 newRequest("POST", resource, "Authorization", "Bearer "+plain, "DPoP", proof(plain)),
	} {
		t.Run(name, func(t *testing.T) {
			challengedBy(t, accepted, r.Clone(t.Context()), "Bearer", "invalid_token")
			challengedBy(t, only, r.Clone(t.Context()), "DPoP", "invalid_token")
		})
	}
	for name, r := range map[string]*http.Request{
		"unbound, with the scheme":           newRequest("POST", resource, "Authorization", "DPoP "+plain),
		"unbound, with the scheme and proof": newRequest("POST", resource, "Authorization", "dpop "+plain, "DPoP", proof(plain)),
	} {
		t.Run(name, func(t *testing.T) {
			challengedBy(t, accepted, r.Clone(t.Context()), "DPoP", "invalid_token")
			challengedBy(t, only, r.Clone(t.Context()), "DPoP", "invalid_token")
		})
	}
	for name, r := range map[string]*http.Request{
		"no proof":         newRequest("POST", resource, "Authorization", "DPoP "+client.token),
		"two proofs":       newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", proof(client.token), "DPoP", proof(client.token)),
		"proofs in a list": newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", proof(client.token)+", "+proof(client.token)),
		"a long proof":     newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", client.Prove("POST", resource, client.token, claims{"x": strings.Repeat("x", 4096)})),
	} {
		t.Run(name, func(t *testing.T) { challengedBy(t, accepted, r, "DPoP", "invalid_dpop_proof") })
	}
	refused(t, off, withToken(client.token), http.StatusUnauthorized)
	if _, err := accepted.Verify(t.Context(), client.token); err == nil {
		t.Error("Verify accepts a bound token without a request")
	}
}

// TestClaimsOfProofs shows what the claims of a proof must be (RFC 9449 section 4.3).
func TestClaimsOfProofs(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), time.Now()
	client := newBound(t, issuer, jose.ES256)
	guard := newGuard(t, issuer, accepting())
	for name, overrides := range map[string]claims{
		"another method":               {"htm": "GET"},
		"the method in another case":   {"htm": "post"},
		"another path":                 {"htu": "https://notes.example.com/other"},
		"a path below":                 {"htu": resource + "/more"},
		"a slash at the end":           {"htu": resource + "/"},
		"another case in the path":     {"htu": "https://notes.example.com/MCP"},
		"another host":                 {"htu": "https://example.org/mcp"},
		"another scheme":               {"htu": "http://notes.example.com/mcp"},
		"another port":                 {"htu": "https://notes.example.com:8443/mcp"},
		"a path alone":                 {"htu": "/mcp"},
		"no URL":                       {"htu": ""},
		"no method":                    {"htm": nil},
		"no htu":                       {"htu": nil},
		"no jti":                       {"jti": nil},
		"an empty jti":                 {"jti": ""},
		"a jti that is a number":       {"jti": 1},
		"a long jti":                   {"jti": strings.Repeat("x", 513)},
		"no iat":                       {"iat": nil},
		"an iat that is a text":        {"iat": "now"},
		"too old":                      {"iat": now.Add(-5*time.Minute - 5*time.Second).Unix()},
		"too new":                      {"iat": now.Add(5*time.Minute + 5*time.Second).Unix()},
		"expired":                      {"exp": now.Add(-20 * time.Second).Unix()},
		"not valid yet":                {"nbf": now.Add(6 * time.Minute).Unix()},
		"no ath":                       {"ath": nil},
		"ath of another token":         {"ath": base64.RawURLEncoding.EncodeToString(make([]byte, sha256.Size))},
		"a digest of another message":  {"content_digest": digestOf("another")},
		"a digest in another notation": {"content_digest": strings.ReplaceAll(digestOf(""), "sha-256", "SHA-256")},
		"a digest that is null":        {"content_digest": []string{}},
	} {
		t.Run(name, func(t *testing.T) { challengedBy(t, guard, client.request(overrides), "DPoP", "invalid_dpop_proof") })
	}
	for name, overrides := range map[string]claims{
		"scheme and host in another case": {"htu": "HTTPS://Notes.Example.COM/mcp"},
		"the port of the scheme":          {"htu": "https://notes.example.com:443/mcp"},
		"escapes that are not needed":     {"htu": "https://notes.example.com/%6dcp"},
		"query and fragment":              {"htu": resource + "?a=b#c"},
		"dot segments":                    {"htu": "https://notes.example.com/x/../mcp"},
		"old, within the window":          {"iat": now.Add(-5*time.Minute + 20*time.Second).Unix()},
		"new, within the window":          {"iat": now.Add(5*time.Minute - 20*time.Second).Unix()},
		"a nonce that nobody asked for":   {"nonce": "of the authorization server"},
		"further claims":                  {"exp": now.Add(time.Minute).Unix(), "nbf": now.Unix(), "other": 1},
		"the digest of the message":       {"content_digest": digestOf("")},
	} {
		t.Run(name, func(t *testing.T) { passes(t, guard, client.request(overrides)) })
	}
}

func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// TestHeadersOfProofs shows what the header of a proof must be.
func TestHeadersOfProofs(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client, stranger := newBound(t, issuer, jose.ES256), middlewaretest.NewProofKey(t, jose.ES256)
	guard := newGuard(t, issuer, accepting())
	payload := payloadOf(t, client.request(nil).Header.Get("DPoP"))
	private := map[string]any{}
	text, _ := json.Marshal(client.Public())
	if err := json.Unmarshal(text, &private); err != nil {
		t.Fatal(err)
	}
	private["d"] = "AAAA"
	send := func(proof string) *http.Request {
		return newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", proof)
	}
	for name, proof := range map[string]string{
		"another type":              client.Sign(payload, map[string]any{"typ": "JWT"}),
		"the type of access tokens": client.Sign(payload, map[string]any{"typ": "at+jwt"}),
		"no type":                   client.Sign(payload, map[string]any{"typ": ""}),
		"no key":                    client.Sign(payload, map[string]any{"jwk": nil}),
		"a key that is a text":      client.Sign(payload, map[string]any{"jwk": "key"}),
		"a private key":             client.Sign(payload, map[string]any{"jwk": private}),
		"a symmetric key":           client.Sign(payload, map[string]any{"jwk": map[string]string{"kty": "oct", "k": "c2VjcmV0"}}),
		"a key off the curve":       client.Sign(payload, map[string]any{"jwk": map[string]string{"kty": "EC", "crv": "P-256", "x": client.Thumbprint(), "y": client.Thumbprint()}}),
		"a key of another kind":     client.Sign(payload, map[string]any{"jwk": middlewaretest.NewProofKey(t, jose.EdDSA).Public()}),
		"the key of a stranger":     client.Sign(payload, map[string]any{"jwk": stranger.Public()}),
		"signed by a stranger":      stranger.Sign(payload, map[string]any{"jwk": client.Public()}),
		"all of a stranger":         stranger.Sign(payload, nil),
		"critical":                  client.Sign(payload, map[string]any{"crit": []string{"exp"}, "exp": 1}),
		"a URL of keys":             client.Sign(payload, map[string]any{"jku": "https://example.org/keys"}),
		"a certificate":             client.Sign(payload, map[string]any{"x5c": []string{"AAAA"}}),
		"the access token":          client.token,
		"no JWT":                    "proof",
		"claims that are no object": client.Sign([]byte(`[]`), nil),
		"a claim twice":             client.Sign([]byte(strings.Replace(string(payload), "{", `{"htm":"POST",`, 1)), nil),
		"a claim in another case":   client.Sign([]byte(strings.Replace(string(payload), `"htm"`, `"HTM"`, 1)), nil),
		"unsigned":                  unsigned(payload, client),
	} {
		t.Run(name, func(t *testing.T) { challengedBy(t, guard, send(proof), "DPoP", "invalid_dpop_proof") })
	}
	passes(t, guard, send(client.Sign(payload, map[string]any{"typ": "application/DPoP+JWT"})))
	for name, proof := range map[string]string{ // after the header was seen in a valid proof
		"a changed signature": tampered(client.Prove("POST", resource, client.token, nil)),
		"for another token":   client.Prove("POST", resource, "another", nil),
	} {
		t.Run(name, func(t *testing.T) { challengedBy(t, guard, send(proof), "DPoP", "invalid_dpop_proof") })
	}
}

// payloadOf returns the payload of a proof.
func payloadOf(t testing.TB, proof string) []byte {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(proof, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// unsigned returns a proof with the algorithm none.
func unsigned(payload []byte, client bound) string {
	text, _ := json.Marshal(map[string]any{"typ": "dpop+jwt", "alg": "none", "jwk": client.Public()})
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(payload) + ".AAAA"
}

// tampered returns a proof with another signature.
func tampered(proof string) string {
	at := len(proof) - 10
	c := byte('A')
	if proof[at] == c {
		c = 'B'
	}
	return proof[:at] + string(c) + proof[at+1:]
}
