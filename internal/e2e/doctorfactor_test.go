//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"gatehouse.example/doctor"
)

// factorSecret is where the page that sets up a second factor shows its secret.
var factorSecret = regexp.MustCompile(`<code[^>]*>([A-Z2-7 ]{20,})</code>`)

// withFactor goes through the forms from an address until the browser is led elsewhere, or to the
// page with the recovery codes. At the page that sets up a second factor it learns the secret.
func withFactor(t *testing.T, client *http.Client, address string, secret *string) *url.URL {
	t.Helper()
	browser := *client
	browser.CheckRedirect = staysAt(address)
	page, redirect := load(t, &browser, newGet(t, address))
	for range 6 {
		steps := int64(1) // the set-up has used the step of now
		if m := factorSecret.FindStringSubmatch(page.text); redirect == nil && m != nil && *secret == "" {
			*secret, steps = m[1], 0
		}
		switch {
		case redirect != nil:
			return redirect
		case page.fields["username"] != nil:
			page, redirect = submit(t, &browser, page, page.signIn(personName, personPassword))
		case page.fields["decision"] != nil:
			page, redirect = submit(t, &browser, page, page.consent("allow", func(string) bool { return true }))
		case page.fields["code"] != nil:
			values := page.hidden()
			values.Set("code", oneTimeCode(t, *secret, steps))
			page, redirect = submit(t, &browser, page, values)
		default:
			return nil
		}
	}
	t.Fatalf("%s keeps asking:\n%s", page.url, page.text)
	return nil
}

// TestDoctorWithSecondFactor: a person with a second factor signs in for the doctor as for any
// client, and nothing above a note is found at our own servers.
func TestDoctorWithSecondFactor(t *testing.T) {
	authz, demo := startPair(t)
	var secret string
	if to := withFactor(t, newBrowser(t), authz.URL+"/account/second-factor", &secret); to != nil || secret == "" {
		t.Fatalf("no second factor was set up: %v", to)
	}
	asked, browser := false, newBrowser(t) // one browser: a code counts once, and a session lasts
	person := func(ctx context.Context, at string) error {
		if page, _ := load(t, browser, newGet(t, at)); !asked && page.fields["username"] != nil {
			page, _ = submit(t, browser, page, page.signIn(personName, personPassword))
			asked = page.fields["code"] != nil
		}
		return comesBack(ctx, withFactor(t, browser, at, &secret).String())
	}
	wantHealthy(t, examined(t, demo.URL+"/mcp", doctor.Options{SignIn: person}))
	if !asked {
		t.Error("no code was asked for")
	}
}
