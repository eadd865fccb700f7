//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// twoServers is a configuration with the largest decision that a client can ask for at once.
const twoServers = `
resources:
  - uri: https://notes.example.com/mcp
    name: Notes
    default: true
    scopes:
      notes:read: Read your notes
      notes:write: Add and change notes
      notes:share: Share notes with other people
      notes:delete: Delete notes for good
  - uri: https://tasks.example.com/mcp
    name: Tasks of the whole team
    scopes:
      tasks:read: See your tasks and those of others in your team
      tasks:write: Change your tasks
      tasks:assign: Give tasks to other people in your team, also to those who are away
      tasks:admin: Change who is in your team
`

// TestDecisionIsInSight: on common screens Deny and Allow are visible without scrolling, however
// many scopes are requested; everything that they cover can be read and ticked; and their delay
// still applies.
func TestDecisionIsInSight(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "authz.yaml")
	if err := os.WriteFile(file, []byte(twoServers), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startAuthz(t, nil, "--config", file)
	chrome := openChromium(t)
	one := register(t, server.URL, "http://127.0.0.1/callback", "An application with a name of its own")
	ask := func(resources, scope string) string {
		address := strings.Replace(one.authorizeURL("state"), "scope=notes%3Aread+notes%3Awrite", "scope="+scope, 1)
		at := strings.Index(address, "resource=")
		end := at + strings.IndexByte(address[at:], '&')
		return address[:at] + resources + address[end:]
	}
	const notes, both = "resource=https%3A%2F%2Fnotes.example.com%2Fmcp", "resource=https%3A%2F%2Fnotes.example.com%2Fmcp&resource=https%3A%2F%2Ftasks.example.com%2Fmcp"
	const all = "notes%3Aread+notes%3Awrite+notes%3Ashare+notes%3Adelete+tasks%3Aread+tasks%3Awrite+tasks%3Aassign+tasks%3Aadmin"
	signedIn := false
	for _, size := range [][2]int64{{1280, 900}, {390, 844}, {1280, 720}, {844, 390}, {320, 480}} {
		for name, address := range map[string]string{"one scope": ask(notes, "notes%3Aread"), "two servers": ask(both, all)} {
			what := fmt.Sprintf("%dx%d, %s", size[0], size[1], name)
			chrome.do("set the screen", chromedp.EmulateViewport(size[0], size[1]))
			chrome.open(address)
			if !signedIn {
				chrome.await(`input[name="username"]`)
				chrome.typeInto(`input[name="username"]`, personName)
				chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
				signedIn = true
			}
			chrome.await(`button[name="decision"][value="allow"]`)
			chrome.checkLayout(fmt.Sprintf("decision-%d-%s", size[0], strings.ReplaceAll(name, " ", "-")))
			chrome.checkDecision(what, size[1] >= 480, map[string]int{"one scope": 1, "two servers": 8}[name])
		}
	}
	chrome.checkCalm(server.URL, 1)
}

// checkDecision checks the buttons at the beginning of the page, at every box, and at its end.
func (c *chromium) checkDecision(what string, inSight bool, boxes int) {
	c.t.Helper()
	const hit = `(e) => { const r = e.getBoundingClientRect(), top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
		return r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth && (top === e || e.contains(top)); }`
	const buttons = `[...document.querySelectorAll('button[name="decision"]')]`
	c.holds(`(scrollTo(0, 0), true)`)
	if got := c.holds(buttons + `.length === 2 && ` + buttons + `.every(` + hit + `)`); got != inSight {
		c.t.Errorf("%s: the buttons are in sight: %v", what, got)
	}
	if !c.holds(fmt.Sprintf(`document.querySelectorAll('input[name="scope"]').length === %d`, boxes)) {
		c.t.Errorf("%s: there are not %d boxes", what, boxes)
	}
	c.click(`.decision a`)
	if !c.holds(`((e) => (` + hit + `)(e))(document.querySelector('input[name="scope"]'))`) {
		c.t.Errorf("%s: the number of permissions does not lead to the first of them", what)
	}
	// A person who moves from box to box, or scrolls, sees each of them with its label.
	if !c.holds(`[...document.querySelectorAll('input[name="scope"]')].every((e) => { e.focus(); return (` + hit + `)(e); })`) {
		c.t.Errorf("%s: a box that has the focus is covered", what)
	}
	if !c.holds(`[...document.querySelectorAll('label, dd, .caution, form > .note, h2')].every((e) => { e.scrollIntoView({block: "center"}); return (` + hit + `)(e); })`) {
		c.t.Errorf("%s: something to read is covered wherever one scrolls", what)
	}
	if !c.holds(`(scrollTo(0, document.documentElement.scrollHeight), ` + buttons + `.every(` + hit + `))`) {
		c.t.Errorf("%s: the buttons are out of sight at the end of the page", what)
	}
	// The time in which a click has no effect still applies.
	if !c.holds(`(() => { const e = ` + buttons + `.find((b) => b.value === "allow"); e.style.animation = "none"; e.offsetWidth; e.style.animation = ""; const s = getComputedStyle(e);
		return s.animationName === "appear" && s.animationDuration === "0.7s" && (s.display === "none" || s.visibility === "hidden"); })()`) {
		c.t.Errorf("%s: Allow is there from the first moment", what)
	}
}
