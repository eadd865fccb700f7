//go:build e2e

package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/upstream"
)

const upstreamRedirect = "https://auth.example.com/login/company/callback"

// panva is a running oidc-provider.
type panva struct {
	*testing.T
	issuer string
	tell   func(command string) // see testdata/oidcprovider.mjs
	stop   func()
}

// startPanva starts the provider with a client gatehouse that has a redirect URI and more metadata.
func startPanva(t *testing.T, redirect string, more map[string]any) *panva {
	t.Helper()
	node, folder := typescript(t)
	metadata := map[string]any{
		"client_id": "gatehouse", "client_secret": "secret", "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code", "refresh_token"},
	}
	maps.Copy(metadata, more)
	maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
	argument, err := json.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "oidcprovider.mjs"), string(argument))
	cmd.Env = append(cleanEnvironment(), "OIDC_PROVIDER="+folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatal("the provider ended")
		}
		return lines.Text()
	}
	p := &panva{T: t, issuer: next()}
	p.tell = func(command string) {
		t.Helper()
		if io.WriteString(in, command+"\n"); next() != command {
			t.Fatalf("the provider did not %s", command)
		}
	}
	p.stop = func() { in.Close(); cmd.Wait() }
	t.Cleanup(p.stop)
	return p
}

var formAction = regexp.MustCompile(`action="([^"]+)"`)

// visit is a browser at the provider: its person signs in with a name where that is asked, allows
// everything, and comes back to a redirect URI, which is returned unopened.
func (p *panva) visit(browser *http.Client, address, redirect, name string) (back *url.URL) {
	p.Helper()
	there := *browser
	there.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	answer, err := there.Get(address)
	for range 4 {
		if err != nil {
			p.Fatal(err)
		}
		page, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if back != nil {
			return back
		}
		action := formAction.FindStringSubmatch(string(page))
		if action == nil {
			p.Fatalf("%s: no form in %s", answer.Request.URL, page)
		}
		form := url.Values{"prompt": {"consent"}}
		if strings.Contains(string(page), `name="login"`) {
			form = url.Values{"prompt": {"login"}, "login": {name}, "password": {"any"}}
		}
		answer, err = there.PostForm(action[1], form)
	}
	p.Fatal("the browser did not come back")
	return nil
}

// otherProvider is panva's oidc-provider, our client of it, and a browser.
type otherProvider struct {
	*panva
	client  *upstream.Client
	browser *http.Client
	ahead   time.Duration // of our clock, so that no test waits for a pause
}

