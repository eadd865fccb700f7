package middlewaretest

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// BrokenToken is a token that no server may accept.
type BrokenToken struct {
	Name  string // the fault
	Token string
}

// Broken returns tokens for a resource with one fault each. A server must refuse them with 401,
// or with 400 if a token does not have the syntax of a bearer token.
func (i *Issuer) Broken(resource string) []BrokenToken {
	i.t.Helper()
	b := &breaker{issuer: i, resource: resource}
	b.wrongClaims()
	b.wrongTimes()
	b.wrongPayloads()
	b.wrongHeaders()
	b.wrongKeys()
	b.wrongShapes()
	return b.tokens
}

// breaker collects broken tokens.
type breaker struct {
	issuer   *Issuer
	resource string
	tokens   []BrokenToken
}

func (b *breaker) add(name, token string) {
	b.tokens = append(b.tokens, BrokenToken{Name: name, Token: token})
}

// good returns a token without a fault.
func (b *breaker) good() string {
	b.issuer.t.Helper()
	return b.mint(Claims{"aud": b.resource})
}

// mint signs claims that no server may accept. Introspection does not report such a token as
// active.
func (b *breaker) mint(overrides Claims) string {
	b.issuer.t.Helper()
	return b.issuer.mint(b.issuer.claims(overrides))
}

// payload returns the claims of a good token. It is a minute old, so that a server with the keys
// of the issuer can conclude that the issuer has no key for the token.
func (b *breaker) payload() []byte {
	b.issuer.t.Helper()
	return b.issuer.payload(b.issuer.claims(Claims{"aud": b.resource, "iat": time.Now().Add(-time.Minute).Unix()}))
}

func (b *breaker) claim(name string, overrides Claims) {
	b.issuer.t.Helper()
	if _, ok := overrides["aud"]; !ok {
		overrides["aud"] = b.resource
	}
	b.add(name, b.mint(overrides))
}

