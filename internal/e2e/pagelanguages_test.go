//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	sentences "gatehouse.example/templates/language"
)

// TestPagesInEveryLanguage: a person chooses a language at the foot of the sign-in page, comes
// back to the same page in it, and finds the next page in it too. No language makes a page
// wider than a phone or breaks a rule of axe-core.
func TestPagesInEveryLanguage(t *testing.T) {
	source := axe(t)
	server := startAuthz(t, nil)
	chrome := openChromium(t)
	client := register(t, server.URL, "http://127.0.0.1/callback", "Example Client")
	chrome.open(client.authorizeURL("state"))
	chrome.await(`input[name="username"]`)
	const here = `document.querySelector('input[name="return"]').value`
	before := ask(chrome, "read the address", chromedp.Evaluate[string](here))
	all := sentences.Languages()
	for _, l := range append(all[1:len(all):len(all)], all[0]) { // the page is in English already
		chrome.click(`button[name="language"][value="` + l.Tag + `"]`)
		chrome.await(`html[lang="` + l.Tag + `"][dir="` + l.Direction + `"] .languages [aria-current]`)
		if after := ask(chrome, "read the address", chromedp.Evaluate[string](here)); after != before {
			t.Errorf("%s: the choice leads from %s to %s", l.Tag, before, after)
		}
		chrome.checkAccessible(source, "sign-in-"+strings.ToLower(l.Tag))
	}
	last := all[0]
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, personPassword+"\r")
	chrome.await(`html[lang="` + last.Tag + `"] button[name="decision"][value="allow"]`)
	chrome.checkAccessible(source, "consent-"+strings.ToLower(last.Tag))
}
