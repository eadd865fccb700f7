package dcr_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

const (
	issuerURL = "https://auth.example.com"
	tokenURL  = "https://auth.example.com/token"
)

var audiences = []string{issuerURL, tokenURL}

// signer is a client with a key.
type signer struct {
	id, kid, alg string
	key          crypto.Signer
}

func newSigner(t testing.TB, alg string) signer {
	t.Helper()
	s := signer{id: "signing-client", kid: "one", alg: alg}
	var err error
	switch alg {
	case "ES256":
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	default:
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig"}
}

func keySet(keys ...jose.JSONWebKey) json.RawMessage {
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		panic(err)
	}
	return raw
}

func (s signer) client() storage.Client {
	return storage.Client{ID: s.id, Source: storage.ClientRegistered, Metadata: metadata.Client{
		TokenEndpointAuthMethod: metadata.AuthMethodPrivateKeyJWT, JWKS: keySet(s.jwk()),
	}}
}

var serials atomic.Int64

// claims are those of a good assertion at a time, with a jti of its own.
func (s signer) claims(now time.Time) map[string]any {
	return map[string]any{
		"iss": s.id, "sub": s.id, "aud": tokenURL, "exp": now.Unix() + 60, "iat": now.Unix(), "nbf": now.Unix(), "jti": fmt.Sprint("jti-", serials.Add(1)),
	}
}

// sign makes a JWT; nil leaves a member out.
func (s signer) sign(t testing.TB, claims, header map[string]any) string {
	t.Helper()
	drop := func(_ string, v any) bool { return v == nil }
	maps.DeleteFunc(claims, drop)
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return s.signRaw(t, payload, header)
}

