package doctor_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

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
	{"each code needs a person", "misuse-not-tried", func(c *clinic) { c.asking = true }, ""},
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
