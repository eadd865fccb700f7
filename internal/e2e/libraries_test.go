//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// libraries returns node and the folder in which small clients are installed. scripts/test
// and scripts/clients set the variables.
func libraries(t *testing.T) (node, folder string) {
	t.Helper()
	node, folder = os.Getenv("CONFORMANCE_NODE"), os.Getenv("CLIENT_LIBRARIES")
	if node == "" || folder == "" {
		t.Fatal("CONFORMANCE_NODE and CLIENT_LIBRARIES must name node 22 and the folder of the libraries in testdata/clients.txt; scripts/test sets them")
	}
	return node, folder
}

func TestAISDKSignsIn(t *testing.T) {
	t.Parallel()
	node, folder := libraries(t)
	connectsAlone(t, "ai-sdk-mcp-2.0", "http://127.0.0.1:41999/callback", []string{
		`{"connected":"notes:read notes:write"}`,
		`{"tools":["add_note","list_notes","whoami"]}`,
		`{"added":{"count":1}}`,
		`{"listed":{"notes":["milk"]},"rotated":true}`,
	}, []string{"CLIENT_LIBRARIES=" + folder}, node, filepath.Join("testdata", "aisdk.mjs"))
}

func TestMcpGoSignsIn(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "client")
	if out, err := exec.Command("go", "build", "-C", "../examples/mcpgo", "-o", program, "./client").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	connectsAlone(t, "mcp-go-1.2", "http://127.0.0.1:8085/oauth/callback", []string{
		`{"tools":["add_note","list_notes","whoami"]}`,
		`{"added":{"count":1}}`,
		`{"rotated":true}`,
	}, nil, program)
}

// openid-client compares every answer with the standards: both documents of the server, registrations
// with and without a secret, the answer of a sign-in with its issuer, rotation and revocation.
func TestOpenIDClientSignsIn(t *testing.T) {
	t.Parallel()
	node, folder := libraries(t)
	_, resource, record := startTaped(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "openidclient.mjs"), resource, "http://127.0.0.1:41999/callback")
	cmd.Env = append(cleanEnvironment(), "CLIENT_LIBRARIES="+folder)
	got := converse(t, cmd, func(page string) *url.URL { return allow(t, newBrowser(t), page) })
	var want []string
	for _, kind := range []string{"none", "basic", "post"} {
		want = append(want, `{"`+kind+`":"notes:read notes:write","called":200,"rotated":true}`, `{"revoked":"invalid_grant"}`)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the client reports\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), record.story())
	}
}

// connectsAlone has a program connect to the demo, and compares its report and its registration
// with the expected ones.
func connectsAlone(t *testing.T, profile, redirect string, want, env []string, command ...string) {
	t.Helper()
	_, resource, record := startTaped(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], resource, redirect)...)
	cmd.Env = append(cleanEnvironment(), env...)
	got := converse(t, cmd, func(page string) *url.URL { return allow(t, newBrowser(t), page) })
	if !slices.Equal(got, want) {
		t.Errorf("the client reports\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), record.story())
	}
	checkProfile(t, record, profile)
	if n := record.granted("refresh_token"); n != 1 {
		t.Errorf("%d refreshes, want the one that the program brings about", n)
	}
}

// use-mcp runs in a page, and has the person sign in in a window of its own.
func TestUseMCPSignsIn(t *testing.T) {
	t.Parallel()
	_, folder := libraries(t)
	_, resource, record := startTaped(t)
	site := httptest.NewServer(bundle(t, folder))
	t.Cleanup(site.Close)
	chrome := openChromium(t, "disable-popup-blocking") // it opens its window without a click
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(record.story(), chrome.await("#state"), chrome.await("#error"))
		}
	})
	chrome.open(site.URL + "/?server=" + url.QueryEscape(resource))
	chrome.awaits("#state", "authenticating", "pending_auth", "ready")
	window := chrome.window("/login")
	window.typeInto(`input[name="username"]`, personName)
	window.typeInto(`input[name="password"]`, personPassword+kb.Enter)
	window.click(`button[name="decision"][value="allow"]`)
	chrome.awaits("#state", "ready")
	if got := chrome.await("#tools"); got != "add_note list_notes whoami" {
		t.Errorf("tools %q", got)
	}
	chrome.click("#add")
	chrome.awaits("#added", `{"count":1}`)
	checkProfile(t, record, "use-mcp-0.0")
}

// awaits waits until an element has one of several texts.
func (c *chromium) awaits(selector string, texts ...string) {
	c.t.Helper()
	until(c.t, selector+" says "+strings.Join(texts, " or "), func() bool {
		return slices.Contains(texts, strings.TrimSpace(ask(c, selector, chromedp.Evaluate[string]("document.querySelector("+strconv.Quote(selector)+").textContent"))))
	})
}

// window waits for a window that the page has opened, at an address with a part.
func (c *chromium) window(part string) *chromium {
	c.t.Helper()
	var id target.ID
	until(c.t, "a window opens", func() bool {
		all, err := chromedp.Targets(c.ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, info := range all {
			if info.Type == "page" && strings.Contains(info.URL, part) {
				id = info.TargetID
			}
		}
		return id != ""
	})
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithTargetID(id))
	c.t.Cleanup(cancel)
	if _, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{}); err != nil {
		c.t.Fatal(err)
	}
	return &chromium{t: c.t, ctx: ctx, posts: map[string]string{}, origins: map[string][]string{}}
}

// bundle serves the page of testdata/usemcp.jsx at every path.
func bundle(t *testing.T, folder string) http.Handler {
	t.Helper()
	source, err := filepath.Abs("testdata/usemcp.jsx")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "page.js")
	cmd := exec.Command(filepath.Join(folder, "node_modules/@esbuild/linux-x64/bin/esbuild"), source, "--bundle", "--jsx=automatic",
		"--define:process.env.NODE_ENV=\"production\"", "--outfile="+script)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(folder, "node_modules"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, out)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><meta charset="utf-8"><title>use-mcp</title><div id="root"></div><script src="/page.js"></script>`))
	})
	return mux
}
