package doctor_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestSignInHealthy: a sign-in at healthy servers finds nothing above a note, and leaves nothing.
func TestSignInHealthy(t *testing.T) {
	for name, change := range map[string]func(*clinic){
		"JWT":     func(*clinic) {},
		"opaque":  func(c *clinic) { c.opaque = true },
		"patient": func(c *clinic) { c.patient = true },
		"asking":  func(c *clinic) { c.asking = true },
		"lasting": func(c *clinic) { c.lasting = true },
		"step-up": func(c *clinic) { c.demanding = onlyNarrow(403) },
		"a tool that is forbidden to everybody": func(c *clinic) { // no scope would help, so there is no challenge
			c.stepUp, c.demanding = "", func(r *http.Request, _ grant) int {
				body, _ := io.ReadAll(r.Body)
				return map[bool]int{true: 403}[strings.Contains(string(body), "tools/call")]
			}
		},
		"ID tokens":    func(c *clinic) { c.tell = telling("id_token", "an.id.token") },
		"no documents": func(c *clinic) { delete(c.server, "client_id_metadata_document_supported") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t)
			change(c)
			report := c.examined(c.visit)
			for _, f := range report.Findings {
				if f.Severity != doctor.Note && f.ID != "no-documents" {
					t.Errorf("%s: %s", f.ID, f.Saw)
				}
			}
			if len(report.Left) > 0 || !c.deleted || !c.ended {
				t.Errorf("left %v; registration deleted: %t, grant ended: %t", report.Left, c.deleted, c.ended)
			}
			if c.lasting != slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.ID == "revoked-token-accepted" }) {
				t.Errorf("%+v", report.Findings)
			}
		})
	}
}

// onlyNarrow refuses tokens without notes:write for a call of a tool.
func onlyNarrow(status int) func(*http.Request, grant) int {
	return func(r *http.Request, g grant) int {
		if slices.Contains(g.scopes, "notes:write") {
			return 0
		}
		return status
	}
}

// telling changes a member of each answer with tokens; nil removes it.
func telling(name string, value any) func(url.Values, map[string]any) {
	return func(_ url.Values, said map[string]any) { member(said, name, value) }
}

// signInAnimal is a server with one fault that a sign-in shows.
type signInAnimal struct {
	name, id string
	change   func(*clinic)
	also     string
}

