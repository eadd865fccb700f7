//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axe returns the source of axe-core, which checks a page against the Web Content
// Accessibility Guidelines.
func axe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Fatalf("AXE must name axe.min.js of axe-core; scripts/test sets it: %v", err)
	}
	return string(source)
}

// violation is one rule of axe-core that a page breaks.
type violation struct {
	ID   string `json:"id"`
	Help string `json:"help"`
	HTML string `json:"html"`
}

// checkAccessible fails the test for each rule that the page breaks on a phone in light and on a
// desktop in dark, and if it is wider than one of these screens. Pictures are taken of all four
// views: what a rule looks at depends on the size or on the colours, not on both.
func (c *chromium) checkAccessible(source, name string) {
	c.t.Helper()
	for _, screen := range []struct {
		name          string
		width, height int64
	}{{"phone", 360, 740}, {"desktop", 1280, 900}} {
		for _, scheme := range []string{"light", "dark"} {
			c.do("show it on a "+screen.name, chromedp.EmulateViewport(screen.width, screen.height))
			c.prefer("prefers-color-scheme", scheme)
			view := name + "-" + screen.name + "-" + scheme
			c.checkWidth(view)
			if (screen.name == "phone") == (scheme == "light") {
				for _, v := range c.violations(source) {
					c.t.Errorf("%s breaks %s: %s\n%s", view, v.ID, v.Help, v.HTML)
				}
			}
			c.picture(view)
		}
	}
	c.prefer("prefers-color-scheme", "light")
}

// violations runs axe-core on the page. Animations are over when it looks.
func (c *chromium) violations(source string) (found []violation) {
	c.t.Helper()
	if !c.holds(`typeof axe === "object"`) {
		ask(c, "load axe-core", chromedp.Evaluate[bool](source+";true"))
	}
	const run = `document.getAnimations().forEach(a => a.finish()); axe.run(document, {resultTypes: ["violations"], preload: false}).then(r => JSON.stringify(
		r.violations.flatMap(v => v.nodes.map(n => ({id: v.id, help: v.help, html: n.html})))))`
	text := ask(c, "run axe-core", chromedp.Evaluate[string](run, chromedp.EvalAwaitPromise))
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		c.t.Fatalf("axe-core returned %q: %v", text, err)
	}
	return found
}

// prefer sets a media feature.
func (c *chromium) prefer(feature, value string) {
	c.t.Helper()
	_, err := chromedp.Call(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chromium) checkWidth(view string) {
	c.t.Helper()
	if !c.holds(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
		c.t.Errorf("%s is wider than the screen", view)
	}
}

// TestAxeSeesViolations shows that the other tests would fail: a picture without a text is found.
func TestAxeSeesViolations(t *testing.T) {
	chrome := openChromium(t)
	chrome.open("data:text/html," + url.PathEscape(`<html lang="en"><title>x</title><main><h1>x</h1><img src="data:,"></main></html>`))
	for _, v := range chrome.violations(axe(t)) {
		if v.ID == "image-alt" {
			return
		}
	}
	t.Error("axe-core does not find a picture without a text")
}

// TestKeyboardOnly signs in and decides without a mouse: every control is reached with the Tab
// key, in the order in which people read.
func TestKeyboardOnly(t *testing.T) {
	server := startAuthz(t, nil)
	chrome := openChromium(t)
	redirect, arrival := destination(t, "loopback", chrome)
	client := register(t, server.URL, redirect, "Example Client")
	chrome.open(client.authorizeURL("state"))
	chrome.await(`input[name="username"]`)
	chrome.press(kb.Tab, `input[name="username"]`)
	chrome.keys(personName)
	chrome.press(kb.Tab, `input[name="password"]`)
	chrome.keys(personPassword + kb.Enter)
	chrome.await(`button[name="decision"][value="allow"]`)
	chrome.press(kb.Tab, `input[name="scope"][value="notes:write"]`)
	chrome.keys(" ")
	chrome.press(kb.Tab, `button[name="decision"][value="allow"]`)
	chrome.keys(kb.Enter)
	answer := arrival()
	if got := client.redeem(t, answer.Get("code")); got != "notes:read" {
		t.Errorf("the token has the scopes %q, want notes:read alone", got)
	}
}

// keys presses keys, wherever the focus is.
func (c *chromium) keys(text string) {
	c.t.Helper()
	c.do("press keys", chromedp.KeyEvent(text))
}

// press presses a key until an element that matches the selector has the focus. Each element
// on the way must show that it has the focus.
func (c *chromium) press(key, selector string) {
	c.t.Helper()
	for range 30 {
		if c.holds(fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		c.keys(key)
		if !c.holds(`document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			c.t.Errorf("the focus cannot be seen on %s", ask(c, "read the focus", chromedp.Evaluate[string]("document.activeElement.outerHTML")))
		}
	}
	c.t.Fatalf("the key never reached %s", selector)
}
