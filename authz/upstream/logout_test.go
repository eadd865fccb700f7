package upstream_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

func decode(t *testing.T, data []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// Every check of OpenID Connect Back-Channel Logout 1.0 section 2.6 that needs no memory.
func TestLogout(t *testing.T) {
	const event = "http://schemas.openid.net/event/backchannel-logout"
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, test := range map[string]struct {
		claims map[string]any
		reason upstream.Reason // empty: accepted
	}{
		"sub":                  {map[string]any{"sub": "1"}, ""},
		"sid":                  {map[string]any{"sid": "s"}, ""},
		"both":                 {map[string]any{"sub": "1", "sid": "s"}, ""},
		"neither":              {nil, upstream.ReasonLogoutToken},
		"sub is empty":         {map[string]any{"sub": "", "sid": "s"}, upstream.ReasonLogoutToken},
		"sid is empty":         {map[string]any{"sub": "1", "sid": ""}, upstream.ReasonLogoutToken},
		"sub is a line":        {map[string]any{"sub": "1\n", "sid": "s"}, upstream.ReasonLogoutToken},
		"another event, bad":   {map[string]any{"sub": "1", "events": map[string]any{event: map[string]any{}, "other": true}}, upstream.ReasonLogoutToken},
		"events in capitals":   {map[string]any{"sub": "1", "events": nil, "EVENTS": map[string]any{event: map[string]any{}}}, upstream.ReasonLogoutToken},
		"nothing in capitals":  {map[string]any{"SUB": "1"}, upstream.ReasonLogoutToken},
		"no jti, in capitals":  {map[string]any{"sub": "1", "jti": nil, "JTI": "j"}, upstream.ReasonLogoutToken},
		"jti too long":         {map[string]any{"sub": "1", "jti": strings.Repeat("j", 256)}, upstream.ReasonLogoutToken},
		"sub is a number":      {map[string]any{"sub": 1, "sid": "s"}, upstream.ReasonLogoutToken},
		"nonce":                {map[string]any{"sub": "1", "nonce": "n"}, upstream.ReasonLogoutToken},
		"nonce is null":        {map[string]any{"sub": "1", "nonce": json.RawMessage("null")}, upstream.ReasonLogoutToken},
		"no event":             {map[string]any{"sub": "1", "events": nil}, upstream.ReasonLogoutToken},
		"another event":        {map[string]any{"sub": "1", "events": map[string]any{"https://example.com/event": map[string]any{}}}, upstream.ReasonLogoutToken},
		"event is no object":   {map[string]any{"sub": "1", "events": map[string]any{event: true}}, upstream.ReasonLogoutToken},
		"event is null":        {map[string]any{"sub": "1", "events": map[string]any{event: nil}}, upstream.ReasonLogoutToken},
		"no jti":               {map[string]any{"sub": "1", "jti": nil}, upstream.ReasonLogoutToken},
		"another issuer":       {map[string]any{"sub": "1", "iss": "https://other.example.com"}, upstream.ReasonIssuer},
		"another audience":     {map[string]any{"sub": "1", "aud": "another"}, upstream.ReasonLogoutToken},
		"us among audiences":   {map[string]any{"sub": "1", "aud": []string{"another", upstreamtest.ClientID}}, ""},
		"expired":              {map[string]any{"sub": "1", "exp": in(-70 * time.Second)}, upstream.ReasonLogoutToken},
		"no exp":               {map[string]any{"sub": "1", "exp": nil}, upstream.ReasonLogoutToken},
		"no iat":               {map[string]any{"sub": "1", "iat": nil}, upstream.ReasonLogoutToken},
		"from the future":      {map[string]any{"sub": "1", "iat": in(90 * time.Second)}, upstream.ReasonLogoutToken},
		"long ago, long valid": {map[string]any{"sub": "1", "iat": in(-2 * time.Hour), "exp": in(time.Hour)}, upstream.ReasonLogoutToken},
		"valid for years":      {map[string]any{"sub": "1", "exp": in(9000 * time.Hour)}, ""},
		"sid too long":         {map[string]any{"sid": strings.Repeat("s", 256)}, upstream.ReasonLogoutToken},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			r, err := s.client.Logout(t.Context(), s.fake.LogoutToken(test.claims))
			if test.reason != "" {
				refuses(t, err, upstream.ErrInvalid, test.reason)
				return
			}
			sub, _ := test.claims["sub"].(string)
			sid, _ := test.claims["sid"].(string)
			if err != nil || r.Issuer != s.fake.URL() || r.Subject != sub || r.SID != sid || r.JTI == "" {
				t.Errorf("logout %+v, %v", r, err)
			}
			if left := time.Until(r.Expires); left < time.Minute || left > time.Hour+2*time.Minute {
				t.Errorf("it counts for %s", left)
			}
		})
	}
}