var signInAnimals = []signInAnimal{
	{"no way to register", "sign-in-not-tried", func(c *clinic) { delete(c.server, "registration_endpoint") }, "no-registration"},
	{"registration refused", "sign-in-registration", func(c *clinic) {
		c.with("POST "+issuer+"/register", answer(400, jsonType, `{"error":"invalid_redirect_uri"}`))
	}, ""},
	{"tokens over http", "sign-in-not-tried", func(c *clinic) { c.server["token_endpoint"] = "http://auth.example.org/token" },
		"plain-http token-error-shape token-cacheable cors-token"},
	{"no page for people", "sign-in-not-tried", func(c *clinic) { delete(c.server, "authorization_endpoint") }, "endpoint-missing"},
	{"nobody comes back", "sign-in-unfinished", nil, ""},
	{"an error comes back", "sign-in-refused", back(func(v url.Values) { v.Del("code"); v.Set("error", "invalid_target") }), ""},
	{"state is lost", "sign-in-state", back(func(v url.Values) { v.Del("state") }), ""},
	{"state is changed", "sign-in-state", back(func(v url.Values) { v.Set("state", strings.ToLower(v.Get("state"))) }), ""},
	{"iss is promised and missing", "sign-in-iss", back(func(v url.Values) { v.Del("iss") }), ""},
	{"iss with a slash", "sign-in-iss", back(func(v url.Values) { v.Set("iss", issuer+"/") }), ""},
	{"iss as a surprise", "sign-in-iss-unadvertised", func(c *clinic) { delete(c.server, "authorization_response_iss_parameter_supported") }, "iss-missing"},
	{"codes are refused", "code-refused", back(func(v url.Values) { v.Set("code", "another-code-of-nobody") }), ""},
	{"codes work twice", "code-twice", func(c *clinic) { c.forgetful = true }, ""},
	{"no token type", "token-answer", tells("token_type", nil), ""},
	{"another token type", "token-answer", tells("token_type", "mac"), ""},
	{"no token", "token-answer", tells("access_token", nil), ""},
	{"no lifetime", "token-lifetime-unknown", tells("expires_in", nil), ""},
	{"a lifetime as text", "token-lifetime-unknown", tells("expires_in", "600"), ""},
	{"tokens for a year", "token-lifetime", tells("expires_in", 31536000), "token-expiry-differs"},
	{"tokens for a moment", "token-lifetime", tells("expires_in", 5), "token-expiry-differs"},
	{"fewer scopes in silence", "token-scope-silent", func(c *clinic) {
		c.tell = func(form url.Values, said map[string]any) {
			delete(said, "scope")
			said["access_token"] = unsealed(notes, "notes:read") + c.secret()
		}
	}, ""},
	{"fewer scopes", "token-scope-fewer", tells("scope", "notes:read"), ""},
	{"no audience", "token-other-audience", tells("access_token", unsealed("", "notes:read notes:write")+"signature-of-one"), ""},
	{"another audience", "token-other-audience", tells("access_token", unsealed("notes", "notes:read notes:write")+"signature-of-one"), ""},
	{"the own token is refused", "token-refused", func(c *clinic) { c.demanding = func(*http.Request, grant) int { return 401 } }, ""},
	{"the scopes do not suffice", "token-forbidden", func(c *clinic) { c.demanding = func(*http.Request, grant) int { return 403 } }, ""},
	{"a refresh loses the audience", "renewed-token-refused", func(c *clinic) {
		c.tell = func(form url.Values, said map[string]any) {
			if form.Get("grant_type") == "refresh_token" {
				form.Set("resource", "https://lost.example.com")
			}
		}
	}, ""},
	{"one kind of revisions is refused", "token-not-judged", func(c *clinic) {
		c.demanding = func(r *http.Request, _ grant) int {
			return map[bool]int{true: 401}[r.Header.Get("Mcp-Protocol-Version") == "2026-07-28"]
		}
	}, ""},
	{"signatures are not verified", "altered-token-accepted", trusts(func(_ *http.Request, token string) bool {
		return strings.Count(token, ".") == 2 && !strings.HasSuffix(token, ".")
	}), ""},
	{"tokens in the query", "query-token-accepted", trusts(func(r *http.Request, _ string) bool { return r.URL.Query().Has("access_token") }), ""},
	{"ID tokens", "id-token-accepted", func(c *clinic) {
		c.tell, c.trusting = telling("id_token", "an.id.token"), func(_ *http.Request, token string) bool { return token == "an.id.token" }
	}, ""},
	{"sessions for everybody", "session-without-token", func(c *clinic) { c.unguarded = true }, ""},
	{"400 for a lost session", "session-lost", func(c *clinic) { c.unknown = 400 }, ""},
	{"401 for too few scopes", "step-up-status", func(c *clinic) { c.demanding = onlyNarrow(401) }, ""},
	{"403 without an error", "step-up-challenge", func(c *clinic) { c.demanding, c.stepUp = onlyNarrow(403), linked+`, scope="notes:write"` }, ""},
	{"403 without a challenge", "step-up-challenge", func(c *clinic) { c.demanding, c.stepUp = onlyNarrow(403), "" }, ""},
	{"no refresh", "refresh-none", tells("refresh_token", nil), ""},
	{"refreshes are refused", "refresh-refused", tells("refresh_token", "a-token-that-nobody-knows"), ""},
	{"a refresh needs the resource", "refresh-without-resource", func(c *clinic) { c.explicit = true }, ""},
	{"refresh tokens are kept", "refresh-kept", func(c *clinic) { c.sticky = true }, ""},
	{"stolen refresh tokens work", "refresh-repeated", func(c *clinic) { c.lenient = true }, ""},
	{"a refusal spends the token", "refresh-spent", func(c *clinic) { c.hasty = true }, ""},
	{"two windows", "refresh-parallel", func(c *clinic) { c.strict = true }, ""},
	{"any resource", "resource-ignored", func(c *clinic) { c.strange = true }, ""},
	{"tokens of others", "other-resource-token", func(c *clinic) {
		c.strange, c.opaque = true, true
		c.trusting = func(_ *http.Request, token string) bool {
			return c.access[token].aud == "https://doctor.example.com/another-resource"
		}
	}, ""},
}

