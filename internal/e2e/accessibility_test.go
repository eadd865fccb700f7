//go:build e2e

package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
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

// views are the screens and colours in which a page is looked at, the last one stays. Those that are
// checked have each size and each colour once: what a rule of axe-core looks at depends on one of
// them, not on both. The others are for pictures.
var views = []struct {
	screen, scheme string
	width, height  int64
	checked        bool
}{
	{"desktop", "light", 1280, 900, false},
	{"phone", "dark", 360, 740, false},
	{"desktop", "dark", 1280, 900, true},
	{"phone", "light", 360, 740, true},
}

// checkAccessible fails the test for each rule that the page breaks on a phone in light and on a
// desktop in dark, and if it is wider than one of these screens. If pictures are taken, it does so
// of all four views.
func (c *chromium) checkAccessible(source, name string) {
	c.t.Helper()
	for _, v := range views {
		if !v.checked && os.Getenv("E2E_SCREENSHOTS") == "" {
			continue
		}
		c.do("show it on a "+v.screen, chromedp.EmulateViewport(v.width, v.height))
		c.prefer("prefers-color-scheme", v.scheme)
		view := name + "-" + v.screen + "-" + v.scheme
		c.checkWidth(view)
		if v.checked {
			for _, v := range c.violations(source) {
				c.t.Errorf("%s breaks %s: %s\n%s", view, v.ID, v.Help, v.HTML)
			}
		}
		c.picture(view)
	}
}

// violations runs axe-core on the page. Animations are over when it looks. Text in the colour of its
// ground is a violation here: axe-core takes it for text that is hidden on purpose.
func (c *chromium) violations(source string) (found []violation) {
	c.t.Helper()
	const run = `(document.getAnimations().forEach(a => a.finish()), axe.run(document, {resultTypes: ["violations", "incomplete"], preload: false}).then(r => JSON.stringify(
		[...r.violations, ...r.incomplete.map(v => ({...v, nodes: v.nodes.filter(n => n.any.some(c => c.data?.messageKey === "equalRatio"))}))]
			.flatMap(v => v.nodes.map(n => ({id: v.id, help: v.help, html: n.html}))))))`
	text := ask(c, "run axe-core", chromedp.Evaluate[string](`typeof axe === "object" ? `+run+` : ""`, chromedp.EvalAwaitPromise))
	if text == "" { // it is not on this page yet
		text = ask(c, "load and run axe-core", chromedp.Evaluate[string](source+";"+run, chromedp.EvalAwaitPromise))
	}
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

// TestAxeSeesViolations shows that the other tests would fail: a picture without a text is found, and
// a text that has the colour of its ground.
func TestAxeSeesViolations(t *testing.T) {
	t.Parallel()
	chrome := openChromium(t)
	chrome.open("data:text/html," + url.PathEscape(`<html lang="en"><title>x</title><main><h1>x</h1><img src="data:,"><p style="color: navy; background: navy">y</p></main></html>`))
	found := chrome.violations(axe(t))
	for _, want := range []string{"image-alt", "color-contrast"} {
		if !slices.ContainsFunc(found, func(v violation) bool { return v.ID == want }) {
			t.Errorf("axe-core does not find %s: %v", want, found)
		}
	}
}