func (b *breaker) wrongClaims() {
	b.claim("aud: absent", Claims{"aud": nil})
	b.claim("aud: empty", Claims{"aud": ""})
	b.claim("aud: empty array", Claims{"aud": []string{}})
	b.claim("aud: another resource", Claims{"aud": "https://other.example.org/mcp"})
	b.claim("aud: several other resources", Claims{"aud": []string{"https://other.example.org/mcp", b.issuer.URL()}})
	b.claim("aud: the resource and more path", Claims{"aud": b.resource + "/admin"})
	b.claim("aud: the resource as a prefix", Claims{"aud": b.resource + ".example.org"})
	b.claim("aud: the resource with a fragment", Claims{"aud": b.resource + "#"})
	b.claim("aud: the resource in one string with others", Claims{"aud": "https://other.example.org/mcp " + b.resource})
	b.claim("aud: an object", Claims{"aud": map[string]string{"aud": b.resource}})
	b.claim("aud: an array in an array", Claims{"aud": [][]string{{b.resource}}})
	b.claim("iss: absent", Claims{"iss": nil})
	b.claim("iss: empty", Claims{"iss": ""})
	b.claim("iss: another issuer", Claims{"iss": "https://other.example.org"})
	b.claim("iss: with a slash", Claims{"iss": b.issuer.URL() + "/"})
	b.claim("iss: in capitals", Claims{"iss": strings.ToUpper(b.issuer.URL())})
	b.claim("iss: an array", Claims{"iss": []string{b.issuer.URL()}})
	b.claim("sub: absent", Claims{"sub": nil})
	b.claim("sub: empty", Claims{"sub": ""})
	b.claim("sub: a number", Claims{"sub": 7})
	b.claim("client_id: absent", Claims{"client_id": nil})
	b.claim("client_id: empty", Claims{"client_id": ""})
	b.claim("cnf: bound to a key (RFC 9449)", Claims{"cnf": map[string]string{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}})
	b.claim("cnf: bound to a certificate (RFC 8705)", Claims{"cnf": map[string]string{"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}})
	b.claim("cnf: no object", Claims{"cnf": "key"})
	b.claim("scope: an array", Claims{"scope": []string{"notes:read"}})
}

func (b *breaker) wrongTimes() {
	now := time.Now()
	b.claim("exp: absent", Claims{"exp": nil})
	b.claim("exp: a minute ago", Claims{"exp": now.Add(-time.Minute).Unix()})
	b.claim("exp: years ago", Claims{"exp": 1})
	b.claim("exp: zero", Claims{"exp": 0})
	b.claim("exp: negative", Claims{"exp": -now.Unix()})
	b.claim("exp: a string", Claims{"exp": fmt.Sprint(now.Add(time.Hour).Unix())})
	b.claim("exp: milliseconds", Claims{"exp": now.Add(time.Hour).UnixMilli()})
	b.claim("exp: beyond all numbers", Claims{"exp": json.RawMessage("1e999")})
	b.claim("nbf: more than a minute ahead", Claims{"nbf": now.Add(61 * time.Second).Unix()})
	b.claim("nbf: a string", Claims{"nbf": "now"})
	b.claim("iat: absent", Claims{"iat": nil})
	b.claim("iat: more than a minute ahead", Claims{"iat": now.Add(61 * time.Second).Unix()})
}

func (b *breaker) wrongPayloads() {
	sign := func(name, payload string) { b.add(name, b.issuer.MintRaw(payload)) }
	good := string(b.payload())
	body := strings.TrimSuffix(good, "}")
	sign("payload: empty object", "{}")
	sign("payload: null", "null")
	sign("payload: an array", "["+good+"]")
	sign("payload: a string", `"claims"`)
	sign("payload: not JSON", "claims")
	sign("payload: two objects", good+good)
	sign("payload: cut off", body)
	sign("payload: aud twice", body+`,"aud":"`+b.resource+`"}`)
	sign("payload: iss twice", `{"iss":"https://other.example.org",`+good[1:])
	sign("payload: other case", strings.NewReplacer(`"iss"`, `"ISS"`, `"aud"`, `"Aud"`).Replace(good))
}

func (b *breaker) wrongHeaders() {
	header := func(name string, header map[jose.HeaderKey]any) {
		b.add(name, b.issuer.sign(b.payload(), b.issuer.header(header)))
	}
	foreign := jose.JSONWebKey{Key: b.issuer.foreign(jose.ES256), Algorithm: string(jose.ES256)}
	b.add("typ: absent", b.issuer.sign(b.payload(), nil))
	header("typ: JWT", map[jose.HeaderKey]any{"typ": "JWT"})
	header("typ: empty", map[jose.HeaderKey]any{"typ": ""})
	header("typ: an ID token of a logout", map[jose.HeaderKey]any{"typ": "logout+jwt"})
	header("typ: a proof of possession", map[jose.HeaderKey]any{"typ": "dpop+jwt"})
	header("crit: an unknown extension", map[jose.HeaderKey]any{"crit": []string{"urn:example:x"}, "urn:example:x": true})
	header("crit: empty", map[jose.HeaderKey]any{"crit": []string{}})
	header("zip: DEF", map[jose.HeaderKey]any{"zip": "DEF"})
	header("jwk: a key of its own", map[jose.HeaderKey]any{"jwk": foreign.Public()})
	header("jku: keys of its own", map[jose.HeaderKey]any{"jku": "https://other.example.org/jwks.json"})
	header("x5u: a certificate of its own", map[jose.HeaderKey]any{"x5u": "https://other.example.org/cert"})
	header("x5c: a certificate of its own", map[jose.HeaderKey]any{"x5c": []string{"MA=="}})

	_, payload, signature := parts(b.good())
	raw := func(name, header string) { b.add(name, encode(header)+"."+payload+"."+signature) }
	rest, algorithm := b.typeAndKey(), b.issuer.keys[0].Algorithm
	raw("header: no algorithm", "{"+rest)
	raw("header: lowercase algorithm", `{"alg":"`+strings.ToLower(algorithm)+`",`+rest)
	raw("header: algorithm twice", `{"alg":"none","alg":"`+algorithm+`",`+rest)
	raw("header: not an object", `["`+algorithm+`"]`)
	raw("header: not JSON", algorithm)
}

func (b *breaker) wrongKeys() {
	t, own := b.issuer.t, b.issuer.keys[0]
	at, kind := b.issuer.header(nil), jose.SignatureAlgorithm(own.Algorithm)
	foreign := jose.JSONWebKey{Key: b.issuer.foreign(kind), KeyID: own.KeyID, Algorithm: own.Algorithm}
	b.add("key: not the issuer's, under the issuer's id", signWith(t, foreign, b.payload(), at))
	foreign.KeyID = "foreign"
	b.add("key: not the issuer's", signWith(t, foreign, b.payload(), at))
	foreign.KeyID = ""
	b.add("key: no id", signWith(t, foreign, b.payload(), at))
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA, jose.ES384} {
		if algorithm == kind {
			continue
		}
		other := jose.JSONWebKey{Key: b.issuer.foreign(algorithm), KeyID: own.KeyID, Algorithm: string(algorithm)}
		b.add("key: another kind, "+other.Algorithm, signWith(t, other, b.payload(), at))
	}
	secrets := map[string][]byte{"JWK": publicJWK(b, own), "PEM": publicPEM(b, own), "empty": {}}
	for name, secret := range secrets {
		b.add("HS256 with the public key as the secret: "+name, b.hmac(secret))
	}
	for _, none := range []string{"none", "None", "NONE", ""} {
		header := encode(`{"alg":"` + none + `",` + b.typeAndKey())
		_, payload, signature := parts(b.good())
		b.add("alg "+none+": no signature", header+"."+payload+".")
		b.add("alg "+none+": some signature", header+"."+payload+"."+signature)
	}
}

// typeAndKey returns the end of the JSON of a header, with the type of the form and the key of
// the issuer.
func (b *breaker) typeAndKey() string {
	key := `"kid":"` + b.issuer.keys[0].KeyID + `"}`
	if typ := b.issuer.currentForm().Type; typ != "" {
		return `"typ":"` + typ + `",` + key
	}
	return key
}

// foreign returns a key that is not the issuer's, always the same for an algorithm, because
// generating RSA keys is slow.
func (i *Issuer) foreign(algorithm jose.SignatureAlgorithm) any {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.foreignKeys[algorithm] == nil {
		i.foreignKeys[algorithm] = NewKey(i.t, algorithm)
	}
	return i.foreignKeys[algorithm]
}

func (b *breaker) hmac(secret []byte) string {
	input := encode(`{"alg":"HS256",`+b.typeAndKey()) + "." + encode(string(b.payload()))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + encode(string(mac.Sum(nil)))
}

func (b *breaker) wrongShapes() {
	header, payload, signature := parts(b.good())
	_, other, _ := parts(b.mint(Claims{"aud": b.resource, "sub": "stranger"}))
	b.add("shape: claims exchanged", header+"."+other+"."+signature)
	b.add("shape: no signature", header+"."+payload+".")
	b.add("shape: signature absent", header+"."+payload)
	b.add("shape: signature cut", header+"."+payload+"."+signature[:len(signature)-4])
	b.add("shape: signature of zeros", header+"."+payload+"."+encode(strings.Repeat("\x00", 64)))
	b.add("shape: signature with a stray bit", header+"."+payload+"."+strayBit(signature))
	b.add("shape: padding", header+"."+payload+"."+signature+"==")
	b.add("shape: four parts", header+"."+payload+"."+signature+".")
	b.add("shape: five parts", header+"..."+payload+"."+signature)
	b.add("shape: one part", header)
	b.add("shape: dots alone", "..")
	b.add("shape: first part empty", "."+payload+"."+signature)
	b.add("shape: too long", b.mint(Claims{"aud": b.resource, "x": strings.Repeat("x", 8<<10)}))
	b.add("shape: not a JWT", "0123456789abcdef")
	one := `{"protected":"` + header + `","signature":"` + signature + `"}`
	b.add("shape: JSON with one signature", `{"payload":"`+payload+`",`+one[1:])
	b.add("shape: JSON with two signatures", `{"payload":"`+payload+`","signatures":[`+one+`,`+one+`]}`)
}

// parts splits a compact JWS.
func parts(token string) (header, payload, signature string) {
	header, rest, _ := strings.Cut(token, ".")
	payload, signature, _ = strings.Cut(rest, ".")
	return header, payload, signature
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// strayBit changes the last character of a base64url string in the bits that are not
// part of any byte, so that a lenient decoder yields the same bytes.
func strayBit(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, s[len(s)-1])
	return s[:len(s)-1] + string(alphabet[last^1])
}

func publicJWK(b *breaker, key jose.JSONWebKey) []byte {
	out, err := json.Marshal(key.Public())
	if err != nil {
		b.issuer.t.Fatalf("middlewaretest: %v", err)
	}
	return out
}

func publicPEM(b *breaker, key jose.JSONWebKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	if err != nil {
		b.issuer.t.Fatalf("middlewaretest: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