// back changes the authorization response, tells the answers with tokens, and trusts which tokens
// are accepted.
func back(change func(url.Values)) func(*clinic) { return func(c *clinic) { c.comeBack = change } }
func tells(name string, value any) func(*clinic) {
	return func(c *clinic) { c.tell = telling(name, value) }
}
func trusts(fits func(*http.Request, string) bool) func(*clinic) {
	return func(c *clinic) { c.trusting = fits }
}

// unsealed returns a token without its signature.
func unsealed(aud, scope string) string {
	claims := `{"iss":"` + issuer + `","aud":"` + aud + `","exp":1795435800,"scope":"` + scope + `"}`
	if aud == "" {
		claims = `{"iss":"` + issuer + `","exp":1795435800,"scope":"` + scope + `"}`
	}
	return "eyJhbGciOiJFUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
}

// TestSignInZoo expects that each animal is named, and nothing else above a note.
func TestSignInZoo(t *testing.T) {
	for _, a := range append(signInAnimals, misuseAnimals...) {
		t.Run(a.name, func(t *testing.T) {
			c := newClinic(t)
			with := c.visit
			if a.change == nil {
				with = func(context.Context, string) error { return errors.New("no browser") }
			} else {
				a.change(c)
			}
			report := c.examined(with)
			expectNamed(t, animal{a.name, a.id, nil, a.also}, report)
			if a.id == "token-scope-silent" && found(report, "token-scope-fewer") != nil {
				t.Error("the same fault is named twice")
			}
		})
	}
}

// TestLeftBehind: what cannot be removed is told, and a server that repeats what it was sent makes
// no secret appear.
func TestLeftBehind(t *testing.T) {
	c := newClinic(t)
	delete(c.server, "revocation_endpoint")
	c.with("DELETE "+issuer+"/register/doctor", http.NotFound)
	c.trusting = nil
	c.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", linked+`, error="invalid_token", error_description="`+r.Header.Get("Authorization")+r.URL.RawQuery+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	report := c.examined(c.visit)
	if len(report.Left) != 2 || !strings.Contains(report.Left[0], "revocation_endpoint") || !strings.Contains(report.Left[1], "404") {
		t.Errorf("left %q", report.Left)
	}
	if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.ID == "token-refused" && strings.Contains(f.Saw, "[secret]") }) {
		t.Errorf("%+v", report.Findings)
	}
}

// TestLeftOnce: what stays twice for one reason is told once.
func TestLeftOnce(t *testing.T) {
	c := newClinic(t)
	delete(c.server, "revocation_endpoint")
	redeems("verifier", false)(c) // for tokens of more than one code
	if report := c.examined(c.visit); len(report.Left) != 1 {
		t.Errorf("left %q", report.Left)
	}
}

// TestTokenOnTheWay: a token, or a sign-in for one, is refused where others could read it on the way,
// and so is what is no token.
func TestTokenOnTheWay(t *testing.T) {
	person := func(context.Context, string) error { return errors.New("nobody should be asked") }
	for name, o := range map[string]doctor.Options{
		"http://notes.example.com/mcp": {Token: "token"}, "http://192.0.2.1/mcp": {SignIn: person}, notes: {Token: "two words"}, notes + "/": {Token: "line\nbreak"},
		"https://notes.example.com": {Token: "token", SignIn: person},
	} {
		o.Transport = healthy(notes, issuer)
		if _, err := doctor.Check(t.Context(), name, o); !errors.Is(err, doctor.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgedState: a code that comes back with another state is not redeemed (RFC 6749 section 10.12).
func TestForgedState(t *testing.T) {
	c := newClinic(t)
	c.comeBack = func(v url.Values) { v.Set("state", "of somebody else") }
	c.tell = func(url.Values, map[string]any) { t.Error("the code was redeemed") }
	if got := above(c.examined(c.visit)); !slices.Equal(got, []string{"sign-in-state"}) || !c.deleted {
		t.Errorf("found %v; registration deleted: %t", got, c.deleted)
	}
}
