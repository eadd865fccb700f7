//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keyboardScript follows the focus on a page, without moving it. The stops are what the Tab key
// should reach, in the order of the document; one of a group of radio buttons. Behind the last one
// is the outside of the page.
const keyboardScript = `(window.keyboard ??= (() => {
	const all = 'a[href], button, input, select, textarea, summary, iframe, [tabindex], [contenteditable]';
	const stops = () => [...document.querySelectorAll(all)].filter(e => e.tabIndex >= 0 && !e.disabled && (e.type !== "radio" || e.checked) && e.checkVisibility({visibilityProperty: true}));
	const shown = e => { const r = e.getClientRects()[0], top = r && document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2); return !!top && (e === top || e.contains(top)); };
	const name = e => e ? e.outerHTML.slice(0, 100) : "the outside of the page";
	const here = () => stops().indexOf(document.activeElement);
	let went = [], hidden = [], began;
	addEventListener("focusin", e => { went.push(e.target); if (getComputedStyle(e.target).outlineStyle === "none") hidden.push("the focus cannot be seen on " + name(e.target)); });
	addEventListener("focusout", e => { if (!shown(e.target)) hidden.push("something covers " + name(e.target) + ", which has the focus"); });
	addEventListener("blur", e => { if (e.target === window) went.push(undefined); });
	return {
		toTheEnd: () => { went = []; hidden = []; began = here(); return [stops().length - began, began + 1]; },
		atTheEnd: () => went.includes(undefined) || document.activeElement !== document.body,
		faults: () => {
			const cycle = [...stops(), undefined], first = cycle.indexOf(went[0]);
			const right = cycle.every((e, i) => i < went.length && went[i] === cycle[(first + i) % cycle.length]);
			return [...hidden, ...(right ? [] : ["the focus goes to " + went.map(name).join(", ") + "; the document has " + cycle.map(name).join(", ")])];
		},
		way: selector => {
			const length = stops().length + 1, to = stops().findIndex(e => e.matches(selector));
			return to < 0 ? 0 : 1 + (to - here() + length) % length;
		},
	};
})())`

// keys presses keys, wherever the focus is.
func (c *chromium) keys(text string) {
	c.t.Helper()
	c.do("press keys", chromedp.KeyEvent(text))
}

// front gives the page the keyboard, which a new page does not always have, nor one that the focus
// has left. It waits until that is so and an expression is true, and returns its value.
func front[T any](c *chromium, expression string) T {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, err := chromedp.Call(c.ctx, page.BringToFront, cdp.Empty{})
		var value *T
		if err == nil {
			value, err = chromedp.Run(c.ctx, chromedp.Evaluate[*T]("document.hasFocus() && "+expression+" || null"))
		}
		switch {
		case err == nil && value != nil: // while the browser is between two pages there is an error
			return *value
		case time.Now().After(end):
			c.t.Fatalf("wait for the keyboard and %s: %v\n%s", strings.TrimPrefix(expression, keyboardScript), err, c.story())
		}
	}
}

// round presses the Tab key until the focus has left the page and, if it did not begin there, until
// it is back. It returns what is wrong: the focus cannot be seen or is covered, does not follow the
// document, skips what should be reached, or does not leave the page.
func (c *chromium) round() []string {
	c.t.Helper()
	presses := front[[2]int](c, keyboardScript+".toTheEnd()")
	c.keys(strings.Repeat(kb.Tab, presses[0]))
	ask(c, "wait until the focus has left", chromedp.Poll[bool]("keyboard.atTheEnd()"))
	if presses[1] > 0 {
		front[bool](c, "true")
		c.keys(strings.Repeat(kb.Tab, presses[1]))
	}
	return ask(c, "look where the focus went", chromedp.Evaluate[[]string]("keyboard.faults()"))
}

// tabTo waits for an element and presses the Tab key until it has the focus.
func (c *chromium) tabTo(selector string) {
	c.t.Helper()
	const limit = 60
	for pressed := 0; pressed <= limit; {
		way := front[int](c, keyboardScript+fmt.Sprintf(".way(%q)", selector)) - 1
		if way == 0 {
			return
		}
		c.keys(strings.Repeat(kb.Tab, way))
		pressed += way
	}
	c.t.Fatalf("the Tab key does not lead to %s", selector)
}

// use presses Enter on a button or a link.
func (c *chromium) use(selector string) {
	c.t.Helper()
	c.tabTo(selector)
	c.keys(kb.Enter)
}

// tick presses the space bar on a box.
func (c *chromium) tick(selector string) {
	c.t.Helper()
	c.tabTo(selector)
	c.keys(" ")
}

// pick goes to a group of radio buttons and then, with an arrow key, to one of them.
func (c *chromium) pick(group, selector string) {
	c.t.Helper()
	c.tabTo(group)
	for range 10 {
		c.keys(kb.ArrowDown)
		if c.holds(fmt.Sprintf("document.activeElement.matches(%q) && document.activeElement.checked", selector)) {
			return
		}
	}
	c.t.Fatalf("the arrow key does not lead to %s", selector)
}

// write replaces the text of an input: the Tab key selects what is in it.
func (c *chromium) write(selector, text string) {
	c.t.Helper()
	c.tabTo(selector)
	c.keys(text)
	if got := c.value(selector); got != text {
		c.t.Fatalf("%s has %q, want %q", selector, got, text)
	}
}

// TestKeyboardSeesFaults shows that other tests would fail: each page has a fault for those who use
// the keyboard, and the last one has none.
func TestKeyboardSeesFaults(t *testing.T) {
	t.Parallel()
	chrome := openChromium(t)
	for _, sample := range []struct{ body, want string }{
		{`<a href="#1">1</a><input onkeydown="return false"><a href="#2">2</a>`, "the focus goes to"},
		{`<a href="#1">1</a><a href="#2" tabindex="1">2</a>`, "the focus goes to"},
		{`<a href="#1">1</a><a href="#2" style="outline: none">2</a>`, "the focus cannot be seen"},
		{`<a href="#1">1</a><div style="position: fixed; inset: 0; background: white"></div>`, "something covers"},
		{`<a href="#1">1</a><input autofocus><input type="radio" name="r"><input type="radio" name="r" checked><button>2</button>`, ""},
	} {
		chrome.open("data:text/html," + url.PathEscape(sample.body))
		faults := chrome.round()
		if sample.want == "" && len(faults) == 0 || sample.want != "" && slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, sample.want) }) {
			continue
		}
		t.Errorf("%s: %q", sample.body, faults)
	}
}
