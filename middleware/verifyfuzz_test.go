package middleware_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv1 "github.com/go-jose/go-jose/v4/json"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// signer signs tokens, and verifies them with go-jose for comparison.
type signer struct {
	issuer *middlewaretest.Issuer
	key    ed25519.PrivateKey
}

func newSigner(t testing.TB) signer {
	issuer := middlewaretest.NewIssuer(t)
	return signer{issuer, publish(t, issuer, jose.EdDSA).(ed25519.PrivateKey)}
}

func (s signer) sign(header, payload string) string {
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	return text + "." + encode(ed25519.Sign(s.key, []byte(text)))
}

// payload returns the payload of a token by go-jose, which must verify it.
func (s signer) payload(t *testing.T, token string) string {
	t.Helper()
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatalf("%q is accepted, and go-jose says %v", token, err)
	}
	payload, err := jws.Verify(s.key.Public())
	if err != nil {
		t.Fatalf("%q is accepted, and go-jose says %v", token, err)
	}
	return string(payload)
}

// readAs compares a token with the members of a JSON object as a general decoder reads them. It
// refuses a name that occurs twice.
func readAs(t *testing.T, text string, token *middleware.Token, issuer string) {
	t.Helper()
	var m map[string]any
	general := jsonv1.NewDecoder(strings.NewReader(text))
	general.UseNumber() // of any size
	if err := general.Decode(&m); err != nil || general.Decode(new(any)) != io.EOF {
		t.Fatalf("%q is accepted: %v", text, err)
	}
	member := func(name string) string { s, _ := m[name].(string); return s }
	var aud []string
	switch value := m["aud"].(type) {
	case string:
		aud = []string{value}
	case []any:
		for _, v := range value {
			s, _ := v.(string)
			aud = append(aud, s)
		}
	}
	number, _ := m["exp"].(jsonv1.Number)
	exp, _ := number.Float64()
	scopes := slices.DeleteFunc(strings.Split(member("scope"), " "), func(s string) bool { return !metadata.ValidScope(s) })
	switch {
	case token.Issuer != issuer || member("iss") != issuer && m["iss"] != nil && m["iss"] != "",
		token.Subject != member("sub") || token.Subject == "",
		token.ClientID != member("client_id") || token.ClientID == "",
		token.ID != member("jti"),
		!slices.Equal(token.Scopes, scopes),
		!slices.Equal(token.Audience, aud) || !slices.ContainsFunc(aud, names),
		token.Expiry.Unix() != int64(exp) || token.Expiry.Before(time.Now().Add(-11*time.Second)):
		t.Fatalf("%q is read as %+v", text, token)
	}
}

// names reports whether a value of "aud" names the resource, perhaps in another spelling.
func names(aud string) bool {
	return strings.EqualFold(strings.Replace(aud, ":443/", "/", 1), resource)
}

// FuzzClaims checks that an accepted token has the claims that a general decoder reads.
func FuzzClaims(f *testing.F) {
	s := newSigner(f)
	guard := newGuard(f, s.issuer, uncached)
	now := time.Now().Unix()
	const header = `{"alg":"EdDSA","typ":"at+jwt","kid":"one"}`
	good := fmt.Sprintf(`{"iss":%q,"sub":"reader","client_id":"client","aud":%q,"scope":"a b","iat":%d,"exp":%d,"nbf":1}`, s.issuer.URL(), resource, now, now+3600)
	if _, err := guard.Verify(f.Context(), s.sign(header, good)); err != nil {
		f.Fatal(err)
	}
	for _, change := range []string{``, `,"sub":"x"`, `,"s\u0075b":"x"`, `,"a":{"sub":["x"]}`, `,"a":[1,2`, ` `, `,"a":null,"b":"é"`, `,"aud":[]`, `,"exp":1e10`, `,"jti":"\ud800"`} {
		f.Add(change, uint(len(good)-1), uint(0))
		f.Add(change, uint(1), uint(3))
	}
	f.Fuzz(func(t *testing.T, change string, at, cut uint) {
		from := int(at % uint(len(good)+1))
		to := min(from+int(cut%16), len(good))
		payload := good[:from] + change + good[to:]
		token := s.sign(header, payload)
		got, err := guard.Verify(t.Context(), token)
		if err != nil {
			if len(token) < 8<<10 && !errors.Is(err, middleware.ErrToken) {
				t.Fatalf("%q: %v", payload, err)
			}
			return
		}
		if s.payload(t, token) != payload {
			t.Fatalf("%q is accepted, and go-jose reads another payload", payload)
		}
		readAs(t, payload, got, s.issuer.URL())
	})
}