func (s signer) signRaw(t testing.TB, payload []byte, header map[string]any) string {
	t.Helper()
	protected := map[string]any{"alg": s.alg, "kid": s.kid, "typ": "JWT"}
	maps.Copy(protected, header)
	maps.DeleteFunc(protected, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(protected)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode(raw) + "." + encode(payload)
	return input + "." + encode(s.signature(t, input))
}

func (s signer) signature(t testing.TB, input string) []byte {
	t.Helper()
	if s.alg == "EdDSA" {
		return ed25519.Sign(s.key.(ed25519.PrivateKey), []byte(input))
	}
	hash := crypto.SHA256.New()
	hash.Write([]byte(input))
	sum := hash.Sum(nil)
	var signature []byte
	var err error
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, v, signError := ecdsa.Sign(rand.Reader, key, sum)
		if signError != nil {
			t.Fatal(signError)
		}
		size := (key.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), v.FillBytes(make([]byte, size))...)
	case *rsa.PrivateKey:
		if s.alg == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func (s signer) good(t testing.TB, now time.Time) string {
	return s.sign(t, s.claims(now), nil)
}

func TestAssertion(t *testing.T) {
	f := newFixture(t, nil)
	for _, alg := range dcr.AssertionAlgorithms() {
		s := newSigner(t, alg)
		token := s.good(t, f.clock.now())
		if id, ok := dcr.AssertionClientID(token); !ok || id != s.id {
			t.Errorf("%s: client %q", alg, id)
		}
		before := f.backend.writes.Load()
		if err := f.Authenticate(t.Context(), s.client(), token, audiences); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		if n := f.backend.writes.Load() - before; n != 1 {
			t.Errorf("%s: %d trips to the store", alg, n)
		}
		if err := f.Authenticate(t.Context(), s.client(), token, audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("%s: a second time: %v", alg, err)
		}
	}
}

// TestAssertionRules: one thing is different in each. Those that are refused take nothing
// from the store, so what was refused may be corrected with the same jti.
func TestAssertionRules(t *testing.T) {
	f := newFixture(t, nil)
	now := f.clock.now().Unix()
	s, stranger, strong := newSigner(t, "ES256"), newSigner(t, "ES256"), newSigner(t, "RS256")
	type members = map[string]any
	for name, tt := range map[string]struct {
		claims, header members
		client         func(*storage.Client)
		raw            func(good string) string
		by             *signer
		ok             bool
	}{
		"nothing":                   {ok: true},
		"aud in a list":             {claims: members{"aud": []string{tokenURL}}, ok: true},
		"aud is the issuer":         {claims: members{"aud": issuerURL}, ok: true},
		"aud of somebody else":      {claims: members{"aud": "https://other.example.com/token"}},
		"aud with a slash":          {claims: members{"aud": issuerURL + "/"}},
		"aud in capitals":           {claims: members{"aud": strings.ToUpper(tokenURL)}},
		"two aud":                   {claims: members{"aud": []string{tokenURL, "https://other.example.com"}}},
		"both aud":                  {claims: members{"aud": []string{tokenURL, issuerURL}}},
		"no aud":                    {claims: members{"aud": nil}},
		"empty aud":                 {claims: members{"aud": ""}},
		"empty list":                {claims: members{"aud": []string{}}},
		"aud is a number":           {claims: members{"aud": 1}},
		"another iss":               {claims: members{"iss": "other"}},
		"no iss":                    {claims: members{"iss": nil}},
		"another sub":               {claims: members{"sub": "other"}},
		"no sub":                    {claims: members{"sub": nil}},
		"another client":            {claims: members{"iss": "other", "sub": "other"}},
		"no exp":                    {claims: members{"exp": nil}},
		"exp is null":               {claims: members{"exp": json.RawMessage("null")}},
		"exp is text":               {claims: members{"exp": "soon"}},
		"exp has a fraction":        {claims: members{"exp": float64(now) + 60.5}, ok: true},
		"expired within the skew":   {claims: members{"exp": now - 59, "iat": nil, "nbf": nil}, ok: true},
		"expired":                   {claims: members{"exp": now - 60, "iat": nil, "nbf": nil}},
		"expired long ago":          {claims: members{"exp": 1, "iat": nil, "nbf": nil}},
		"exp is negative":           {claims: members{"exp": -1, "iat": nil, "nbf": nil}},
		"exp in five minutes":       {claims: members{"exp": now + 300}, ok: true},
		"exp within the skew":       {claims: members{"exp": now + 360}, ok: true},
		"exp too far":               {claims: members{"exp": now + 361}},
		"exp beyond everything":     {claims: members{"exp": json.RawMessage("1e300")}},
		"exp beyond numbers":        {claims: members{"exp": json.RawMessage("1e999")}},
		"iat within the skew":       {claims: members{"iat": now + 60, "nbf": now + 60}, ok: true},
		"iat ahead":                 {claims: members{"iat": now + 61, "exp": now + 100}},
		"nbf ahead":                 {claims: members{"nbf": now + 61, "exp": now + 100}},
		"iat after exp":             {claims: members{"iat": now + 30, "exp": now + 20}},
		"iat is text":               {claims: members{"iat": "now"}},
		"no iat, no nbf":            {claims: members{"iat": nil, "nbf": nil}, ok: true},
		"no jti":                    {claims: members{"jti": nil}},
		"empty jti":                 {claims: members{"jti": ""}},
		"long jti":                  {claims: members{"jti": strings.Repeat("j", 257)}},
		"jti as long as can be":     {claims: members{"jti": strings.Repeat("j", 256)}, ok: true},
		"jti is a number":           {claims: members{"jti": 1}},
		"more claims":               {claims: members{"x": members{"y": 1}}, ok: true},
		"no typ":                    {header: members{"typ": nil}, ok: true},
		"typ of its own":            {header: members{"typ": "client-authentication+jwt"}, ok: true},
		"typ in small letters":      {header: members{"typ": "jwt"}, ok: true},
		"an access token":           {header: members{"typ": "at+jwt"}},
		"a proof":                   {header: members{"typ": "dpop+jwt"}},
		"empty typ":                 {header: members{"typ": ""}},
		"typ is a number":           {header: members{"typ": 1}},
		"no kid":                    {header: members{"kid": nil}, ok: true},
		"another kid":               {header: members{"kid": "two"}},
		"alg none":                  {header: members{"alg": "none"}, raw: func(good string) string { return good[:strings.LastIndex(good, ".")+1] }},
		"alg None":                  {header: members{"alg": "None"}},
		"no alg":                    {header: members{"alg": nil}},
		"alg HS256":                 {header: members{"alg": "HS256"}},
		"alg RS256 with a curve":    {header: members{"alg": "RS256"}},
		"crit":                      {header: members{"crit": []string{"exp"}}},
		"empty crit":                {header: members{"crit": []string{}}},
		"b64":                       {header: members{"b64": true}},
		"jku":                       {header: members{"jku": "https://evil.example.com/jwks.json"}},
		"x5u":                       {header: members{"x5u": "https://evil.example.com/cert.pem"}},
		"x5c":                       {header: members{"x5c": []string{"AAAA"}}},
		"jwk":                       {header: members{"jwk": stranger.jwk()}, by: &stranger},
		"another key":               {by: &stranger},
		"another key without a kid": {header: members{"kid": nil}, by: &stranger},
		"the registered alg":        {client: func(c *storage.Client) { c.Metadata.TokenEndpointAuthSigningAlg = "ES256" }, ok: true},
		"not the registered alg":    {client: func(c *storage.Client) { c.Metadata.TokenEndpointAuthSigningAlg = "PS256" }},
		"a client without keys":     {client: func(c *storage.Client) { c.Metadata.JWKS = nil }},
		"keys that are none":        {client: func(c *storage.Client) { c.Metadata.JWKS = json.RawMessage(`{"keys":[]}`) }},
		"keys at an address":        {client: func(c *storage.Client) { c.Metadata.JWKS, c.Metadata.JWKSURI = nil, "https://a.example.com/jwks.json" }},
		"two keys":                  {client: func(c *storage.Client) { c.Metadata.JWKS = keySet(stranger.jwk(), s.jwk()) }, ok: true},
		"a key without a kid":       {client: func(c *storage.Client) { k := s.jwk(); k.KeyID = ""; c.Metadata.JWKS = keySet(k) }, ok: true},
		"a key to encrypt":          {client: func(c *storage.Client) { k := s.jwk(); k.Use = "enc"; c.Metadata.JWKS = keySet(k) }},
		"a key for another alg":     {client: func(c *storage.Client) { k := s.jwk(); k.Algorithm = "ES512"; c.Metadata.JWKS = keySet(k) }},
		"a key for this alg":        {client: func(c *storage.Client) { k := s.jwk(); k.Algorithm = "ES256"; c.Metadata.JWKS = keySet(k) }, ok: true},
		"another type of key":       {client: func(c *storage.Client) { c.Metadata.JWKS = keySet(strong.jwk()) }},
		"a private key":             {client: func(c *storage.Client) { c.Metadata.JWKS = keySet(jose.JSONWebKey{Key: s.key, KeyID: s.kid}) }},
		"nothing at all":            {raw: func(string) string { return "" }},
		"no JWT":                    {raw: func(string) string { return "hello" }},
		"five parts":                {raw: func(good string) string { return good + ".a.b" }},
		"JSON serialization":        {raw: func(good string) string { return `{"payload":"` + strings.Split(good, ".")[1] + `"}` }},
		"white space":               {raw: func(good string) string { return " " + good }},
		"a line break":              {raw: func(good string) string { return good[:20] + "\n" + good[20:] }},
		"padding":                   {raw: func(good string) string { return strings.Replace(good, ".", "=.", 1) }},
		"no signature":              {raw: func(good string) string { return good[:strings.LastIndex(good, ".")+1] }},
		"a broken signature":        {raw: func(good string) string { return good[:len(good)-10] + "AAAAAAAAAA" }},
		"half a signature":          {raw: func(good string) string { return good[:len(good)-43] }},
		"another payload": {raw: func(good string) string {
			p := strings.Split(good, ".")
			return p[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + "." + p[2]
		}},
		"too long":                   {claims: members{"x": strings.Repeat("x", 7<<10)}},
		"the key of a client by kid": {header: members{"kid": "../one"}},
	} {
		t.Run(name, func(t *testing.T) {
			claims, client, by := s.claims(f.clock.now()), s.client(), s
			maps.Copy(claims, tt.claims)
			if tt.client != nil {
				tt.client(&client)
			}
			if tt.by != nil {
				by = *tt.by
			}
			token := by.sign(t, claims, tt.header)
			if tt.raw != nil {
				token = tt.raw(token)
			}
			before := f.backend.writes.Load()
			err := f.Authenticate(t.Context(), client, token, audiences)
			if tt.ok != (err == nil) || !tt.ok && !errors.Is(err, dcr.ErrAssertion) {
				t.Errorf("error %v", err)
			}
			if n := f.backend.writes.Load() - before; !tt.ok && n != 0 {
				t.Errorf("%d writes for an assertion that was refused", n)
			}
		})
	}
}

// TestAssertionDuplicates: JSON that two readers could understand differently.
func TestAssertionDuplicates(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "ES256")
	now := f.clock.now().Unix()
	payload := fmt.Sprintf(`"sub":%q,"aud":%q,"exp":%d,"jti":"x"}`, s.id, tokenURL, now+60)
	for _, start := range []string{`{"iss":"other","iss":"` + s.id + `",`, `{"ISS":"` + s.id + `",`, `{"iss":"` + s.id + `","jti":"y",`, `{"iss":["` + s.id + `"],`} {
		token := s.signRaw(t, []byte(start+payload), nil)
		if err := f.Authenticate(t.Context(), s.client(), token, audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("%s: %v", start, err)
		}
	}
	if err := f.Authenticate(t.Context(), s.client(), s.signRaw(t, []byte(`{"iss":"`+s.id+`",`+payload), nil), audiences); err != nil {
		t.Error(err)
	}
}

// TestAssertionWithPublicKeyAsSecret signs with what everybody knows.
func TestAssertionWithPublicKeyAsSecret(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "RS256")
	for _, secret := range [][]byte{s.client().Metadata.JWKS, s.key.Public().(*rsa.PublicKey).N.Bytes()} {
		hmacSigner, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", s.kid))
		if err != nil {
			t.Fatal(err)
		}
		payload, _ := json.Marshal(s.claims(f.clock.now()))
		jws, err := hmacSigner.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		token, _ := jws.CompactSerialize()
		if err := f.Authenticate(t.Context(), s.client(), token, audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("error %v", err)
		}
	}
}

