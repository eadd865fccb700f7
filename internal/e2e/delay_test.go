//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/animation"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const allowButton = `button[name="decision"][value="allow"]`

// TestAllowWaits: a click or a key press that comes with the page does not allow, with and
// without reduced motion; some time later the same click does. The test stops and starts the time
// of animations itself, so that the speed of the machine does not matter.
func TestAllowWaits(t *testing.T) {
	t.Parallel()
	for _, motion := range []string{"no-preference", "reduce"} {
		t.Run(motion, func(t *testing.T) {
			server := startAuthz(t, nil)
			chrome := openChromium(t)
			redirect, arrival := destination(t, "loopback", chrome)
			client := register(t, server.URL, redirect, "Example Client")
			chrome.open(client.authorizeURL("state-1"))
			chrome.typeInto(`input[name="username"]`, personName)
			chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
			chrome.await(allowButton)
			x, y := chrome.middle(allowButton)
			consent := ask(chrome, "where we are", chromedp.Evaluate[string]("location.href"))

			chrome.prefersMotion(motion)
			if _, err := chromedp.Call(chrome.ctx, animation.Enable, cdp.Empty{}); err != nil {
				t.Fatal(err)
			}
			chrome.playAnimations(0)
			chrome.open(consent)
			chrome.await(`button[name="decision"][value="deny"]`)
			if !chrome.holds(fmt.Sprintf(`document.querySelector(%q).getAnimations()[0].effect.getTiming().duration >= 500`, allowButton)) {
				t.Error("Allow waits for less than half a second")
			}
			chrome.do("click at once", chromedp.MouseClickXY(x, y), chromedp.MouseClickXY(x, y))
			chrome.do("focus and press keys at once", chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).focus()`, allowButton)), chromedp.KeyEvent(" "))
			if chrome.holds(fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, allowButton)) {
				t.Error("the button takes the keyboard while it cannot be seen")
			}
			if !chrome.holds(fmt.Sprintf(`location.href === %q`, consent)) {
				t.Fatal("a click that came with the page was taken for a decision")
			}
			chrome.playAnimations(1)
			chrome.await(allowButton)
			x, y = chrome.middle(allowButton) // the space bar scrolls
			chrome.do("click later", chromedp.MouseClickXY(x, y))
			if answer := arrival(); answer.Get("code") == "" {
				t.Errorf("the client received %v, want a code", answer)
			}
		})
	}
}

// TestSignOutInChromium: the buttons work without script, and "Not you?" keeps the
// request of the client.
func TestSignOutInChromium(t *testing.T) {
	t.Parallel()
	server := startAuthz(t, nil)
	chrome := openChromium(t)
	redirect, arrival := destination(t, "loopback", chrome)
	client := register(t, server.URL, redirect, "Example Client")
	signIn := func() {
		t.Helper()
		chrome.typeInto(`input[name="username"]`, personName)
		chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
		chrome.await(allowButton)
	}
	chrome.open(client.authorizeURL("state-1"))
	signIn()
	chrome.picture("consent")
	chrome.click(`button[name="not-you"]`)
	chrome.await(`input[name="password"]`)
	signIn()
	chrome.click(allowButton)
	if answer := arrival(); answer.Get("code") == "" || answer.Get("state") != "state-1" {
		t.Errorf("the client received %v, want a code and its state", answer)
	}
	chrome.open(client.authorizeURL("state-2") + "&prompt=login")
	chrome.await(`input[name="password"]`)
	chrome.picture("signed-in")
	chrome.click(`button[name="sign-out"]`)
	chrome.await("section ol") // what to do next
	if got := chrome.await("h1"); got != "You are signed out" {
		t.Errorf("the page says %q", got)
	}
	chrome.picture("signed-out")
	chrome.open(client.authorizeURL("state-3"))
	chrome.await(`input[name="password"]`)
	chrome.checkCalm(server.URL, 5)
}

func (c *chromium) prefersMotion(value string) {
	c.t.Helper()
	_, err := chromedp.Call(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: value}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// playAnimations lets the time of animations pass at a rate.
func (c *chromium) playAnimations(rate float64) {
	c.t.Helper()
	if _, err := chromedp.Call(c.ctx, animation.SetPlaybackRate, animation.SetPlaybackRateParams{PlaybackRate: rate}); err != nil {
		c.t.Fatal(err)
	}
}

// middle returns the position of an element on the screen.
func (c *chromium) middle(selector string) (x, y float64) {
	c.t.Helper()
	at := func(side, size string) float64 {
		return ask(c, "find "+selector, chromedp.Evaluate[float64](fmt.Sprintf(`(r => r.%s + r.%s / 2)(document.querySelector(%q).getBoundingClientRect())`, side, size, selector)))
	}
	return at("left", "width"), at("top", "height")
}
