package upstream_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// clock is a clock that tests move.
type clock struct{ past atomic.Int64 }

func (c *clock) now() time.Time            { return time.Now().Add(time.Duration(c.past.Load())) }
func (c *clock) move(d time.Duration)      { c.past.Add(int64(d)) }
func (c *clock) options() upstream.Options { return upstream.Options{Now: c.now} }

// started is a sign-in with a clock, on both sides.
func started(t *testing.T, change ...func(*upstream.Provider)) (signer, *clock) {
	t.Helper()
	moved, fake := &clock{}, upstreamtest.New(t)
	fake.Now = moved.now
	return startWith(t, fake, upstream.OIDC, moved.options(), change...), moved
}

// A new key counts at once when the pause is over, and the old one not any more.
func TestKeyRotation(t *testing.T) {
	s, moved := started(t)
	s.arrives()
	var old string
	s.fake.Change(func(a *upstreamtest.Answers) { a.Raw = func(signed string) string { old = signed; return signed } })
	attempt := upstream.NewAttempt("state")
	if _, err := s.finish(attempt); err != nil {
		t.Fatal(err)
	}
	if n := s.fake.Requests("/jwks"); n != 1 {
		t.Errorf("keys were fetched %d times for two sign-ins", n)
	}
	s.fake.Change(func(a *upstreamtest.Answers) { a.Raw = nil })
	s.fake.Rotate()
	moved.move(5 * time.Second)
	s.arrives()
	if n := s.fake.Requests("/jwks"); n != 2 {
		t.Errorf("keys were fetched %d times after one rotation", n)
	}
	s.client.Hurry()
	s.fake.Change(func(a *upstreamtest.Answers) { a.Raw = func(string) string { return old } })
	_, err := s.finish(attempt)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
}