// TestWeakKeys: keys that are too short or of another curve sign nothing.
func TestWeakKeys(t *testing.T) {
	f := newFixture(t, nil)
	for name, s := range map[string]signer{"a curve": newSigner(t, "ES384"), "a short key": shortSigner(t)} {
		if s.alg == "ES384" {
			s.alg = "ES256"
		}
		if err := f.Authenticate(t.Context(), s.client(), s.good(t, f.clock.now()), audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func shortSigner(t *testing.T) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id: "signing-client", kid: "one", alg: "RS256", key: key}
}

// TestAssertionIsTakenOnce: of two hundred who present one assertion at one time, one wins.
func TestAssertionIsTakenOnce(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "ES256")
	token, client := s.good(t, f.clock.now()), s.client()
	var won atomic.Int64
	var group sync.WaitGroup
	f.backend.hold("put", "assertion", 200) // nobody has taken it when all have judged it
	for range 200 {
		group.Go(func() {
			switch err := f.Authenticate(context.Background(), client, token, audiences); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, dcr.ErrAssertion):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
	other := s
	other.id = "other-client"
	claims := s.claims(f.clock.now())
	jti := claims["jti"]
	for _, by := range []signer{s, other} { // a jti is its client's own
		claims := by.claims(f.clock.now())
		claims["jti"] = jti
		if err := f.Authenticate(t.Context(), by.client(), by.sign(t, claims, nil), audiences); err != nil {
			t.Error(err)
		}
	}
}

// lasting is a backend that remembers for how long the last item was to be kept.
type lasting struct {
	storage.Backend
	last time.Duration
}

func (l *lasting) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	l.last = put.TTL
	return l.Backend.Put(ctx, put)
}

// TestAssertionIsRememberedForItsLife: until the moment when it is refused for its age.
func TestAssertionIsRememberedForItsLife(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "ES256")
	kept := &lasting{Backend: f.backend.Backend}
	f.backend.Backend = kept
	claims := s.claims(f.clock.now())
	claims["exp"] = f.clock.now().Unix() + 360
	token := s.sign(t, claims, nil)
	if err := f.Authenticate(t.Context(), s.client(), token, audiences); err != nil {
		t.Fatal(err)
	}
	if kept.last < 8*time.Minute { // the assertion, the skew, and the minute that every item outlives its end
		t.Errorf("its jti is kept for %s", kept.last)
	}
	for range 42 {
		f.clock.advance(10 * time.Second)
		if err := f.Authenticate(t.Context(), s.client(), token, audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Fatalf("again at %s: %v", f.clock.now(), err)
		}
	}
}

