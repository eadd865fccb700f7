package middleware_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// wantVerdict verifies a token: want is nil or one of the two kinds of errors.
func wantVerdict(t testing.TB, guard *middleware.Guard, token string, want error) *middleware.Token {
	t.Helper()
	got, err := guard.Verify(t.Context(), token)
	if (got != nil) != (want == nil) || !errors.Is(err, want) {
		t.Fatalf("%v, %v; want the error %v", got, err, want)
	}
	if errors.Is(err, middleware.ErrToken) && errors.Is(err, middleware.ErrUnavailable) {
		t.Fatalf("%v is both kinds of errors", err)
	}
	if err != nil && (len(err.Error()) < len("middleware: ") || len(token) > 20 && strings.Contains(err.Error(), token)) {
		t.Fatalf("the error is %q", err)
	}
	return got
}

func TestVerify(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	token := wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, "scope": "a"}), nil)
	if token.Subject != "reader" || !token.HasScope("a") || token.Issuer != issuer.URL() {
		t.Errorf("%+v", token)
	}
	for _, broken := range issuer.Broken(resource) {
		wantVerdict(t, guard, broken.Token, middleware.ErrToken)
	}
	for _, text := range []string{"", " ", ".", "..", "Bearer x", "é", "\x00", strings.Repeat("a", 1<<20)} {
		wantVerdict(t, guard, text, middleware.ErrToken)
	}
	down := newGuard(t, issuer)
	issuer.SetDown(true)
	wantVerdict(t, down, issuer.Mint(claims{"aud": resource}), middleware.ErrUnavailable)
	wantVerdict(t, down, issuer.Mint(claims{"aud": "https://other.example.org"}), middleware.ErrToken)
	// An opaque token has a syntax, too; other texts are not looked up.
	other := middlewaretest.NewIssuer(t)
	guard = newGuard(t, other, introspects(other, opaque))
	wantVerdict(t, guard, other.MintOpaque(claims{"aud": resource}), nil)
	for _, text := range []string{"", "a b", "é", "a\r\nb", "=a", strings.Repeat("a", 8<<10+1)} {
		wantVerdict(t, guard, text, middleware.ErrToken)
	}
	wantQuestions(t, other, 1)
}

// TestEveryLetterCounts changes each letter of good tokens, with and without them in the
// cache.
func TestEveryLetterCounts(t *testing.T) {
	const letters = "Aa0_-.B~"
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA} {
		issuer := middlewaretest.NewIssuer(t)
		issuer.Rotate(algorithm)
		guard := newGuard(t, issuer)
		good := issuer.Mint(claims{"aud": resource, "iat": time.Now().Add(-time.Minute).Unix()}) // older than what is known
		wantVerdict(t, guard, good, nil)
		for i := range len(good) {
			for _, with := range letters {
				if changed := good[:i] + string(with) + good[i+1:]; changed != good {
					wantVerdict(t, guard, changed, middleware.ErrToken)
				}
			}
			wantVerdict(t, guard, good[:i]+good[i+1:], middleware.ErrToken)
			for _, with := range []string{"A", "=", "\n", "\r", " "} {
				wantVerdict(t, guard, good[:i]+with+good[i:], middleware.ErrToken)
			}
		}
		wantVerdict(t, guard, good, nil)
	}
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// input returns the part of a token that the signature covers.
func input(t testing.TB, issuer *middlewaretest.Issuer, algorithm jose.SignatureAlgorithm) string {
	t.Helper()
	now := time.Now()
	payload, err := json.Marshal(claims{"iss": issuer.URL(), "sub": "reader", "client_id": "client", "aud": resource,
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Minute).Unix(), "jti": rand.Text()})
	if err != nil {
		t.Fatal(err)
	}
	return encode([]byte(`{"alg":"`+algorithm+`","typ":"at+jwt","kid":"one"}`)) + "." + encode(payload)
}

// publish returns a new key that the issuer publishes under the id "one".
func publish(t testing.TB, issuer *middlewaretest.Issuer, algorithm jose.SignatureAlgorithm) any {
	t.Helper()
	key := middlewaretest.NewKey(t, algorithm)
	issuer.SetKeys(jose.JSONWebKey{Key: key, KeyID: "one", Algorithm: string(algorithm)})
	return key
}

