package dcr_test

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

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

// otherSpelling returns an assertion whose signature has other bits behind its last byte, which lenient
// readers leave out.
func otherSpelling(good string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	end := len(good) - 1
	return good[:end] + string(alphabet[strings.IndexByte(alphabet, good[end])+1])
}

// TestAssertionRules: each assertion differs from a valid one in one property. A refused one
// writes nothing to the store, so it may be corrected with the same jti.
func TestAssertionRules(t *testing.T) {
	f := newFixture(t, nil)
	now := f.clock.now().Unix()
	s, other, strong := newSigner(t, "ES256"), newSigner(t, "ES256"), newSigner(t, "RS256")
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
		"aud of another server":     {claims: members{"aud": "https://other.example.com/token"}},
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
		"jwk":                       {header: members{"jwk": other.jwk()}, by: &other},
		"another key":               {by: &other},
		"another key without a kid": {header: members{"kid": nil}, by: &other},
		"the registered alg":        {client: func(c *storage.Client) { c.Metadata.TokenEndpointAuthSigningAlg = "ES256" }, ok: true},
		"not the registered alg":    {client: func(c *storage.Client) { c.Metadata.TokenEndpointAuthSigningAlg = "PS256" }},
		"a client without keys":     {client: func(c *storage.Client) { c.Metadata.JWKS = nil }},
		"keys that are none":        {client: func(c *storage.Client) { c.Metadata.JWKS = json.RawMessage(`{"keys":[]}`) }},
		"keys at an address":        {client: func(c *storage.Client) { c.Metadata.JWKS, c.Metadata.JWKSURI = nil, "https://a.example.com/jwks.json" }},
		"two keys":                  {client: func(c *storage.Client) { c.Metadata.JWKS = keySet(other.jwk(), s.jwk()) }, ok: true},
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
		"another spelling of it":    {raw: otherSpelling},
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

// TestSaltIsAsLongAsTheHash: RFC 7518 section 3.5, for assertions and for software statements.
func TestSaltIsAsLongAsTheHash(t *testing.T) {
	s := newSigner(t, "PS256")
	f := newFixture(t, trusting(s.key.Public()))
	for _, salt := range []int{32, 20, 31, 33, 222} {
		s.salt = salt
		if err := f.Authenticate(t.Context(), s.client(), s.good(t, f.clock.now()), audiences); (err == nil) != (salt == 32) || err != nil && !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("an assertion, salt of %d bytes: error %v", salt, err)
		}
		stated := s.sign(t, map[string]any{"iss": publisherName, "software_id": "notes"}, map[string]any{"kid": nil, "typ": nil})
		want := map[bool]int{true: http.StatusCreated, false: http.StatusBadRequest}[salt == 32]
		if a := f.post(t, with(`"software_statement":"`+stated+`"`)); a.status != want {
			t.Errorf("a statement, salt of %d bytes: status %d: %s", salt, a.status, a.raw)
		}
	}
}

// TestAssertionDuplicates: assertions with ambiguous JSON are refused.
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

// TestAssertionWithPublicKeyAsSecret signs with HMAC, keyed with the public key.
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

// TestAssertionIsTakenOnce: of two hundred concurrent uses of one assertion, one succeeds.
func TestAssertionIsTakenOnce(t *testing.T) {
	f, s := newFixture(t, nil), newSigner(t, "ES256")
	token, client := s.good(t, f.clock.now()), s.client()
	var won atomic.Int64
	var group sync.WaitGroup
	f.backend.hold("put", "assertion", 200) // all check it before any takes it
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

// lasting is a backend that records the lifetime of the last item that was put.
type lasting struct {
	storage.Backend
	last time.Duration
}

func (l *lasting) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	l.last = put.TTL
	return l.Backend.Put(ctx, put)
}

// TestAssertionIsRememberedForItsLife: a jti is stored until the assertion is refused as
// expired.
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

// TestAssertionWithoutStore: while the store is unavailable, the error is not ErrAssertion.
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
		"another sub": {"sub": "other"}, "no client": {"iss": "", "sub": ""}, "no iss": {"iss": nil}, "no sub": {"sub": nil},
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