// TestAssertionWithoutStore: while nobody can tell whether it was used, it is not refused
// for good.
func TestAssertionWithoutStore(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "ES256")
	token := s.good(t, f.clock.now())
	f.backend.down.Store(true)
	if err := f.Authenticate(t.Context(), s.client(), token, audiences); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, dcr.ErrAssertion) {
		t.Errorf("error %v", err)
	}
	f.backend.down.Store(false)
	if err := f.Authenticate(t.Context(), s.client(), token, audiences); err != nil {
		t.Error(err)
	}
}

func TestAssertionClientID(t *testing.T) {
	s := newSigner(t, "ES256")
	for name, claims := range map[string]map[string]any{
		"another sub": {"sub": "other"}, "nobody": {"iss": "", "sub": ""}, "no iss": {"iss": nil}, "no sub": {"sub": nil},
	} {
		all := s.claims(start)
		maps.Copy(all, claims)
		if id, ok := dcr.AssertionClientID(s.sign(t, all, nil)); ok || id != "" {
			t.Errorf("%s: client %q", name, id)
		}
	}
	for _, raw := range []string{"", ".", "..", "a.b.c", strings.Repeat("a", 1<<20), "e30.e30.", s.good(t, start) + "\n"} {
		if id, ok := dcr.AssertionClientID(raw); ok || id != "" {
			t.Errorf("%.20q: client %q", raw, id)
		}
	}
}

