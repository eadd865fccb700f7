package doctor_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestLaterSteps: with a sign-in, ways go on to the refresh, and end at the step where a client ends
// for what it sends there.
func TestLaterSteps(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clinic)
		stop   string // the step and the finding
		only   []string
	}{
		"healthy":          {func(*clinic) {}, "", nil},
		"another state":    {func(c *clinic) { c.comeBack = func(v url.Values) { v.Set("state", "other") } }, "authorization: sign-in-state", nil},
		"another issuer":   {func(c *clinic) { c.comeBack = func(v url.Values) { v.Set("iss", "https://other.example.org") } }, "authorization: sign-in-iss", []string{"claude-code", "inspector", "mcp-remote", "go-sdk", "typescript-sdk"}},
		"a code is void":   {func(c *clinic) { c.with("POST "+issuer+"/token", answer(400, jsonType, `{"error":"invalid_grant"}`)) }, "token: code-refused", nil},
		"no type":          {func(c *clinic) { c.tell = func(_ url.Values, said map[string]any) { delete(said, "token_type") } }, "token: token-answer", nil},
		"too few scopes":   {func(c *clinic) { c.demanding = func(*http.Request, grant) int { return 403 } }, "first call: token-forbidden", nil},
		"refresh by name":  {func(c *clinic) { c.explicit = true }, "refresh: refresh-without-resource", []string{"go-sdk"}},
		"no refresh token": {func(c *clinic) { c.tell = func(_ url.Values, said map[string]any) { delete(said, "refresh_token") } }, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ill := newClinic(t)
			c.change(ill)
			report := ill.examined(ill.visit)
			for _, way := range report.As {
				want := c.stop
				if c.only != nil && !slices.Contains(c.only, way.Client) {
					want = ""
				}
				if got := strings.TrimSuffix(way.Stops+": "+way.Finding, ": "); got != want {
					t.Errorf("%s stops at %q, want %q", way.Client, got, want)
				}
				last := way.Steps[len(way.Steps)-1]
				if want == "" && (last.Name != "refresh" || last.OK == (name == "no refresh token") || last.OK == last.Open) {
					t.Errorf("%s ends with %+v", way.Client, last)
				}
			}
		})
	}
}

// TestAsks: a way says what the client asks for at the sign-in. Without one, the steps after it are
// open, with a token all but the first call.
func TestAsks(t *testing.T) {
	s := healthy(notes, issuer)
	s.server["scopes_supported"] = []string{"notes:read", "notes:write", "offline_access"}
	want := map[string]doctor.Asks{
		"claude-code": {Scope: "notes:read notes:write offline_access", Resource: notes, Prompt: "consent"},
		"codex":       {Scope: "notes:read notes:write offline_access", Resource: notes},
		"go-sdk":      {Scope: "notes:read notes:write", Resource: notes},
	}
	for _, token := range []string{"", s.token} {
		o := options(s.open())
		o.Token = token
		report, err := doctor.Check(t.Context(), s.target, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range report.As {
			if asks, ok := want[way.Client]; ok && (way.Asks == nil || *way.Asks != asks) {
				t.Errorf("%s asks for %+v, want %+v", way.Client, way.Asks, asks)
			}
			var open []string
			for _, step := range way.Steps {
				if step.Open {
					open = append(open, step.Name)
				}
			}
			unknown := []string{"token", "first call", "refresh"} // --register has tried the authorization endpoint
			if token != "" {
				unknown = []string{"token", "refresh"}
			}
			if !slices.Equal(open, unknown) || way.Open != "" {
				t.Errorf("%s: open are %q (%s), want %q", way.Client, open, way.Open, unknown)
			}
		}
		one, err := report.Only("codex")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := one.WriteText(&text, false); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"- not known: nobody signed in; --sign-in tries it", `asks for: scope "notes:read notes:write offline_access", resource "` + notes + `"`, " 14 refresh"} {
			if !strings.Contains(text.String(), part) {
				t.Errorf("it does not say %q:\n%s", part, text.String())
			}
		}
	}
}
