package upstream_test

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// Each ID token with something wrong in it is refused, for the reason that it has.
func TestIDTokens(t *testing.T) {
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, test := range map[string]struct {
		change func(map[string]any)
		reason upstream.Reason // empty: accepted
	}{
		"as it is":                   {func(map[string]any) {}, ""},
		"wrong nonce":                {set("nonce", "of another sign-in"), upstream.ReasonNonce},
		"no nonce":                   {func(c map[string]any) { delete(c, "nonce") }, upstream.ReasonNonce},
		"nonce is a list":            {func(c map[string]any) { c["nonce"] = []any{c["nonce"]} }, upstream.ReasonToken},
		"nonce in capitals only":     {func(c map[string]any) { c["NONCE"] = c["nonce"]; delete(c, "nonce") }, upstream.ReasonNonce},
		"wrong issuer":               {set("iss", "https://other.example.com"), upstream.ReasonIssuer},
		"issuer with a slash":        {func(c map[string]any) { c["iss"] = c["iss"].(string) + "/" }, upstream.ReasonIssuer},
		"wrong audience":             {set("aud", "another"), upstream.ReasonToken},
		"no audience":                {set("aud", []string{}), upstream.ReasonToken},
		"audience in capitals only":  {func(c map[string]any) { c["AUD"] = c["aud"]; delete(c, "aud") }, upstream.ReasonToken},
		"auth_time is zero":          {set("auth_time", 0), upstream.ReasonToken},
		"auth_time never comes":      {set("auth_time", 1<<40), upstream.ReasonToken},
		"auth_time is text":          {set("auth_time", "yesterday"), upstream.ReasonToken},
		"two audiences":              {set("aud", []string{upstreamtest.ClientID, "another"}), upstream.ReasonToken},
		"two audiences, azp another": {func(c map[string]any) { c["aud"], c["azp"] = []string{upstreamtest.ClientID, "another"}, "another" }, upstream.ReasonToken},
		"two audiences, azp us": {func(c map[string]any) {
			c["aud"], c["azp"] = []string{upstreamtest.ClientID, "another"}, upstreamtest.ClientID
		}, ""},
		"azp another":                  {set("azp", "another"), upstream.ReasonToken},
		"expired":                      {set("exp", in(-61*time.Second)), upstream.ReasonExpired},
		"expired within the leeway":    {set("exp", in(-50*time.Second)), ""},
		"no exp":                       {func(c map[string]any) { delete(c, "exp") }, upstream.ReasonExpired},
		"exp is text":                  {set("exp", "tomorrow"), upstream.ReasonToken},
		"from the future":              {set("iat", in(70*time.Second)), upstream.ReasonExpired},
		"no iat":                       {func(c map[string]any) { delete(c, "iat") }, upstream.ReasonToken},
		"not yet":                      {set("nbf", in(70*time.Second)), upstream.ReasonExpired},
		"another access token":         {set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), upstream.ReasonToken},
		"no at_hash":                   {func(c map[string]any) { delete(c, "at_hash") }, ""},
		"no sub":                       {set("sub", ""), upstream.ReasonPerson},
		"sub with a line break":        {set("sub", "1\n"), upstream.ReasonPerson},
		"sub too long":                 {set("sub", strings.Repeat("1", 256)), upstream.ReasonPerson},
		"sub is a number":              {set("sub", 1), upstream.ReasonToken},
		"sub of another than userinfo": {set("sub", "2"), upstream.ReasonPerson},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.IDToken = test.change
				if test.reason == upstream.ReasonPerson && !strings.Contains(name, "another") {
					a.Userinfo = test.change
				}
			})
			_, err := s.signIn()
			if test.reason != "" {
				refuses(t, err, upstream.ErrInvalid, test.reason)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// rawSigned makes a token by hand.
func rawSigned(header map[string]any, payload string, sign func(signed string) []byte) string {
	head, _ := json.Marshal(header)
	text := base64.RawURLEncoding.EncodeToString(head) + "." + payload
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(text))
}