// Many that come right after a rotation wait for one fetch, and all get in.
func TestKeyRotationForMany(t *testing.T) {
	s, moved := started(t)
	s.arrives()
	s.fake.Rotate()
	moved.move(5 * time.Second)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := s.signIn(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.fake.Requests("/jwks"); n != 2 {
		t.Errorf("keys were fetched %d times", n)
	}
}

// While the keys cannot be fetched the known ones count, for a day. What none of them signed is
// not judged then.
func TestKeysWhileTheProviderIsDown(t *testing.T) {
	s, moved := started(t)
	s.arrives()
	s.fake.Change(answerWith("/jwks", 503, ""))
	for range 5 {
		moved.move(4 * time.Hour)
		s.arrives()
	}
	s.client.Hurry()
	s.fake.Rotate()
	_, err := s.signIn()
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
	moved.move(25 * time.Hour)
	_, err = s.signIn()
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
	s.fake.Change(func(a *upstreamtest.Answers) { a.First = nil })
	s.arrives()
}

// A key that the provider took back does not count an hour later, also if nobody came meanwhile.
func TestKeyTakenBack(t *testing.T) {
	s, moved := started(t)
	s.arrives()
	old := s.fake.LogoutToken(map[string]any{"sub": "1", "iat": moved.now().Add(time.Hour).Unix(), "exp": moved.now().Add(2 * time.Hour).Unix()})
	s.fake.Rotate()
	s.client.Hurry()
	moved.move(time.Hour)
	_, err := s.client.Logout(t.Context(), old)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
}

// Key sets that cannot be right are nonsense, and blamed by name; single keys that cannot be used
// are left out.
func TestKeySets(t *testing.T) {
	public := func(t *testing.T, s signer) map[string]any {
		k := publishedKey(t, s.fake)
		data, err := k.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return decode(t, data)
	}
	for name, test := range map[string]struct {
		keys func(right map[string]any) any
		fine bool
	}{
		"others beside it": {func(right map[string]any) any {
			return []any{map[string]any{"kty": "oct", "k": "AAAA"}, map[string]any{"kty": "future"}, map[string]any{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
				map[string]any{"kty": "RSA", "n": "3q0", "e": "AQAB"}, "text", right}
		}, true},
		"without an alg":    {func(right map[string]any) any { delete(right, "alg"); return []any{right} }, true},
		"without a kid":     {func(right map[string]any) any { delete(right, "kid"); return []any{right} }, false},
		"for encryption":    {func(right map[string]any) any { right["use"] = "enc"; return []any{right} }, false},
		"of another alg":    {func(right map[string]any) any { right["alg"] = "ES384"; return []any{right} }, false},
		"none":              {func(map[string]any) any { return []any{} }, false},
		"no list":           {func(map[string]any) any { return "keys" }, false},
		"as many as can be": {func(right map[string]any) any { many := make([]any, 100); many[99] = right; return many }, true},
		"more than bound":   {func(right map[string]any) any { many := make([]any, 101); many[0] = right; return many }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.client.Hurry()
			keys := test.keys(public(t, s))
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.First = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/jwks" {
						writeJSON(w, map[string]any{"keys": keys})
					}
					return r.URL.Path == "/jwks"
				}
			})
			_, err := s.signIn()
			if (err == nil) != test.fine || !test.fine && !errors.Is(err, upstream.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}

// Metadata is fetched once for all, again each hour, and used for a day while it cannot be had.
func TestMetadataIsShared(t *testing.T) {
	const path = "/.well-known/openid-configuration"
	s, moved := started(t)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := s.client.Begin(t.Context(), upstream.NewAttempt("state")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.fake.Requests(path); n != 1 {
		t.Errorf("metadata was fetched %d times", n)
	}
	s.fake.Change(answerWith(path, 503, ""))
	moved.move(23 * time.Hour)
	s.arrives()
	moved.move(2 * time.Hour)
	s.client.Hurry()
	_, err := s.signIn()
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
}

// A failure is remembered for the pause, so that those who come then cause no further calls.
func TestMetadataFailureIsShared(t *testing.T) {
	const path = "/.well-known/openid-configuration"
	s, moved := started(t)
	s.fake.Change(answerWith(path, 503, ""))
	for range 20 {
		_, err := s.signIn()
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
	}
	if n := s.fake.Requests(path); n != 1 {
		t.Errorf("metadata was fetched %d times", n)
	}
	s.fake.Change(func(a *upstreamtest.Answers) { a.First = nil })
	moved.move(5 * time.Second)
	s.arrives()
}

// Metadata that must not be believed is refused, with what is wrong in it.
func TestMetadata(t *testing.T) {
	for name, test := range map[string]struct {
		change func(map[string]any)
		kind   error
		reason upstream.Reason
	}{
		"another issuer":        {func(m map[string]any) { m["issuer"] = "https://other.example.com" }, upstream.ErrInvalid, upstream.ReasonIssuer},
		"issuer with a slash":   {func(m map[string]any) { m["issuer"] = m["issuer"].(string) + "/" }, upstream.ErrInvalid, upstream.ReasonIssuer},
		"no issuer":             {func(m map[string]any) { delete(m, "issuer") }, upstream.ErrInvalid, upstream.ReasonIssuer},
		"token endpoint http":   {func(m map[string]any) { m["token_endpoint"] = "http://192.0.2.1/token" }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"no keys":               {func(m map[string]any) { delete(m, "jwks_uri") }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"endpoint is script":    {func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"endpoint with a state": {func(m map[string]any) { m["authorization_endpoint"] = "https://example.com/?p=x&state=y" }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"endpoint with a user":  {func(m map[string]any) { m["userinfo_endpoint"] = "https://a@example.com/" }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"endpoint is a number":  {func(m map[string]any) { m["token_endpoint"] = 1 }, upstream.ErrInvalid, upstream.ReasonNonsense},
		"only HMAC":             {func(m map[string]any) { m["id_token_signing_alg_values_supported"] = []string{"HS256"} }, upstream.ErrMisconfigured, upstream.ReasonUnsupported},
		"only TLS certificates": {func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"tls_client_auth"} }, upstream.ErrMisconfigured, upstream.ReasonUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.Change(func(a *upstreamtest.Answers) { a.Metadata = test.change })
			_, err := s.client.Begin(t.Context(), upstream.NewAttempt("state"))
			refuses(t, err, test.kind, test.reason)
			refuses(t, s.client.Check(t.Context()), test.kind, test.reason)
		})
	}
}

// A key signs with each algorithm of its kind, and an RSA key has 2048 bits at least.
func TestKeysAndAlgorithms(t *testing.T) {
	usual, _ := newRSA(t, 2048)
	weak, _ := newRSA(t, 1024)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve := func(c elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for _, tt := range []struct {
		algorithm jose.SignatureAlgorithm
		key       crypto.Signer
		fine      bool
	}{
		{jose.RS256, usual, true}, {jose.RS384, usual, true}, {jose.RS512, usual, true},
		{jose.PS256, usual, true}, {jose.PS384, usual, true}, {jose.PS512, usual, true},
		{jose.ES256, curve(elliptic.P256()), true}, {jose.ES384, curve(elliptic.P384()), true}, {jose.ES512, curve(elliptic.P521()), true},
		{jose.EdDSA, edwards, true},
		{jose.RS256, weak, false},
	} {
		s := start(t, upstream.OIDC)
		s.client.Hurry()
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.Metadata = func(m map[string]any) { delete(m, "id_token_signing_alg_values_supported") }
			a.IDToken = func(claims map[string]any) { delete(claims, "at_hash") }
			a.First = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/jwks" {
					writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: tt.key.Public(), KeyID: "k"}}})
				}
				return r.URL.Path == "/jwks"
			}
			a.Raw = func(signed string) string {
				signer, err := jose.NewSigner(jose.SigningKey{Algorithm: tt.algorithm, Key: jose.JSONWebKey{Key: tt.key, KeyID: "k"}}, nil)
				if err != nil {
					t.Error(err)
					return ""
				}
				payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(signed, ".")[1])
				again, err := signer.Sign(payload)
				if err != nil {
					t.Error(err)
					return ""
				}
				token, _ := again.CompactSerialize()
				return token
			}
		})
		if _, err := s.signIn(); (err == nil) != tt.fine || !tt.fine && !errors.Is(err, upstream.ErrInvalid) {
			t.Errorf("%s: %v", tt.algorithm, err)
		}
	}
}
