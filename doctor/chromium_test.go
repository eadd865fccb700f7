//go:build e2e && clients

package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// slow is how long a page may take: the programs that serve one load a lot.
const slow = 3 * longest

// tab is a page in a browser of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func chromiumPage(t *testing.T) *tab {
	t.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-popup-blocking", true), chromedp.WindowSize(2400, 1400))
	t.Cleanup(stop)
	ctx, shut := chromedp.NewContext(allocator)
	t.Cleanup(shut)
	ctx, cancel := context.WithTimeout(ctx, 4*slow)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context that starts it
		t.Fatalf("start Chromium: %v", err)
	}
	return &tab{t, ctx}
}

func run[T any](p *tab, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, slow)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	return result
}

func (p *tab) open(address string) { run(p, "open "+address, chromedp.Navigate(address)) }

func (p *tab) keys(text string) { run(p, "press keys", chromedp.KeyEvent(text)) }

// holds evaluates a condition on the page.
func (p *tab) holds(condition string) bool {
	p.t.Helper()
	return run(p, condition, chromedp.Evaluate[bool](condition))
}

// text returns what the page shows.
func (p *tab) text() string {
	p.t.Helper()
	return run(p, "read the page", chromedp.Evaluate[string](`(document.body?.innerText ?? "").replaceAll("\u00a0", " ")`))
}

// until waits for a condition on the page.
func (p *tab) until(condition string) {
	p.t.Helper()
	for end := time.Now().Add(slow); !p.holds(condition); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("never %s:\n%s", condition, p.text())
		}
	}
}

func (p *tab) waits(selector string) {
	p.until(fmt.Sprintf("document.querySelector(%q) !== null", selector))
}

// picks chooses an entry of the list in which VS Code takes commands.
func (p *tab) picks(typed, entry string) {
	p.t.Helper()
	const ready = `(e => Boolean(e?.checkVisibility() && e === document.activeElement))(document.querySelector(".quick-input-widget input"))`
	rows := fmt.Sprintf(`[...document.querySelectorAll(".quick-input-list .monaco-list-row")].filter(e => e.checkVisibility()).map(e => e.innerText.startsWith(%q))`, entry)
	if strings.HasPrefix(typed, ">") {
		p.keys(kb.F1)
		typed = typed[1:]
	} else {
		p.until(rows + ".includes(true)")
	}
	p.until(ready)
	p.keys(typed)
	p.until(rows + "[0] === true")
	time.Sleep(500 * time.Millisecond) // the list takes no key while it is filtered
	p.keys(kb.Enter)
	p.until("!" + rows + ".includes(true)")
}

// ends are what VS Code shows when it goes no further.
var ends = []string{"does not support automatic client registration", "Connection state: Error", "Connection state: Stopped"}

// outcome waits until VS Code has the browser open the sign-in, or gives up.
func (p *tab) outcome() (bool, string) {
	p.t.Helper()
	var said strings.Builder
	last := ""
	for end := time.Now().Add(slow / 2); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		text := p.text()
		if text != last {
			fmt.Fprintf(&said, "%s\n", text)
			last = text
		}
		switch {
		case strings.Contains(text, "Complete the authentication in the browser window"):
			return true, said.String()
		case strings.Contains(text, "wants to authenticate"):
			p.keys(kb.Enter)
		case slices.ContainsFunc(ends, func(end string) bool { return strings.Contains(text, end) }):
			return false, said.String()
		}
	}
	return false, said.String()
}