// publishedKey returns the provider's public key, as anybody can get it.
func publishedKey(t *testing.T, fake *upstreamtest.Provider) jose.JSONWebKey {
	t.Helper()
	answer, err := http.Get(fake.URL() + "/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	return set.Keys[0]
}

// A token without a signature, or with one that anybody can make with the public key, is refused,
// and no key is fetched for it: its algorithm says enough.
func TestAlgorithms(t *testing.T) {
	for name, forge := range map[string]func(public jose.JSONWebKey, payload string) string{
		"none": func(public jose.JSONWebKey, payload string) string {
			return rawSigned(map[string]any{"alg": "none", "kid": public.KeyID}, payload, func(string) []byte { return nil })
		},
		"NONE": func(public jose.JSONWebKey, payload string) string {
			return rawSigned(map[string]any{"alg": "NONE", "kid": public.KeyID}, payload, func(string) []byte { return nil })
		},
		"HS256 with the public key": func(public jose.JSONWebKey, payload string) string {
			point, err := public.Key.(*ecdsa.PublicKey).Bytes()
			if err != nil {
				t.Fatal(err)
			}
			return rawSigned(map[string]any{"alg": "HS256", "kid": public.KeyID}, payload, func(signed string) []byte {
				mac := hmac.New(sha256.New, point)
				mac.Write([]byte(signed))
				return mac.Sum(nil)
			})
		},
		"HS256 with the secret": func(public jose.JSONWebKey, payload string) string {
			return rawSigned(map[string]any{"alg": "HS256"}, payload, func(signed string) []byte {
				mac := hmac.New(sha256.New, []byte(upstreamtest.ClientSecret))
				mac.Write([]byte(signed))
				return mac.Sum(nil)
			})
		},
		"two dots": func(jose.JSONWebKey, string) string { return ".." },
		"huge":     func(_ jose.JSONWebKey, payload string) string { return payload + strings.Repeat("A", 300<<10) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			public := publishedKey(t, s.fake)
			s.fake.Change(func(a *upstreamtest.Answers) {
				// A provider that says it uses everything changes nothing.
				a.Metadata = func(m map[string]any) {
					m["id_token_signing_alg_values_supported"] = []string{"none", "HS256", "ES256"}
				}
				a.Raw = func(signed string) string { return forge(public, strings.Split(signed, ".")[1]) }
			})
			_, err := s.signIn()
			refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
			if s.fake.Requests("/jwks") > 1 { // one is the test's
				t.Error("keys were fetched for it")
			}
		})
	}
}

// A token of another type than Bearer is not used as one, and one that fits in no header is none.
func TestAccessTokens(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"another type":  func(m map[string]any) { m["token_type"] = "DPoP" },
		"no type":       func(m map[string]any) { delete(m, "token_type") },
		"no token":      func(m map[string]any) { delete(m, "access_token") },
		"a line break":  func(m map[string]any) { m["access_token"] = "a\r\nb" },
		"a space":       func(m map[string]any) { m["access_token"] = "a b" },
		"an accent":     func(m map[string]any) { m["access_token"] = "\u00e9" },
		"a long one":    func(m map[string]any) { m["access_token"] = strings.Repeat("a", 64<<10+1) },
		"a long other":  func(m map[string]any) { m["refresh_token"] = strings.Repeat("r", 16<<10+1) },
		"only capitals": func(m map[string]any) { m["ACCESS_TOKEN"] = m["access_token"]; delete(m, "access_token") },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.Change(func(a *upstreamtest.Answers) { a.Token = change })
			_, err := s.signIn()
			refuses(t, err, upstream.ErrInvalid, upstream.ReasonNonsense)
		})
	}
	s := start(t, upstream.OIDC)
	s.fake.Change(func(a *upstreamtest.Answers) { a.Token = func(m map[string]any) { delete(m, "id_token") } })
	_, err := s.signIn()
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(claims map[string]any) { delete(claims, "at_hash") }
		a.Token = func(m map[string]any) {
			m["access_token"], m["refresh_token"] = strings.Repeat("~", 64<<10), strings.Repeat("r", 16<<10)
		}
	})
	_, err = s.signIn()
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonPerson) // it was used: userinfo does not know it
}