// A logout token counts for as long as its exp says, but for an hour at most; the time of both may
// differ by a minute.
func TestLogoutTimes(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	fake := upstreamtest.New(t)
	fake.Now = func() time.Time { return now }
	s := startWith(t, fake, upstream.OIDC, upstream.Options{Now: fake.Now})
	for _, test := range []struct{ iat, exp, ends time.Duration }{
		{0, 2 * time.Minute, 3 * time.Minute},
		{0, 2 * time.Hour, 61 * time.Minute},
		{-time.Hour, time.Hour, time.Minute},
		{-time.Hour - time.Second, time.Hour, 0},
		{0, -time.Minute, 0},
	} {
		r, err := s.client.Logout(t.Context(), fake.LogoutToken(map[string]any{"sub": "1", "iat": now.Add(test.iat).Unix(), "exp": now.Add(test.exp).Unix()}))
		if test.ends == 0 {
			refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
		} else if err != nil || !r.Expires.Equal(now.Add(test.ends)) {
			t.Errorf("issued %s, ends %s: %+v, %v", test.iat, test.exp, r, err)
		}
	}
}

// At Entra a logout token has the issuer of the tenant, which is part of who ends; tid it need not
// have.
func TestLogoutOfTenant(t *testing.T) {
	s := start(t, upstream.Entra)
	issuer := s.fake.URL() + "/" + upstreamtest.Tenant + "/v2.0"
	a := s.arrives()
	r, err := s.client.Logout(t.Context(), s.fake.LogoutToken(map[string]any{"iss": issuer, "sub": "1"}))
	if err != nil || r.Issuer != issuer || r.Issuer != a.Issuer {
		t.Errorf("logout %+v, %v, of %+v", r, err, a)
	}
}

// An ID token or access token is no logout token, nor is one that another key signed.
func TestNotLogoutTokens(t *testing.T) {
	s := start(t, upstream.OIDC)
	var id string
	s.fake.Change(func(a *upstreamtest.Answers) { a.Raw = func(signed string) string { id = signed; return signed } })
	s.arrives()
	_, err := s.client.Logout(t.Context(), id)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
	claims := map[string]any{"iss": s.fake.URL(), "aud": upstreamtest.ClientID, "sub": "1", "jti": "j", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
	for typ, fine := range map[string]bool{"at+jwt": false, "dpop+jwt": false, "JWT": true, "application/logout+jwt": true, "": true} {
		header := map[string]any{"typ": typ}
		if typ == "" {
			header = map[string]any{}
		}
		if _, err := s.client.Logout(t.Context(), s.fake.Sign(claims, header)); (err == nil) != fine {
			t.Errorf("typ %q: %v", typ, err)
		}
	}
	s.client.Hurry()
	other := upstreamtest.New(t)
	_, err = s.client.Logout(t.Context(), other.Sign(claims, map[string]any{}))
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
	for _, token := range []string{"", "..", "a.b.c", strings.Repeat("a", 300<<10)} {
		_, err = s.client.Logout(t.Context(), token)
		refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
	}
	_, err = start(t, upstream.GitHub).client.Logout(t.Context(), id)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonNoLogout)
}

// Tokens of strangers make the provider's keys be fetched once per pause, not once each. One that
// the provider signed with a new key counts as soon as the keys may be fetched.
func TestLogoutTokensOfStrangers(t *testing.T) {
	s, moved := started(t)
	s.arrives()
	other := upstreamtest.New(t)
	known := publishedKey(t, s.fake).KeyID
	before := s.fake.Requests("/jwks")
	for range 20 {
		// The key has a known name, so there is nothing to wait for.
		_, err := s.client.Logout(t.Context(), other.Sign(map[string]any{"iss": s.fake.URL()}, map[string]any{"kid": known}))
		refuses(t, err, upstream.ErrInvalid, upstream.ReasonLogoutToken)
	}
	if n := s.fake.Requests("/jwks") - before; n > 1 {
		t.Errorf("keys were fetched %d times for forged tokens", n)
	}
	s.fake.Rotate()
	moved.move(5 * time.Second)
	if _, err := s.client.Logout(t.Context(), s.fake.LogoutToken(map[string]any{"sub": "1"})); err != nil {
		t.Error(err)
	}
	s.fake.Rotate()
	s.fake.Change(answerWith("/jwks", 503, ""))
	moved.move(5 * time.Second)
	_, err := s.client.Logout(t.Context(), s.fake.LogoutToken(map[string]any{"sub": "1"}))
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
	if n := s.client.Patient(); n > 0 {
		t.Errorf("%d places for tokens with new keys are taken by those that were answered", n)
	}
}
