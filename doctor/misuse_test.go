package doctor_test

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

// fits compares the redemption of a code with its request, but for what the clinic is careless about.
func (c *clinic) fits(form url.Values) bool {
	request := c.requests[form.Get("code")]
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	hashed := base64.RawURLEncoding.EncodeToString(sum[:]) == request.Get("code_challenge")
	switch c.careless {
	case "verifier":
		hashed = form.Has("code_verifier")
	case "missing":
		hashed = hashed || !form.Has("code_verifier")
	case "plain":
		hashed = hashed || form.Get("code_verifier") == request.Get("code_challenge")
	}
	client := form.Get("client_id") == request.Get("client_id") || c.careless == "client"
	return hashed && client && (form.Get("redirect_uri") == request.Get("redirect_uri") || c.careless == "redirect")
}

// said returns the claims of a token.
func (c *clinic) said(aud, scope string) map[string]any {
	claims := map[string]any{"iss": issuer, "aud": aud, "exp": now.Add(10 * time.Minute).Unix(), "iat": now.Unix(), "scope": scope}
	maps.Copy(claims, c.claim)
	return claims
}

// redeems returns a change that compares less, at a server where a refusal uses a code up and at one
// where it does not.
func redeems(careless string, patient bool) func(*clinic) {
	return func(c *clinic) { c.careless, c.patient = careless, patient }
}

var misuseAnimals = []signInAnimal{
	{"any verifier", "verifier-wrong-accepted", redeems("verifier", false), "verifier-plain-accepted"},
	{"no verifier", "verifier-missing-accepted", redeems("missing", false), ""},
	{"no verifier, and codes stay", "verifier-missing-accepted", redeems("missing", true), ""},
	{"the challenge as verifier", "verifier-plain-accepted", redeems("plain", false), ""},
	{"codes of others", "code-other-client", redeems("client", true), ""},
	{"another redirect URI at the end", "code-other-redirect", redeems("redirect", false), ""},
	{"another error for a verifier", "verifier-error", func(c *clinic) { c.wrongVerifier = "invalid_request" }, ""},
	{"a clock that is ahead", "token-clock", claiming("iat", 120), ""},
	{"a clock that is behind", "token-clock", claiming("iat", -120), ""},
	{"tokens that begin later", "token-clock", claiming("nbf", 120), ""},
	{"a clock that strays", "token-skew", claiming("iat", 20), ""},
	{"an end that is not the end", "token-expiry-differs", claiming("exp", 3600), ""},
	{"each code needs a person", "misuse-not-tried", func(c *clinic) { c.asking = true }, ""},
}

// claiming returns a change of the tokens of a clinic: a claim is so many seconds from now.
func claiming(name string, seconds int64) func(*clinic) {
	return func(c *clinic) {
		c.claim = map[string]any{name: now.Unix() + seconds}
	}
}

// TestTokenClocks: a token that somebody gives is off only if it begins in the future, and a claim that
// is no time tells nothing.
func TestTokenClocks(t *testing.T) {
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"issued an hour ago":     {map[string]any{"iat": now.Unix() - 3600}, ""},
		"issued in the future":   {map[string]any{"iat": now.Unix() + 120}, "token-clock"},
		"begins in the future":   {map[string]any{"nbf": now.Unix() + 120}, "token-clock"},
		"begins in some seconds": {map[string]any{"nbf": now.Unix() + 20}, "token-skew"},
		"begins in a moment":     {map[string]any{"nbf": now.Unix() + 3}, ""},
		"issued at no time":      {map[string]any{"iat": "soon", "nbf": -5}, ""},
		"issued in milliseconds": {map[string]any{"iat": now.UnixMilli()}, ""},
	} {
		s := healthy(notes, issuer)
		c.claims["iss"], c.claims["aud"], c.claims["exp"] = issuer, notes, now.Unix()+600
		s.token = jwt(c.claims)
		report := examined(t, s)
		for _, id := range []string{"token-clock", "token-skew"} {
			if (found(report, id) != nil) != (id == c.want) {
				t.Errorf("%s: %+v", name, found(report, id))
			}
		}
	}
}

// TestMisuseAsks: nobody is asked twice where a code stays after a refusal, and at most once more where
// each needs a person.
func TestMisuseAsks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clinic)
		visits int // with those that come back with an error
		saw    string
	}{
		"codes stay":              {func(c *clinic) { c.patient = true }, 2, ""},
		"codes come in silence":   {func(*clinic) {}, 6, ""},
		"a person, and they stay": {func(c *clinic) { c.patient, c.asking = true, true }, 3, ""},
		"a person for each":       {func(c *clinic) { c.asking = true }, 3, "no further code came without a person; not tried: verifier missing, verifier plain, other client, other redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			clinic := newClinic(t)
			c.change(clinic)
			report := clinic.examined(clinic.visit)
			saw := ""
			if f := found(report, "misuse-not-tried"); f != nil {
				saw = f.Saw
			}
			if clinic.visits != c.visits || saw != c.saw || len(report.Left) > 0 {
				t.Errorf("%d visits, want %d; saw %q; left %q", clinic.visits, c.visits, saw, report.Left)
			}
		})
	}
}

// TestMisuseAlone: a sign-in works at an authorization server alone, with its redirect URI at any port.
func TestMisuseAlone(t *testing.T) {
	c := newClinic(t)
	c.careless = "plain"
	o := options(c.open())
	o.SignIn, o.Register, o.Token = c.visit, false, ""
	report, err := doctor.CheckServer(t.Context(), issuer, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := above(report); strings.Join(got, " ") != "verifier-plain-accepted" || len(report.Left) > 0 || !c.deleted {
		t.Errorf("found %v; left %q; deleted: %t", got, report.Left, c.deleted)
	}
}
