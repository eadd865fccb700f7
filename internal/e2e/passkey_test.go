//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// authenticator gives the browser an authenticator without passkeys, as one that is built into a
// device, and takes away the one before. It verifies the person until told otherwise.
func (c *chromium) authenticator() (setVerified func(bool)) {
	c.t.Helper()
	_, err1 := chromedp.Call(c.ctx, webauthn.Disable, cdp.Empty{})
	_, err2 := chromedp.Call(c.ctx, webauthn.Enable, webauthn.EnableParams{})
	if err := errors.Join(err1, err2); err != nil {
		c.t.Fatal(err)
	}
	added, err := chromedp.Call(c.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return func(verified bool) {
		c.t.Helper()
		_, err := chromedp.Call(c.ctx, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: added.AuthenticatorID, IsUserVerified: verified})
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// startNamed runs the server under the name localhost: browsers have passkeys for names only.
func startNamed(t testing.TB) (issuer string) {
	t.Helper()
	args, address := withListen(t, nil)
	_, port, _ := strings.Cut(address, ":")
	issuer = "http://localhost:" + port
	startAuthz(t, nil, append(args, "--issuer", issuer)...)
	return issuer
}

const passkeyButton = "[data-passkey] button"

// TestPasskeyInBrowser: a person makes a passkey, signs in with it without a name, and removes it.
// An authenticator that does not verify the person signs nobody in.
func TestPasskeyInBrowser(t *testing.T) {
	t.Parallel()
	issuer, chrome := startNamed(t), openChromium(t)
	setVerified := chrome.authenticator()
	chrome.open(issuer + "/account/passkeys")
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
	chrome.await("#add")
	chrome.accessibleIfAsked("passkeys-none")

	setVerified(false)
	chrome.click(passkeyButton)
	if said := chrome.await(`[data-passkey] [role="alert"]`); !strings.Contains(said, "No passkey was made") {
		t.Errorf("without verification the page says %q", said)
	}
	setVerified(true)
	chrome.click(passkeyButton)
	chrome.await("#key-0")
	chrome.accessibleIfAsked("passkeys-one")

	chrome.forgetSession()
	client := register(t, issuer, "http://127.0.0.1/callback", "Example Client")
	setVerified(false)
	chrome.open(client.authorizeURL("state"))
	chrome.click(passkeyButton)
	if said := chrome.await(`[data-passkey] [role="alert"]`); !strings.Contains(said, "No passkey was used") {
		t.Errorf("without verification the page says %q", said)
	}
	chrome.accessibleIfAsked("sign-in-no-passkey")
	setVerified(true)
	chrome.open(client.authorizeURL("state"))
	if chrome.has(passkeyButton) { // the browser may have offered the only passkey by itself
		ask(chrome, "use the passkey", chrome.clickIfThere(passkeyButton))
	}
	chrome.await(`button[name="decision"][value="allow"]`)

	chrome.open(issuer + "/account/passkeys")
	chrome.click(`button[value="remove"]`)
	chrome.await("main:not(:has(#key-0)) #add") // the page after it, without the passkey
	chrome.forgetSession()
	chrome.open(client.authorizeURL("state"))
	chrome.await(`input[name="username"], main [role="alert"]`)
	if chrome.has(passkeyButton) {
		ask(chrome, "use the removed passkey", chrome.clickIfThere(passkeyButton))
	}
	if said := chrome.await("p#problem"); !strings.Contains(said, "cannot be used here") {
		t.Errorf("the removed passkey: %q", said)
	}
	chrome.mu.Lock()
	defer chrome.mu.Unlock()
	for _, complaint := range chrome.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// TestBackToSignInAfterPasskey: a person goes back to the page that the browser kept, whose passkey was
// refused, and can use both ways to sign in there.
func TestBackToSignInAfterPasskey(t *testing.T) {
	t.Parallel()
	issuer, chrome := startNamed(t), openChromium(t)
	setVerified := chrome.authenticator()
	chrome.open(issuer + "/account/passkeys")
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
	chrome.click(passkeyButton)
	chrome.click(`button[value="remove"]`) // here, and not from the device
	chrome.await("main:not(:has(#key-0)) #add")
	chrome.forgetSession()

	setVerified(false) // a browser that answers before the page is loaded puts the next one in its place
	chrome.open(register(t, issuer, "http://127.0.0.1/callback", "Example Client").authorizeURL("state"))
	// The tools that follow a document do not notice that one comes back: the browser is asked.
	awaits := func(condition string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			met, err := chromedp.Run(chrome.ctx, chromedp.Evaluate[bool](condition))
			switch {
			case err == nil && met: // while the browser is between two pages there is an error
				return
			case time.Now().After(end):
				t.Fatalf("wait for %s: %v\n%s", condition, err, chrome.story())
			}
		}
	}
	const kept = `window.kept === true && document.querySelector("#problem") === null`
	chrome.holds(`window.kept = true`)
	setVerified(true)
	for range 2 {
		ask(chrome, "use the removed passkey", chrome.clickIfThere("main:not(:has(#problem)) "+passkeyButton)) // the browser may have by itself
		awaits(`document.querySelector("#problem") !== null`)
		chrome.holds(`(history.back(), true)`)
		awaits(kept)
	}
	chrome.holds(fmt.Sprintf(`(f => { f.username.value = %q; f.password.value = %q; f.requestSubmit(f.querySelector("button.primary")); return true; })(document.forms[0])`, personName, personPassword))
	awaits(`document.querySelector('button[name="decision"][value="allow"]') !== null`)
}

// clickIfThere clicks by script, and does nothing on a page that has moved on.
func (c *chromium) clickIfThere(selector string) chromedp.Action[bool] {
	return chromedp.Evaluate[bool](fmt.Sprintf("document.querySelector(%q)?.click(), true", selector))
}

// forgetSession drops the cookies of the browser.
func (c *chromium) forgetSession() {
	c.t.Helper()
	if _, err := chromedp.Call(c.ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
		c.t.Fatal(err)
	}
}

// accessibleIfAsked runs axe-core on the page if AXE names it.
func (c *chromium) accessibleIfAsked(name string) {
	c.t.Helper()
	if os.Getenv("AXE") != "" {
		c.checkAccessible(axe(c.t), name)
	}
}

// TestSecondFactorInBrowser walks the pages of the second factor, the password and a one-time link.
func TestSecondFactorInBrowser(t *testing.T) {
	t.Parallel()
	issuer, chrome := startNamed(t), openChromium(t)
	chrome.open(issuer + "/account/second-factor")
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
	chrome.await(`input[name="code"]`)
	chrome.accessibleIfAsked("second-factor")
	if !chrome.holds(`(b => b.width >= 200 && b.height >= 200)(document.querySelector("svg.qr").getBoundingClientRect())`) {
		t.Error("the QR code is too small to scan")
	}
	chrome.open(issuer + "/account/password")
	chrome.await(`input[name="new"]`)
	chrome.accessibleIfAsked("password")
	chrome.typeInto(`input[name="current"]`, personPassword)
	chrome.typeInto(`input[name="new"]`, "another long password"+kb.Enter)
	chrome.await("#next")
	chrome.checkCalm(issuer, 2)
}
