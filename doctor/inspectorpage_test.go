//go:build e2e && clients

package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestInspectorPage: the page of the Inspector comes to the sign-in at every server that is at fault
// with pages, since it asks by the program that serves it: no browser sends a preflight. So no client
// of the table is stopped by the findings about CORS.
func TestInspectorPage(t *testing.T) {
	for _, a := range append(zoo(), animal{name: "healthy", id: "cors", change: func(*stable) {}}) {
		if strings.HasPrefix(a.id, "cors") {
			t.Run("inspector at "+a.name, func(t *testing.T) { inspectorPage(t, a) })
		}
	}
}

func inspectorPage(t *testing.T, a animal) {
	b, target := newBridge(t, a)
	d := newDriven(t)
	d.env = append(d.env, "MCP_INSPECTOR_SECRET_STORE=memory", "MCP_AUTO_OPEN_ENABLED=false")
	ctx, cancel := context.WithTimeout(t.Context(), 2*slow)
	defer cancel()
	program, out := d.command(ctx, "inspector/node_modules/.bin/mcp-inspector", target), &buffer{}
	program.Stdout, program.Stderr = out, out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	done := startWaiting(program)
	defer func() { cancel(); <-done }()
	page := chromiumPage(t)
	page.open(waitFor(d, out, `(http://127\.0\.0\.1:\d+/?\?MCP_INSPECTOR_API_TOKEN=\w+)`))
	const connect = `input[aria-label^="Connect or disconnect"]`
	page.waits(connect)
	run(page, "connect", chromedp.Click(chromedp.CSS(connect), chromedp.NodeReady))
	var story []string
	for end := time.Now().Add(slow); !strings.Contains(strings.Join(story, "\n"), " auth.example.org/authorize "); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to the sign-in:\n%s", strings.Join(story, "\n"))
		}
		story = append(story, b.story()...)
	}
	if strings.Contains(strings.Join(story, "\n"), "OPTIONS ") {
		t.Errorf("the browser asks the servers itself:\n%s", strings.Join(story, "\n"))
	}
}