// TestSignaturesES256 checks signatures with R and S in 32 bytes each, with and without leading
// zeros (RFC 7518 section 3.4).
func TestSignaturesES256(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.ES256).(*ecdsa.PrivateKey)
	guard := newGuard(t, issuer)
	text := input(t, issuer, jose.ES256)
	sum := sha256.Sum256([]byte(text))
	var shortR, shortS, highR, highS int
	for range 20_000 {
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		raw := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		shortR, shortS = shortR+zero(raw[0]), shortS+zero(raw[32])
		highR, highS = highR+int(raw[0]>>7), highS+int(raw[32]>>7)
		if zero(raw[0])+zero(raw[32]) > 0 || highR+highS < 10 {
			wantVerdict(t, guard, text+"."+encode(raw), nil)
		}
		if min(shortR, shortS, highR, highS) > 0 {
			break
		}
	}
	if min(shortR, shortS, highR, highS) == 0 {
		t.Fatalf("the signatures are all alike: %d %d %d %d", shortR, shortS, highR, highS)
	}
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	one, two, order := r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32)), key.Params().N.Bytes()
	der, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	join := func(parts ...[]byte) []byte {
		var out []byte
		for _, part := range parts {
			out = append(out, part...)
		}
		return out
	}
	wantVerdict(t, guard, text+"."+encode(join(one, two)), nil)
	for name, signature := range map[string][]byte{
		"DER":             der,
		"R alone":         one,
		"exchanged":       join(two, one),
		"R zero":          join(make([]byte, 32), two),
		"S zero":          join(one, make([]byte, 32)),
		"all zero":        make([]byte, 64),
		"R is the order":  join(order, two),
		"S is the order":  join(one, order),
		"all bits":        []byte(strings.Repeat("\xff", 64)),
		"R in 33 bytes":   join([]byte{0}, one, two),
		"S in 33 bytes":   join(one, []byte{0}, two),
		"both in 33":      join([]byte{0}, one, []byte{0}, two),
		"a byte more":     join(one, two, []byte{0}),
		"a byte less":     join(one, two)[:63],
		"twice":           join(one, two, one, two),
		"R and the order": join(new(big.Int).Mod(new(big.Int).Add(r, key.Params().N), new(big.Int).Lsh(big.NewInt(1), 256)).FillBytes(make([]byte, 32)), two),
	} {
		if _, err := guard.Verify(t.Context(), text+"."+encode(signature)); !errors.Is(err, middleware.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func zero(b byte) int {
	if b == 0 {
		return 1
	}
	return 0
}

// TestSignaturesPS256 checks the length of the salt, which must be that of the hash (RFC 7518
// section 3.5).
func TestSignaturesPS256(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.PS256).(*rsa.PrivateKey)
	guard := newGuard(t, issuer)
	text := input(t, issuer, jose.PS256)
	sum := sha256.Sum256([]byte(text))
	for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, 0, 1, 20, 31, 33, 64, rsa.PSSSaltLengthAuto} {
		signature, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: salt})
		if err != nil {
			t.Fatal(err)
		}
		want := middleware.ErrToken
		if salt == rsa.PSSSaltLengthEqualsHash {
			want = nil
		}
		wantVerdict(t, guard, text+"."+encode(signature), want)
	}
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, guard, text+"."+encode(signature), middleware.ErrToken)
}

func TestSignaturesRS256(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.RS256).(*rsa.PrivateKey)
	guard := newGuard(t, issuer)
	text := input(t, issuer, jose.RS256)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := rsa.SignPKCS1v15(nil, key, 0, sum[:]) // without the name of the hash
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, guard, text+"."+encode(signature), nil)
	for _, wrong := range [][]byte{other, bare, signature[1:], signature[:255], append([]byte{0}, signature...), append(signature[:256:256], 0), make([]byte, 256), []byte(strings.Repeat("\xff", 256))} {
		wantVerdict(t, guard, text+"."+encode(wrong), middleware.ErrToken)
	}
}

