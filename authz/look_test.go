package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"gatehouse.example/authz"
	"gatehouse.example/templates"
)

// TestOwnLook: every page has the operator's name, and the logo is a picture of this origin
// that everybody may see.
func TestOwnLook(t *testing.T) {
	t.Parallel()
	logo := []byte("\x89PNG\r\n\x1a\nrest")
	h := newHarness(t, setup{issuer: secureIssuer + "/tenant", config: func(c *authz.Config) {
		c.Pages = templates.Look{Name: "Example Company", Logo: logo, LogoPath: "https://evil.example/", Colour: "#ffcc00"}
	}})
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(testClients()["web"]).Encode())
	for _, page := range []reply{b.follow(), b.open(h.issuer + "/login?transaction=none")} {
		src := `<img class="brand-logo" src="/tenant/pages/logo?v=` + h.cfg.Pages.LogoTag() + `"`
		if !strings.Contains(page.body, "Example Company") || !strings.Contains(page.body, src) || strings.Contains(page.body, "Gatehouse") {
			t.Errorf("the page lacks the name or the logo: %.300s", page.body)
		}
	}
	got := h.send(h.newRequest("GET", h.issuer+"/pages/logo?v=1", nil))
	if got.status != http.StatusOK || got.body != string(logo) || got.header.Get("Content-Type") != "image/png" ||
		got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Set-Cookie") != "" {
		t.Errorf("the logo: %s, %v", got, got.header)
	}
}

// TestBrokenLook: a look that cannot be shown is an error of New.
func TestBrokenLook(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for want, look := range map[string]templates.Look{
		"the colour":     {Colour: "red"},
		"consent.html:1": {Files: fstest.MapFS{"consent.html": &fstest.MapFile{Data: []byte(`{{define "page"}}{{.Secret}}{{end}}{{define "aside"}}{{end}}`)}}},
	} {
		cfg := h.cfg
		cfg.Pages = look
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