// startOtherProvider starts the provider with more metadata of our client, and our client with
// changes to its configuration.
func startOtherProvider(t *testing.T, more map[string]any, change func(*upstream.Provider)) *otherProvider {
	t.Helper()
	p := &otherProvider{panva: startPanva(t, upstreamRedirect, more), browser: newBrowser(t)}
	configuration := upstream.Provider{
		ID: "company", Issuer: p.issuer, ClientID: "gatehouse", ClientSecret: "secret", Recheck: time.Hour, Scopes: []string{"groups"},
		Allow: upstream.Allow{Domains: []string{"example.com"}, Groups: []string{"staff"}},
	}
	change(&configuration)
	var err error
	p.client, err = upstream.New(configuration, upstream.Options{Redirect: upstreamRedirect, Dev: true, Now: func() time.Time { return time.Now().Add(p.ahead) }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// come is the browser: it signs in as ada, and comes back.
func (p *otherProvider) come(address string) upstream.Callback {
	p.Helper()
	q := p.visit(p.browser, address, upstreamRedirect, "ada").Query()
	return upstream.Callback{Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description")}
}

func (p *otherProvider) begin(a upstream.Attempt) string {
	p.Helper()
	address, err := p.client.Begin(p.Context(), a)
	if err != nil {
		p.Fatal(err)
	}
	return address
}

func (p *otherProvider) signIn() upstream.Arrival {
	p.Helper()
	a := upstream.NewAttempt("state")
	arrived, err := p.client.Finish(p.Context(), a, p.come(p.begin(a)))
	if err != nil {
		p.Fatal(err)
	}
	return arrived
}

func (p *otherProvider) refuses(err, kind error, reason upstream.Reason) {
	p.Helper()
	var e *upstream.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Reason != reason {
		p.Errorf("error %v, want reason %s", err, reason)
	}
}

// A person signs in at panva's provider, with a secret and with a signed assertion, is asked
// about again, and is gone when the provider says so.
func TestUpstreamOIDCProvider(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := jose.JSONWebKey{Key: key.Public(), KeyID: "ours", Algorithm: "ES256", Use: "sig"}
	for name, with := range map[string]struct {
		metadata map[string]any
		change   func(*upstream.Provider)
	}{
		"secret, basic": {nil, func(*upstream.Provider) {}},
		"key": {
			map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}},
			func(p *upstream.Provider) {
				p.ClientSecret, p.ClientKey = "", &upstream.ClientKey{Signer: key, ID: "ours"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startOtherProvider(t, with.metadata, with.change)
			a := p.signIn()
			if a.Issuer != p.issuer || a.Subject != "ada" || a.Handle != "ada@example.com" || a.FullName != "Reader ada" || !a.EmailVerified || len(a.Groups) != 1 || a.RefreshToken == "" {
				t.Errorf("arrived %+v", a)
			}
			if _, err := p.client.Admits(a, nil); err != nil {
				t.Error(err)
			}
			held := upstream.Held{Issuer: a.Issuer, Subject: a.Subject, RefreshToken: a.RefreshToken}
			again, err := p.client.Recheck(t.Context(), held)
			if err != nil || again.Subject != "ada" || len(again.Groups) != 1 || again.RefreshToken == "" {
				t.Fatalf("asked again: %+v, %v", again, err)
			}
			held.RefreshToken = again.RefreshToken
			p.tell("forget")
			_, err = p.client.Recheck(t.Context(), held)
			p.refuses(err, upstream.ErrGone, upstream.ReasonGone)
			p.stop()
			_, err = p.client.Recheck(t.Context(), held)
			p.refuses(err, upstream.ErrUnknown, upstream.ReasonDown)
		})
	}
}

// What goes wrong with it is told apart: a code that was used, another sign-in's verifier or nonce, a
// callback without iss, an error, a new key, a wrong secret, and nobody there.
func TestUpstreamOIDCProviderFailures(t *testing.T) {
	t.Parallel()
	p := startOtherProvider(t, nil, func(*upstream.Provider) {})
	a := upstream.NewAttempt("state")
	finish := func(a upstream.Attempt, change func(*upstream.Callback)) error {
		back := p.come(p.begin(a))
		change(&back)
		_, err := p.client.Finish(t.Context(), a, back)
		return err
	}
	var used upstream.Callback
	if err := finish(a, func(b *upstream.Callback) { used = *b }); err != nil {
		t.Fatal(err)
	}
	_, err := p.client.Finish(t.Context(), a, used)
	p.refuses(err, upstream.ErrInvalid, upstream.ReasonCode)
	p.refuses(finish(a, func(b *upstream.Callback) { b.Issuer = "" }), upstream.ErrInvalid, upstream.ReasonIssuer)
	p.refuses(finish(a, func(b *upstream.Callback) { b.Issuer = "https://other.example.com" }), upstream.ErrInvalid, upstream.ReasonIssuer)

	back := p.come(p.begin(a))
	_, err = p.client.Finish(t.Context(), upstream.NewAttempt("state"), back)
	p.refuses(err, upstream.ErrInvalid, upstream.ReasonCode)
	other := a
	other.Nonce = "that of another sign-in"
	_, err = p.client.Finish(t.Context(), other, p.come(p.begin(a)))
	p.refuses(err, upstream.ErrInvalid, upstream.ReasonNonce)

	back = p.come(strings.Replace(p.begin(a), "prompt=consent", "prompt=none&max_age=0", 1))
	_, err = p.client.Finish(t.Context(), a, back)
	p.refuses(err, upstream.ErrDenied, upstream.ReasonDenied)

	p.tell("rotate")
	p.ahead += 5 * time.Second
	p.signIn()

	back = p.come(p.begin(a))
	p.stop()
	_, err = p.client.Finish(t.Context(), a, back)
	p.refuses(err, upstream.ErrUnavailable, upstream.ReasonDown)

	p = startOtherProvider(t, nil, func(p *upstream.Provider) { p.ClientSecret = "wrong" })
	p.refuses(finish(a, func(*upstream.Callback) {}), upstream.ErrMisconfigured, upstream.ReasonClient)
}

// logOut is a browser whose person logs out at the provider.
func (p *panva) logOut(browser *http.Client) {
	p.Helper()
	there := *browser
	there.CheckRedirect = nil
	answer, err := there.Get(p.issuer + "/session/end")
	if err != nil {
		p.Fatal(err)
	}
	page, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	secret := regexp.MustCompile(`name="xsrf" value="([^"]+)"`).FindStringSubmatch(string(page))
	if secret == nil {
		p.Fatalf("no form in %s", page)
	}
	if answer, err = there.PostForm(p.issuer+"/session/end/confirm", url.Values{"xsrf": {secret[1]}, "logout": {"yes"}}); err != nil {
		p.Fatal(err)
	}
	answer.Body.Close()
}

// A logout at panva's provider arrives as a logout token for the session and the person.
func TestUpstreamOIDCProviderLogout(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	ours := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tokens <- r.FormValue("logout_token") }))
	defer ours.Close()
	p := startOtherProvider(t, map[string]any{"backchannel_logout_uri": ours.URL, "backchannel_logout_session_required": true}, func(*upstream.Provider) {})
	a := p.signIn()
	p.logOut(p.browser)
	select {
	case token := <-tokens:
		r, err := p.client.Logout(t.Context(), token)
		if err != nil || r.Issuer != p.issuer || r.Subject != "ada" || r.SID == "" || r.SID != a.SID || r.JTI == "" {
			t.Errorf("logout %+v, %v, of the session %q", r, err, a.SID)
		}
	case <-time.After(patience):
		t.Error("no logout token came")
	}
}