// TestKeysByReference: keys are read once, kept for as long as their host says but no
// longer than an hour, and read again for one that is not known, once a minute.
func TestKeysByReference(t *testing.T) {
	r := newReader(t, nil)
	one, two := newSigner(t, "RS256"), newSigner(t, "RS256")
	two.kid = "two"
	uri := r.web.URL("client.example.com", "/jwks.json")
	client := one.client()
	client.Metadata.JWKS, client.Metadata.JWKSURI = nil, uri
	check := func(s signer, ok bool, hits int) {
		t.Helper()
		err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
		if ok != (err == nil) || !ok && !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("error %v", err)
		}
		if n := r.web.Hits(uri); n != hits {
			t.Errorf("%d requests, want %d", n, hits)
		}
	}
	serve := func(keys ...jose.JSONWebKey) {
		r.web.Document(uri, string(keySet(keys...)), "Content-Type: application/jwk-set+json", "Cache-Control: max-age=31536000")
	}
	serve(one.jwk())
	check(one, true, 1)
	check(one, true, 1)
	check(two, false, 1) // a stranger's kid, and the keys are fresh
	r.clock.advance(time.Minute)
	for range 20 {
		check(two, false, 2)
	}
	serve(one.jwk(), two.jwk())
	r.clock.advance(time.Minute)
	check(two, true, 3)
	serve(two.jwk())
	check(one, true, 3)
	r.clock.advance(time.Hour)
	check(one, false, 4)
	bad := two
	bad.key = one.key
	r.clock.advance(time.Minute)
	check(bad, false, 4) // the key is known, so no other can be meant
	bad.kid = ""
	check(bad, false, 5) // it may be a new key
	check(bad, false, 5)
	two.kid = ""
	check(two, true, 5)
}

