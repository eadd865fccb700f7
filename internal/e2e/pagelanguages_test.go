//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"gatehouse.example/templates"
	sentences "gatehouse.example/templates/language"
)

// TestPagesInEveryLanguage: a person chooses a language at the foot of the sign-in page, comes
// back to the same page in it, and finds the next page in it too. No language makes a page
// wider than a phone or breaks a rule of axe-core.
func TestPagesInEveryLanguage(t *testing.T) {
	t.Parallel()
	source := axe(t)
	server := startAuthz(t, nil)
	chrome := openChromium(t)
	client := register(t, server.URL, "http://127.0.0.1/callback", "Example Client")
	chrome.open(client.authorizeURL("state"))
	chrome.await(`input[name="username"]`)
	before := ask(chrome, "read the address", chromedp.Evaluate[string]("location.href"))
	all := sentences.Languages()
	for _, l := range append(all[1:len(all):len(all)], all[0]) { // the page is in English already
		chrome.click(`.languages a[lang="` + l.Tag + `"]`)
		chrome.await(`html[lang="` + l.Tag + `"][dir="` + l.Direction + `"] .languages [aria-current]`)
		if after := ask(chrome, "read the address", chromedp.Evaluate[string]("location.href")); after != before {
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

// TestRightToLeftInChromium: in a script from right to left everything on a page changes sides,
// and names and addresses stay as they are.
func TestRightToLeftInChromium(t *testing.T) {
	t.Parallel()
	hebrew, err := sentences.New("he", "עברית", sentences.RightToLeft, strings.Join([]string{
		"consent.title = לאפשר גישה?", "consent.lead = {client} מבקש להשתמש ב-{resources} בשמך.", "consent.allow = לאפשר", "consent.deny = לדחות",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := templates.New()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	notes := templates.Resource{URI: "https://notes.example.com/mcp", Name: "Notes"}
	err = pages.For(templates.Reader{Language: hebrew, Action: "/language", Return: "/"}).Consent(&page, templates.Consent{
		Action: "/consent", Client: templates.Client{Name: "Example Client"}, RedirectHost: "app.example.org", UserName: "reader",
		Groups: []templates.Group{{Resource: notes, Boxes: []templates.Box{{Value: "notes:read", Name: "notes:read", Description: "Read your notes", Checked: true}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	chrome := openChromium(t)
	chrome.open("file://" + file)
	chrome.await("h1")
	chrome.picture("consent")
	const at = `const at = s => document.querySelector(s).getBoundingClientRect(); `
	for what, condition := range map[string]string{
		"the heading begins at the right": `getComputedStyle(document.querySelector("h1")).direction === "rtl"`,
		"the box is right of its text":    `(() => {` + at + `return at(".scope input").left > at(".scope label").left})()`,
		"Deny is right of Allow":          `(() => {` + at + `return at("button[value=deny]").left > at("button[value=allow]").left})()`,
		"terms are right of their values": `(() => {` + at + `return at("dt").left > at("dd").left})()`,
		"an address is at the right":      `getComputedStyle(document.querySelector(".uri")).textAlign === "right"`,
		"an address reads as ever":        `getComputedStyle(document.querySelector(".uri")).direction === "ltr"`,
	} {
		if !chrome.holds(condition) {
			t.Errorf("not so: %s", what)
		}
	}
	chrome.checkWidth("the page")
}
