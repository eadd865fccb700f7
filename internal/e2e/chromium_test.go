//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is a browser with one tab, and a record of its requests and messages.
type chromium struct {
	t   testing.TB
	ctx context.Context

	mu         sync.Mutex
	requested  []string            // every URL that was requested, redirects included
	posts      map[string]string   // request id → URL of each POST
	origins    map[string][]string // request id → Origin headers that were sent
	complaints []string            // what the browser has to say about security
	console    []string            // what it has to say otherwise
}

// openChromium starts a browser of its own for the test. It accepts the certificate of
// a local TLS server. Flags are those of Chromium's command line, without dashes. A machine
// without Chromium fails the test.
func openChromium(t testing.TB, flags ...string) *chromium {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(findChromium(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("no-proxy-server", true), chromedp.WindowSize(1000, 1100),
	}
	for _, flag := range flags {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(tab, 6*time.Minute)
	t.Cleanup(cancel)

	c := &chromium{t: t, ctx: ctx, posts: map[string]string{}, origins: map[string][]string{}}
	if err := errors.Join(chromedp.Do(ctx), chromedp.Listen(ctx, c.see), listenToEverything(ctx)); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return c
}

// listenToEverything turns on the events that see handles.
func listenToEverything(ctx context.Context) error {
	_, err1 := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, err3 := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	return errors.Join(err1, err2, err3)
}

func findChromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("these tests need Chromium: install it, for example with apt-get install chromium")
	return ""
}

// see records an event of the browser.
func (c *chromium) see(event any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		c.requested = append(c.requested, e.Request.URL+e.Request.URLFragment)
		if e.Request.Method == http.MethodPost {
			c.posts[string(e.RequestID)] = e.Request.URL
		}
	case *network.EventRequestWillBeSentExtraInfo:
		for name, value := range e.Headers {
			if strings.EqualFold(name, "Origin") {
				c.origins[string(e.RequestID)] = append(c.origins[string(e.RequestID)], fmt.Sprint(value))
			}
		}
	case *log.EventEntryAdded:
		c.note(e.Entry.Source == log.EntrySourceSecurity, e.Entry.Text)
	case *audits.EventIssueAdded:
		if d := e.Issue.Details; d != nil && d.ContentSecurityPolicyIssueDetails != nil {
			c.note(true, "violates "+d.ContentSecurityPolicyIssueDetails.ViolatedDirective+": "+d.ContentSecurityPolicyIssueDetails.BlockedURL)
		}
	case *runtime.EventExceptionThrown:
		c.note(false, e.ExceptionDetails.Text)
	}
}

func (c *chromium) note(security bool, text string) {
	if security || strings.Contains(text, "Content Security Policy") || strings.Contains(text, "Content-Security-Policy") {
		c.complaints = append(c.complaints, text)
		return
	}
	c.console = append(c.console, text)
}

// do runs actions. A failure names what they were for.
func (c *chromium) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	ask(c, what, chromedp.Steps(actions...))
}

// ask runs an action and returns its result.
func ask[T any](c *chromium, what string, action chromedp.Action[T]) T {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", what, err, c.story())
	}
	return result
}

// story returns the record, for a test that fails.
func (c *chromium) story() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("requested: %q\ncomplaints: %q\nconsole: %q", c.requested, c.complaints, c.console)
}

// open loads a page. A page that is still loading, such as the client's answer, can interrupt
// that; then open tries again.
func (c *chromium) open(address string) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(c.ctx, patience)
		_, err := chromedp.Run(ctx, chromedp.Navigate(address))
		cancel()
		switch {
		case err == nil:
			return
		case !strings.Contains(err.Error(), "net::ERR_ABORTED") || time.Now().After(deadline):
			c.t.Fatalf("open %s: %v\n%s", address, err, c.story())
		}
		<-time.After(50 * time.Millisecond)
	}
}

// click waits for an element and clicks on it with the mouse, when the page has been painted: a click
// before that can be lost.
func (c *chromium) click(selector string) {
	c.t.Helper()
	c.await(selector)
	c.holds("requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = true })) > 0")
	for deadline := time.Now().Add(patience); !c.holds("window.painted === true"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("the page of %s is not painted\n%s", selector, c.story())
		}
	}
	c.do("click "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// typeInto replaces the text of an input.
func (c *chromium) typeInto(selector, text string) {
	c.t.Helper()
	c.do("type into "+selector, chromedp.Clear(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// await waits for an element and returns its text.
func (c *chromium) await(selector string) string {
	c.t.Helper()
	return ask(c, "wait for "+selector, chromedp.Text(chromedp.CSS(selector), chromedp.NodeVisible))
}

// has reports whether an element is on the page now.
func (c *chromium) has(selector string) bool {
	c.t.Helper()
	return c.holds(fmt.Sprintf("document.querySelector(%q) !== null", selector))
}

// holds evaluates a condition on the page.
func (c *chromium) holds(condition string) bool {
	c.t.Helper()
	return ask(c, condition, chromedp.Evaluate[bool](condition))
}

// awaitRequest waits until a URL with the prefix has been requested, and returns it.
func (c *chromium) awaitRequest(prefix string) string {
	c.t.Helper()
	var found string
	c.until(prefix+"… is requested", func() bool {
		at := slices.IndexFunc(c.requested, func(u string) bool { return strings.HasPrefix(u, prefix) })
		if at >= 0 {
			found = c.requested[at]
		}
		return at >= 0
	})
	return found
}

// until waits for a condition that events change. The condition runs under the lock.
func (c *chromium) until(what string, condition func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c.mu.Lock()
		met := condition()
		c.mu.Unlock()
		if met {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s\n%s", what, c.story())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// clear clears the record.
func (c *chromium) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requested = nil
}

// checkCalm fails the test for every violation of a policy, and unless exactly this number of
// forms was sent to issuer, each with its true origin.
func (c *chromium) checkCalm(issuer string, forms int) {
	c.t.Helper()
	c.open("about:blank") // what the last page had to say has been said by then
	c.until("every form has told its origin", func() bool {
		for id := range c.posts {
			if len(c.origins[id]) == 0 {
				return false
			}
		}
		return len(c.posts) >= forms
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, complaint := range c.complaints {
		c.t.Errorf("the browser complains: %s", complaint)
	}
	if len(c.posts) != forms {
		c.t.Errorf("%d forms were sent, want %d: %q", len(c.posts), forms, c.posts)
	}
	for id, address := range c.posts {
		if !strings.HasPrefix(address, issuer+"/") || !slices.Equal(c.origins[id], []string{issuer}) {
			c.t.Errorf("the form to %s was sent with Origin %q, want %q", address, c.origins[id], issuer)
		}
	}
}

// picture saves the page as it looks now when E2E_SCREENSHOTS names a directory.
func (c *chromium) picture(name string) {
	c.t.Helper()
	dir := os.Getenv("E2E_SCREENSHOTS")
	if dir == "" {
		return
	}
	png := ask(c, "take a picture of "+name, chromedp.FullScreenshot(100))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	name = strings.ReplaceAll(c.t.Name(), "/", "-") + "-" + name + ".png"
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		c.t.Fatal(err)
	}
}