func TestKeysThatCannotBeRead(t *testing.T) {
	r := newReader(t, nil)
	s := newSigner(t, "ES256")
	uri := r.web.URL("client.example.com", "/jwks.json")
	client := s.client()
	set := string(client.Metadata.JWKS)
	client.Metadata.JWKS, client.Metadata.JWKSURI = nil, uri
	authenticate := func() error {
		return r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
	}
	var many []jose.JSONWebKey
	for range 30 {
		many = append(many, s.jwk())
	}
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.jwk(), {Key: s.key, KeyID: "two"}}})
	for name, body := range map[string]string{
		"not found": "", "no set": `[]`, "no keys": `{"keys":[]}`, "a private key": string(private), "too many": string(keySet(many...)),
		"too large": `{"x":"` + strings.Repeat("x", 65<<10) + `","keys":[]}`, "twice": `{"keys":[],` + set[1:],
	} {
		if body != "" {
			r.web.Document(uri, body)
		}
		r.clock.advance(5 * time.Second) // what was read in vain rests
		if err := authenticate(); !errors.Is(err, dcr.ErrAssertion) || errors.Is(err, dcr.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.web.Serve(uri, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	r.clock.advance(5 * time.Second)
	if err := authenticate(); !errors.Is(err, dcr.ErrUnreachable) || errors.Is(err, dcr.ErrAssertion) {
		t.Errorf("error %v", err)
	}
	if n := r.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
	r.web.Document(uri, set)
	r.clock.advance(5 * time.Second)
	if err := authenticate(); err != nil {
		t.Error(err)
	}
}

// TestKeysWithCertificates: what real sets hold besides keys is ignored, also if it is
// broken, and so are keys of other kinds.
func TestKeysWithCertificates(t *testing.T) {
	r := newReader(t, nil)
	s := newSigner(t, "ES256")
	raw, _ := json.Marshal(s.jwk())
	key := strings.TrimSuffix(string(raw), "}") + `,"x5c":["AAAA"],"x5t":"x","x5u":"https://169.254.169.254/","key_ops":["verify"],"other":{}}`
	set := `{"keys":[{"kty":"XYZ","kid":"one"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"one"},{"kty":"OKP","crv":"X25519","x":"AAAA","kid":"one"},
		{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"one"},{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"one"},{"kty":"RSA","n":"","e":"","kid":"one"},` + key + `]}`
	client := s.client()
	client.Metadata.JWKS = json.RawMessage(set)
	if err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences); err != nil {
		t.Error(err)
	}
}

// FuzzAssertion: nothing but the assertion that was signed is believed, and the client
// that it claims to come from is the one that it would be checked against.
func FuzzAssertion(f *testing.F) {
	x := newFixture(f, nil)
	s := newSigner(f, "ES256")
	client := s.client()
	good := s.good(f, start)
	for _, seed := range []string{good, "", "..", "e30.e30.e30", good + "=", strings.ToUpper(good), good[1:], good[:len(good)-1], s.sign(f, s.claims(start), map[string]any{"typ": nil, "crit": []string{"x"}})} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		id, named := dcr.AssertionClientID(raw)
		err := x.Authenticate(t.Context(), client, raw, audiences)
		if err == nil && (raw != good || !named || id != s.id) {
			t.Fatalf("believed %q of %q", raw, id)
		}
		if err != nil && !errors.Is(err, dcr.ErrAssertion) {
			t.Fatal(err)
		}
	})
}