// FuzzHeader checks that a token with an accepted header is valid by go-jose, is an access token,
// and has no extensions.
func FuzzHeader(f *testing.F) {
	s := newSigner(f)
	guard := newGuard(f, s.issuer, uncached)
	now := time.Now().Unix()
	payload := fmt.Sprintf(`{"iss":%q,"sub":"reader","client_id":"client","aud":%q,"iat":%d,"exp":%d}`, s.issuer.URL(), resource, now, now+3600)
	const good = `{"alg":"EdDSA","typ":"at+jwt","kid":"one"}`
	if _, err := guard.Verify(f.Context(), s.sign(good, payload)); err != nil {
		f.Fatal(err)
	}
	for _, header := range []string{good, `{}`, `{"alg":"none"}`, `{"alg":"EdDSA","typ":"AT+JWT","kid":"one","x":[1]}`,
		`{"alg":"EdDSA","typ":"at+jwt","kid":"one","crit":["b64"],"b64":false}`, ` {"alg" : "EdDSA","typ":"application\/at+jwt","kid":"one"} `,
		`{"alg":"EdDSA","alg":"EdDSA","typ":"at+jwt","kid":"one"}`, `{"alg":"EdDSA","typ":"at+jwt","kid":"one","jwk":null}`, `{"alg":"EdDSA","typ":"at+jwt"}`, `{"alg":"EdDSA","typ":"at+jwt","kid":"one"}x`} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token := s.sign(header, payload)
		if _, err := guard.Verify(t.Context(), token); err != nil {
			return
		}
		if s.payload(t, token) != payload {
			t.Fatalf("%q is accepted, and go-jose reads another payload", header)
		}
		var m map[string]any
		if err := jsonv1.Unmarshal([]byte(header), &m); err != nil {
			t.Fatalf("%q is accepted: %v", header, err)
		}
		kind, _ := m["typ"].(string)
		named := m["kid"] == "one" || m["kid"] == "" || m["kid"] == nil // the issuer has one key
		if m["alg"] != "EdDSA" || !named || strings.TrimPrefix(strings.ToLower(kind), "application/") != "at+jwt" {
			t.Fatalf("%q is accepted", header)
		}
		for _, extension := range []string{"crit", "b64", "zip", "jwk", "jku", "x5u", "x5c"} {
			if m[extension] != nil {
				t.Fatalf("%q is accepted", header)
			}
		}
	})
}

// FuzzAnswer checks that a token is accepted only if a general decoder reads in the introspection
// response that it is active, and for whom, and that only those claims are used.
func FuzzAnswer(f *testing.F) {
	issuer := middlewaretest.NewIssuer(f)
	var said string
	transport := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(said))}, nil
	})
	guard := newGuard(f, issuer, uncached, introspects(issuer, opaque, func(i *middleware.Introspection) {
		i.Endpoint, i.Fresh = issuer.URL()+introspectPath, time.Nanosecond
	}), func(c *middleware.Config) { c.Client = &http.Client{Transport: transport} })
	for _, tt := range answerTable(issuer.URL()) {
		f.Add(tt.text)
	}
	for _, text := range notAnswers() {
		f.Add(text)
	}
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		said = text
		n++
		got, err := guard.Verify(t.Context(), fmt.Sprintf("token-%d", n))
		if err != nil {
			if errors.Is(err, middleware.ErrToken) == errors.Is(err, middleware.ErrUnavailable) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		readAs(t, text, got, issuer.URL())
		var m map[string]any
		if err := jsonv1.Unmarshal([]byte(text), &m); err != nil || m["active"] != true {
			t.Fatalf("%q is accepted", text)
		}
	})
}