// A token of the provider counts in the compact form only, and only if it is not too long.
func TestTokenForm(t *testing.T) {
	flattened := func(before string) func(string) string {
		return func(signed string) string {
			part := strings.Split(signed, ".")
			return before + `{"protected":"` + part[0] + `","payload":"` + part[1] + `","signature":"` + part[2] + `","dots":".."}`
		}
	}
	for name, test := range map[string]struct {
		form    func(signed string) string
		padding int
		fine    bool
	}{
		"compact":              {func(signed string) string { return signed }, 0, true},
		"JSON":                 {flattened(""), 0, false},
		"JSON behind a space":  {flattened(" "), 0, false},
		"with a line break":    {func(signed string) string { return signed + "\n" }, 0, false},
		"long":                 {func(signed string) string { return signed }, 190 << 10, true},
		"longer than is taken": {func(signed string) string { return signed }, 194 << 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.Raw = test.form
				a.IDToken = func(claims map[string]any) { claims["padding"] = strings.Repeat("x", test.padding) }
			})
			_, err := s.signIn()
			_, ended := s.client.Logout(t.Context(), test.form(s.fake.LogoutToken(map[string]any{"sub": "1", "padding": strings.Repeat("x", test.padding)})))
			if test.fine {
				if err != nil || ended != nil {
					t.Errorf("sign-in %v, logout %v", err, ended)
				}
				return
			}
			refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
			refuses(t, ended, upstream.ErrInvalid, upstream.ReasonLogoutToken)
		})
	}
}

// The clocks of provider and server may differ by a minute, and no more; and what max_age allows is
// counted to the second.
func TestLimitsOfTime(t *testing.T) {
	now, hour := time.Now().Truncate(time.Second), time.Hour
	for name, test := range map[string]struct {
		claim  string
		at     time.Duration // from now
		reason upstream.Reason
	}{
		"just valid":    {"exp", -time.Minute + time.Second, ""},
		"just over":     {"exp", -time.Minute, upstream.ReasonExpired},
		"just issued":   {"iat", time.Minute, ""},
		"not issued":    {"iat", time.Minute + time.Second, upstream.ReasonExpired},
		"begins now":    {"nbf", time.Minute, ""},
		"begins later":  {"nbf", time.Minute + time.Second, upstream.ReasonExpired},
		"just in time":  {"auth_time", -hour - time.Minute, ""},
		"just too late": {"auth_time", -hour - time.Minute - time.Second, upstream.ReasonAge},
	} {
		t.Run(name, func(t *testing.T) {
			fake := upstreamtest.New(t)
			fake.Now = func() time.Time { return now }
			s := startWith(t, fake, upstream.OIDC, upstream.Options{Now: fake.Now})
			fake.Change(func(a *upstreamtest.Answers) {
				a.IDToken = func(claims map[string]any) { claims[test.claim] = now.Add(test.at).Unix() }
			})
			attempt := upstream.NewAttempt("state")
			attempt.MaxAge = &hour
			_, err := s.finish(attempt)
			switch kind := upstream.ErrInvalid; {
			case test.reason == upstream.ReasonAge:
				refuses(t, err, upstream.ErrDenied, test.reason)
			case test.reason != "":
				refuses(t, err, kind, test.reason)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// A claim that is there twice is refused: readers differ in which one counts.
func TestClaimsTwice(t *testing.T) {
	s := start(t, upstream.OIDC)
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(claims map[string]any) {
			claims["twice"] = json.RawMessage(`{"email_verified":false,"email_verified":true}`)
		}
	})
	_, err := s.signIn()
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
}

// max_age and prompt=login are sent, and what comes back is held to them.
func TestRecentSignIn(t *testing.T) {
	hour := time.Hour
	for name, test := range map[string]struct {
		ask      func(*upstream.Attempt)
		signedIn any
		refused  bool
	}{
		"max_age, recent":        {func(a *upstream.Attempt) { a.MaxAge = &hour }, time.Now().Add(-time.Hour).Unix(), false},
		"max_age, long ago":      {func(a *upstream.Attempt) { a.MaxAge = &hour }, time.Now().Add(-2 * time.Hour).Unix(), true},
		"max_age, not said":      {func(a *upstream.Attempt) { a.MaxAge = &hour }, nil, true},
		"prompt=login, now":      {func(a *upstream.Attempt) { a.ForceLogin = true }, time.Now().Unix(), false},
		"prompt=login, before":   {func(a *upstream.Attempt) { a.ForceLogin = true }, time.Now().Add(-hour).Unix(), true},
		"nothing asked, before":  {func(*upstream.Attempt) {}, time.Now().Add(-hour).Unix(), false},
		"nothing asked or said":  {func(*upstream.Attempt) {}, nil, false},
		"prompt=login, not said": {func(a *upstream.Attempt) { a.ForceLogin = true }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.IDToken = func(claims map[string]any) { claims["auth_time"] = test.signedIn }
			})
			attempt := upstream.NewAttempt("state")
			test.ask(&attempt)
			_, err := s.finish(attempt)
			if test.refused {
				refuses(t, err, upstream.ErrDenied, upstream.ReasonAge)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