// FuzzDocument: a document that is accepted makes a client that can be trusted to be what
// it says: its id is its address, its redirect URIs are acceptable, it has no secret, and
// its digest does not depend on who reads it.
func FuzzDocument(f *testing.F) {
	const address = "https://client.example.com/client.json"
	x := newFixture(f, func(c *dcr.Config) { c.Documents = dcr.Documents{} })
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var sent struct {
			ID string `json:"client_id"`
		}
		_ = json.Unmarshal(raw, &sent)
		f.Add(strings.ReplaceAll(string(raw), sent.ID, address))
	}
	f.Add(published(address, map[string]any{"client_secret": "s"}))
	f.Add(published(address, map[string]any{"jwks": map[string]any{"keys": []any{map[string]any{"kty": "oct", "k": "a"}}}, "client_name#de": "\u202e"}))
	f.Fuzz(func(t *testing.T, body string) {
		c, err := x.ReadDocument(address, []byte(body))
		if err != nil {
			if c.ID != "" {
				t.Fatalf("refused and a client: %+v", c)
			}
			return
		}
		if c.ID != address || c.Source != storage.ClientDocument || c.Secret != nil || c.Metadata.ClientName == "" || len(c.Metadata.RedirectURIs) == 0 {
			t.Fatalf("client %+v", c)
		}
		for _, uri := range c.Metadata.RedirectURIs {
			if _, err := metadata.ParseRedirect(uri); err != nil {
				t.Fatal(err)
			}
		}
		for _, method := range dcr.AuthMethods(c) {
			if method != "none" && method != "private_key_jwt" || method == "private_key_jwt" && c.Metadata.JWKS == nil && c.Metadata.JWKSURI == "" {
				t.Fatalf("methods %q of %+v", dcr.AuthMethods(c), c)
			}
		}
		for _, link := range []string{c.Metadata.ClientURI, c.Metadata.LogoURI} {
			if link != "" && !strings.HasPrefix(strings.ToLower(link), "https://client.example.com") {
				t.Fatalf("link %q", link)
			}
		}
		again, err := x.ReadDocument(address, []byte(body))
		if err != nil || dcr.Digest(again) != dcr.Digest(c) || !slices.Contains(c.Metadata.GrantTypes, "authorization_code") {
			t.Fatalf("read again: %v", err)
		}
	})
}

// BenchmarkAssertion authenticates with keys by value, one round trip to a store that
// keeps nothing included.
func BenchmarkAssertion(b *testing.B) {
	for _, alg := range []string{"ES256", "RS256"} {
		b.Run(alg, func(b *testing.B) {
			f, s := newFixture(b, nil), newSigner(b, alg)
			f.backend.Backend = &sink{Backend: f.backend.Backend}
			token, client := s.good(b, f.clock.now()), s.client()
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Authenticate(b.Context(), client, token, audiences); err != nil {
					b.Fatal(err)
				}
				f.backend.stored = f.backend.stored[:0]
			}
		})
	}
}

// BenchmarkResolveDocument finds a document that was read before, from every processor at
// once.
func BenchmarkResolveDocument(b *testing.B) {
	r := newReader(b, nil)
	id := r.publish("client.example.com", nil)
	if _, err := r.Resolve(b.Context(), id); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Resolve(context.Background(), id); err != nil {
				b.Error(err)
			}
		}
	})
}