func TestSignaturesEdDSA(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.EdDSA).(ed25519.PrivateKey)
	guard := newGuard(t, issuer)
	text := input(t, issuer, jose.EdDSA)
	signature := ed25519.Sign(key, []byte(text))
	wantVerdict(t, guard, text+"."+encode(signature), nil)
	sum := sha256.Sum256([]byte(text))
	for _, wrong := range [][]byte{ed25519.Sign(key, sum[:]), signature[:63], append(signature[:64:64], 0), make([]byte, 64), addOrder(signature)} {
		wantVerdict(t, guard, text+"."+encode(wrong), middleware.ErrToken)
	}
}

// addOrder adds the order of the group to the second half of an Ed25519 signature, which
// only a careless check accepts (RFC 8032 section 5.1.7).
func addOrder(signature []byte) []byte {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	out := append([]byte(nil), signature...)
	s := new(big.Int)
	for i := 63; i >= 32; i-- {
		s.Lsh(s, 8).Or(s, big.NewInt(int64(out[i])))
	}
	s.Add(s, order)
	for i := 32; i < 64; i++ {
		out[i] = byte(s.Uint64())
		s.Rsh(s, 8)
	}
	return out
}

// TestHeadersAreRemembered checks that the cache of headers changes no result, also with more
// headers than it holds.
func TestHeadersAreRemembered(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.EdDSA).(ed25519.PrivateKey)
	guard := newGuard(t, issuer, uncached)
	mint := func(header string) string {
		_, payload, _ := strings.Cut(input(t, issuer, jose.EdDSA), ".")
		text := encode([]byte(header)) + "." + payload
		return text + "." + encode(ed25519.Sign(key, []byte(text)))
	}
	for n := range 40 {
		header := fmt.Sprintf(`{"alg":"EdDSA","typ":"at+jwt","kid":"one","n":%d}`, n)
		for range 3 {
			wantVerdict(t, guard, mint(header), nil)
			wantVerdict(t, guard, mint(strings.Replace(header, "at+jwt", "JWT", 1)), middleware.ErrToken)
			wantVerdict(t, guard, mint(strings.Replace(header, "one", "two", 1)), middleware.ErrToken)
		}
	}
	// The same header, and a key that its issuer withdrew.
	old := mint(`{"alg":"EdDSA","typ":"at+jwt","kid":"one"}`)
	wantVerdict(t, guard, old, nil)
	publish(t, issuer, jose.EdDSA)
	wantVerdict(t, newGuard(t, issuer, uncached), old, middleware.ErrToken)
}

// wraps returns a number that equals n modulo 2^64.
func wraps(n int64) string {
	return new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 64), big.NewInt(n)).String()
}

// TestClaimsInAnySpelling checks that the claims do not depend on the spelling of their JSON.
func TestClaimsInAnySpelling(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := publish(t, issuer, jose.EdDSA).(ed25519.PrivateKey)
	guard := newGuard(t, issuer)
	now := time.Now().Unix()
	plain := fmt.Sprintf(`{"iss":%q,"sub":"reader","client_id":"client","aud":%q,"scope":"a b","iat":%d,"exp":%d,"jti":"one"}`, issuer.URL(), resource, now, now+60)
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(plain) }
	more := func(member string) string { return strings.TrimSuffix(plain, "}") + "," + member + "}" }
	for name, tt := range map[string]struct {
		payload string
		good    bool
	}{
		"plain":                   {plain, true},
		"with space":              {replace(",", " ,\n\t", ":\"", " : \"", "{", "\r\n{ ", "}", " } "), true},
		"an array":                {replace(`"`+resource+`"`, `[ "x" , "`+resource+`"]`), true},
		"escapes":                 {replace("reader", `re\u0061der`, "sub", `s\u0075b`), true},
		"escaped slashes":         {replace("/", `\/`), true},
		"a fraction":              {replace(fmt.Sprint(now+60), fmt.Sprint(now+60)+".0"), true},
		"an exponent":             {replace(fmt.Sprint(now+60), "4e9"), true},
		"other members":           {more(`"a":true,"b":false,"c":null,"d":1,"e":"x","f":["x","y"]`), true},
		"nested members":          {more(`"a":{"b":[{"sub":"other"},[[]]]},"c":-1.5e-7,"d":[],"e":{}`), true},
		"outside ASCII":           {more(`"name":"Zoë"`), true},
		"other case":              {more(`"Sub":"other","SUB":"other"`), true},
		"many members":            {more(`"m0":9,"m1":1,"m2":2,"m3":3,"m4":4,"m5":5,"m6":6,"m7":7,"m8":8,"m9":9,"n0":9,"n1":1,"n2":2,"n3":3,"n4":4,"n5":5,"n6":6`), true},
		"twice":                   {more(`"sub":"reader"`), false},
		"twice, escaped":          {more(`"s\u0075b":"other"`), false},
		"twice, of no use":        {more(`"a":1,"a":1`), false},
		"twice among many":        {more(`"m0":9,"m1":1,"m2":2,"m3":3,"m4":4,"m5":5,"m6":6,"m7":7,"m8":8,"m9":9,"n0":9,"n1":1,"n2":2,"n3":3,"n4":4,"n5":5,"n6":6,"sub":"other"`), false},
		"twice, after many":       {more(`"m0":9,"m1":1,"m2":2,"m3":3,"m4":4,"m5":5,"m6":6,"m7":7,"m8":8,"m9":9,"n0":9,"n1":1,"n2":2,"n3":3,"n4":4,"n5":5,"n6":6,"n6":6`), false},
		"twice, nested":           {more(`"sub":{"a":1}`), false},
		"nothing after a comma":   {strings.TrimSuffix(plain, "}") + ",}", false},
		"more after the end":      {plain + "x", false},
		"an object after it":      {plain + "{}", false},
		"not closed":              {strings.TrimSuffix(plain, "}"), false},
		"no quotes":               {replace(`"sub"`, "sub"), false},
		"single quotes":           {replace(`"sub"`, "'sub'"), false},
		"a line break in it":      {replace("reader", "rea\nder"), false},
		"a bad escape":            {replace("reader", `rea\xder`), false},
		"a string not closed":     {replace(`"reader",`, `"reader,`), false},
		"a number with zeros":     {replace(fmt.Sprint(now+60), "0"+fmt.Sprint(now+60)), false},
		"a number with a plus":    {replace(fmt.Sprint(now+60), "+"+fmt.Sprint(now+60)), false},
		"a hexadecimal number":    {replace(fmt.Sprint(now+60), "0xffffffff"), false},
		"a negative number":       {replace(fmt.Sprint(now+60), "-"+fmt.Sprint(now+60)), false},
		"a very long number":      {replace(fmt.Sprint(now+60), strings.Repeat("9", 400)), false},
		"a number that wraps":     {replace(fmt.Sprint(now+60), wraps(now+60)), false},
		"sixteen digits":          {replace(fmt.Sprint(now+60), "1000000000000000"), false},
		"an array not closed":     {replace(`"`+resource+`"`, `["`+resource+`"`), false},
		"an array with a comma":   {replace(`"`+resource+`"`, `["`+resource+`",]`), false},
		"an array with no comma":  {replace(`"`+resource+`"`, `["`+resource+`" "x"]`), false},
		"an array with a number":  {replace(`"`+resource+`"`, `["`+resource+`",1]`), false},
		"a comment":               {replace(`"sub"`, `/**/"sub"`), false},
		"a byte order mark":       {"\ufeff" + plain, false},
		"a literal in other case": {more(`"a":True`), false},
		"a literal and more":      {more(`"a":truex`), false},
		"two commas":              {replace(`,"sub"`, `,,"sub"`), false},
		"a semicolon":             {replace(`,"sub"`, `;"sub"`), false},
	} {
		header, _, _ := strings.Cut(input(t, issuer, jose.EdDSA), ".")
		text := header + "." + encode([]byte(tt.payload))
		token, err := guard.Verify(t.Context(), text+"."+encode(ed25519.Sign(key, []byte(text))))
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (token.Subject != "reader" || token.ClientID != "client" || token.ID != "one" || !token.HasScope("a", "b")) {
			t.Errorf("%s: %+v", name, token)
		}
	}
}
